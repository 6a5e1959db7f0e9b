"""The loops of matching, as machine code. Everything is arrays; `matches.py` says what they mean.

Ranks of an interval are [first, end). A box's rows come from where they are cheapest to find: from the slice of `order`
that its most selective interval selects, each row checked against the other intervals (WALK); from the cells of a grid
over several attributes that the box touches, each row checked against all intervals (GRID); or from bitmaps of the
rows below a boundary, two for each interval, combined 64 rows at a time (BITS).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from millpond.support.compiled import compiled, trailing_zeros

_NULL, _NEVER, _LOW_CLOSED, _HIGH_CLOSED = 4, 8, 1, 2

#: The ways to find a box's rows.
WALK, GRID, BITS = 0, 1, 2

_LANE = 0x7FFF
_HIGH_BITS = np.uint64(0x8000_8000_8000_8000)


class Ranked(NamedTuple):
    """Boxes over a block, as arrays: those of `boxes.Compiled`, and of `match_plans.Plan` what `plan` makes of them."""

    slot_first: Any
    slot_count: Any
    box_first: Any
    box_end: Any
    iv_attribute: Any
    place: Any
    iv_first: Any
    iv_end: Any
    box_best: Any
    box_slice: Any
    starts: Any
    starts_at: Any


class Buckets(NamedTuple):
    """A grid's layout as arrays.

    grid: per attribute of the block its dimension in the grid, -1: none. sizes: buckets per dimension; all 1: no grid.
    bucket: of each rank, laid out as `starts`.
    """

    grid: Any
    sizes: Any
    bucket: Any


@compiled
def plan(
    boxes: Ranked,
    iv_low: Any,
    iv_high: Any,
    iv_flags: Any,
    constant_at: Any,
    left: Any,
    right: Any,
    values: Any,
    n: Any,
    expected: Any,
) -> None:
    """Ranks of every interval of the slots, the most selective one of each box, and the rows to expect of each slot.

    place: per attribute its place in the block's arrays, -1: not there, which makes `expected` infinite. Filled in are
    iv_first and iv_end; box_best: the interval to walk (-1: every row, -2: no row); box_slice: how many rows it
    selects; and `expected`.
    """
    slot_first, slot_count, box_first, box_end, iv_attribute, place = boxes[:6]
    iv_first, iv_end, box_best, box_slice, starts, starts_at = boxes[6:]
    for slot in range(len(slot_first)):
        total = 0.0
        for box in range(slot_first[slot], slot_first[slot] + slot_count[slot]):
            rate = 1.0
            best = -1
            least = n
            for i in range(box_first[box], box_end[box]):
                attribute = iv_attribute[i]
                at = place[attribute]
                if at < 0:
                    rate = np.inf
                    break
                base = constant_at[attribute]
                size = values[at]
                flags = iv_flags[i]
                first = 0
                end = size
                if flags & _NULL:
                    first = size
                    end = size + 1
                elif flags & _NEVER:
                    end = 0
                else:
                    if iv_low[i] >= 0:
                        first = left[base + iv_low[i]] if flags & _LOW_CLOSED else right[base + iv_low[i]]
                    if iv_high[i] >= 0:
                        end = right[base + iv_high[i]] if flags & _HIGH_CLOSED else left[base + iv_high[i]]
                iv_first[i] = first
                iv_end[i] = end
                rows = 0
                if first < end:
                    rows = starts[starts_at[at] + end] - starts[starts_at[at] + first]
                if rows == 0:
                    best = -2
                    least = 0
                    rate = 0.0
                    break
                rate *= rows / n
                if rows < least or best == -1:
                    least = rows
                    best = i
            box_best[box] = best
            box_slice[box] = least
            total += rate
        expected[slot] = total * n


@compiled
def spans(begin: int, end: int, boxes: Ranked, buckets: Buckets, low: Any, high: Any) -> int:
    """Per dimension of a grid the buckets [low, high) that the intervals begin … end touch; how many runs of cells."""
    iv_attribute, place, iv_first, iv_end = boxes[4:8]
    starts_at = boxes.starts_at
    grid, sizes, bucket = buckets
    for d in range(4):
        low[d] = 0
        high[d] = sizes[d]
    for i in range(begin, end):
        p = place[iv_attribute[i]]
        d = grid[p]
        if d >= 0:
            low[d] = max(low[d], bucket[starts_at[p] + iv_first[i]])
            high[d] = min(high[d], bucket[starts_at[p] + iv_end[i] - 1] + 1)
    runs = 1
    for d in range(4):
        if low[d] >= high[d]:
            return 0
        if d < 3:
            runs *= high[d] - low[d]
    return runs


@compiled
def choose(
    chosen: Any,
    boxes: Ranked,
    expected: Any,
    n: int,
    buckets: Buckets,
    prices: Any,
    way: Any,
    cost: Any,
) -> tuple[int, int]:
    """The cheapest way for each box of the chosen slots, and what each slot will cost, in nanoseconds, about.

    prices: of a walked row, a row in a cell, a run of cells, a word of a bitmap, a word of what sorts many rows, a box.
    Returns how many boxes take the grid and how many take bitmaps.
    """
    slot_first, slot_count, box_first, box_end = boxes[:4]
    box_best, box_slice = boxes.box_best, boxes.box_slice
    sizes = buckets.sizes
    cells = sizes[0] * sizes[1] * sizes[2] * sizes[3]
    low = np.zeros(4, np.int64)
    high = np.zeros(4, np.int64)
    grids = 0
    bitmaps = 0
    for s in range(len(chosen)):
        slot = chosen[s]
        total = 0.0
        for box in range(slot_first[slot], slot_first[slot] + slot_count[slot]):
            way[box] = WALK
            if box_best[box] == -2:
                continue
            if box_best[box] == -1:
                total += n * prices[1]
                continue
            factors = box_end[box] - box_first[box]
            price = box_slice[box] * prices[0]
            sorting = (n >> 6) * prices[4] if expected[slot] > 48 else 0.0
            price += sorting
            if cells > 1:
                runs = spans(box_first[box], box_end[box], boxes, buckets, low, high)
                rows = n / cells * runs * (high[3] - low[3])
                other = rows * prices[1] + runs * prices[2] + sorting
                if other < price:
                    price = other
                    way[box] = GRID
            other = factors * (n >> 6) * prices[3]
            if other < price:
                price = other
                way[box] = BITS
            grids += way[box] == GRID
            bitmaps += way[box] == BITS
            total += price + prices[5]
        cost[s] = total
    return grids, bitmaps


@compiled
def sort_cells(cell: Any, first: Any, row: Any) -> None:
    """Rows by cell: those of cell c are row[first[c]:first[c + 1]], ascending. `first` is all 0 before."""
    for k in range(len(cell)):
        first[cell[k] + 1] += 1
    for c in range(1, len(first)):
        first[c] += first[c - 1]
    at = first[:-1].copy()
    for k in range(len(cell)):
        c = cell[k]
        row[at[c]] = k
        at[c] += 1


@compiled
def boundaries(order: Any, cuts: Any, bits: Any) -> None:
    """Row b of `bits`: the rows at `order[:cuts[b]]`, a bit per row. `cuts` ascends from 0."""
    words = bits.shape[1]
    bits[0, :] = 0
    at = 0
    for b in range(1, len(cuts)):
        for w in range(words):
            bits[b, w] = bits[b - 1, w]
        for k in range(at, cuts[b]):
            row = np.int64(order[k])
            bits[b, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
        at = cuts[b]


@compiled
def walk(
    chosen: Any,
    begin: int,
    boxes: Ranked,
    n: Any,
    codes: Any,
    order: Any,
    bits: Any,
    bits_at: Any,
    shift: Any,
    way: Any,
    buckets: Buckets,
    cell_first: Any,
    cell_row: Any,
    packed: Any,
    halved: Any,
    out: Any,
    at: Any,
    ends: Any,
    dense: Any,
    scratch: Any,
    words: Any,
) -> tuple[int, int]:
    """Row sets of slots chosen[begin:], behind each other in `out` from place `at`; `ends[i]` is where the i-th ends.

    A set with more rows than its bitmap has 16-bit words is written as that bitmap, and `dense[i]` set. Returns the
    next slot to do and the next free place; stops early when `out` may be too small for the next one.

    bits: bitmaps of boundaries, those of attribute a from row bits_at[a] (-1: none); shift[a]: boundaries are ranks
    (0) or every 2**shift rows of the order. way: of each box. cell_first, cell_row: see `sort_cells`; packed: per row
    of `cell_row` its ranks in the grid's dimensions, 15 bits each; those of dimensions with `halved` are halved to fit.
    scratch: room for n + 1 rows; words: for two bitmaps.
    """
    slot_first, slot_count, box_first, box_end, iv_attribute, place = boxes[:6]
    iv_first, iv_end, box_best, box_slice, starts, starts_at = boxes[6:]
    grid, sizes = buckets.grid, buckets.sizes
    nwords = (n + 63) >> 6
    units = (n + 15) >> 4
    one = np.uint64(1)
    low = np.zeros(4, np.int64)
    high = np.zeros(4, np.int64)
    lane_low = np.zeros(4, np.int64)
    lane_high = np.zeros(4, np.int64)
    for s in range(begin, len(chosen)):
        if at + n + 64 > len(out):
            return s, at
        slot = chosen[s]
        several = slot_count[slot] > 1
        start = at
        if several:
            for w in range(nwords):
                words[1, w] = 0
        for box in range(slot_first[slot], slot_first[slot] + slot_count[slot]):
            best = box_best[box]
            if best == -2:
                continue
            at = start
            ordered = True
            b0 = box_first[box]
            b1 = box_end[box]
            if best == -1:
                for every in range(n):
                    out[at + every] = every
                at += n
            else:
                how = way[box]
                found = np.uint64(0)
                if how == GRID:
                    runs = spans(b0, b1, boxes, buckets, low, high)
                    for d in range(4):
                        lane_low[d] = 0
                        lane_high[d] = _LANE
                    for i in range(b0, b1):
                        p = place[iv_attribute[i]]
                        d = grid[p]
                        if d >= 0:
                            lane_low[d] = max(lane_low[d], iv_first[i] >> halved[d])
                            lane_high[d] = min(lane_high[d], (iv_end[i] - 1) >> halved[d])
                    least = np.uint64(0)
                    most = _HIGH_BITS
                    for d in range(4):
                        least |= np.uint64(lane_low[d]) << np.uint64(16 * d)
                        most |= np.uint64(max(lane_high[d], 0)) << np.uint64(16 * d)
                    # Where attributes depend on each other, rows crowd in few cells: walking is no worse then.
                    patience = np.uint64(2 * box_slice[box] + 64)
                    x0, x1, x2 = low[0], low[1], low[2]
                    for _ in range(runs):
                        base = ((x0 * sizes[1] + x1) * sizes[2] + x2) * sizes[3]
                        k0 = np.uint64(cell_first[base + low[3]])
                        k1 = np.uint64(cell_first[base + high[3]])
                        if k1 - k0 > patience:
                            how = WALK
                            break
                        patience -= k1 - k0
                        for k in range(k0, k1):
                            # Four comparisons at once: no lane borrows where its rank is within bounds.
                            ranks = packed[k]
                            if ((ranks | _HIGH_BITS) - least) & (most - ranks) & _HIGH_BITS == _HIGH_BITS:
                                scratch[found] = cell_row[k]
                                found += one
                        x2 += 1
                        if x2 == high[2]:
                            x2 = low[2]
                            x1 += 1
                            if x1 == high[1]:
                                x1 = low[1]
                                x0 += 1
                if how == BITS:
                    exact = True
                    for i in range(b0, b1):
                        p = place[iv_attribute[i]]
                        x: Any = bits_at[p] + iv_first[i]
                        y: Any = bits_at[p] + iv_end[i]
                        if shift[p] != 0:
                            exact = False
                            x = bits_at[p] + (starts[starts_at[p] + iv_first[i]] >> shift[p])
                            y = starts[starts_at[p] + iv_end[i]] + (1 << shift[p]) - 1
                            y = bits_at[p] + (y >> shift[p])
                        below = bits[x]
                        above = bits[y]
                        if i == b0:
                            for w in range(nwords):
                                words[0, w] = above[w] & ~below[w]
                        else:
                            for w in range(nwords):
                                words[0, w] &= above[w] & ~below[w]
                    for w in range(nwords):
                        word = words[0, w]
                        while word != 0:
                            out[at] = (w << 6) + np.int64(trailing_zeros(word))
                            at += 1
                            word &= word - one
                    if not exact:
                        top = at
                        at = start
                        for k in range(start, top):
                            row = out[k]
                            ok = True
                            for i in range(b0, b1):
                                p = place[iv_attribute[i]]
                                if shift[p] != 0:
                                    code = np.int64(codes[p, row])
                                    ok = ok and code >= iv_first[i] and code < iv_end[i]
                            out[at] = row
                            at += ok
                elif how == GRID:
                    ordered = False
                    size = np.int64(found)
                    for i in range(b0, b1):
                        p = place[iv_attribute[i]]
                        d = grid[p]
                        if d < 0 or halved[d] != 0:
                            lane = codes[p]
                            first = np.uint32(iv_first[i])
                            width = np.uint32(iv_end[i] - iv_first[i])
                            left: Any = 0
                            for k in range(size):
                                row = scratch[k]
                                scratch[left] = row
                                left += np.uint32(np.uint32(lane[row]) - first) < width
                            size = left
                    for k in range(size):
                        out[at + k] = scratch[k]
                    at += size
                else:
                    p = place[iv_attribute[best]]
                    ordered = iv_end[best] - iv_first[best] == 1
                    k0 = starts[starts_at[p] + iv_first[best]]
                    k1 = starts[starts_at[p] + iv_end[best]]
                    source = order[p, k0:k1]
                    size = k1 - k0
                    # Interval by interval over what is left: each pass is a short loop without branches.
                    done = False
                    for i in range(b0, b1):
                        if i == best:
                            continue
                        lane = codes[place[iv_attribute[i]]]
                        first = np.uint32(iv_first[i])
                        width = np.uint32(iv_end[i] - iv_first[i])
                        kept: Any = 0
                        if not done:
                            for k in range(size):
                                row = source[k]
                                scratch[kept] = row
                                kept += np.uint32(np.uint32(lane[row]) - first) < width
                        else:
                            for k in range(size):
                                row = scratch[k]
                                scratch[kept] = row
                                kept += np.uint32(np.uint32(lane[row]) - first) < width
                        done = True
                        size = kept
                    if done:
                        for k in range(size):
                            out[at + k] = scratch[k]
                    else:
                        for k in range(size):
                            out[at + k] = source[k]
                    at += size
            if several:
                for k in range(start, at):
                    row = np.int64(out[k])
                    words[1, row >> 6] |= one << np.uint64(row & 63)
                at = start
            elif not ordered:
                count = at - start
                if count <= 48:
                    for k in range(start + 1, at):
                        row = out[k]
                        j = k - 1
                        while j >= start and out[j] > row:
                            out[j + 1] = out[j]
                            j -= 1
                        out[j + 1] = row
                else:
                    for w in range(nwords):
                        words[0, w] = 0
                    for k in range(start, at):
                        row = np.int64(out[k])
                        words[0, row >> 6] |= one << np.uint64(row & 63)
                    at = start
                    for w in range(nwords):
                        word = words[0, w]
                        while word != 0:
                            out[at] = (w << 6) + np.int64(trailing_zeros(word))
                            at += 1
                            word &= word - one
        if several:
            at = start
            for w in range(nwords):
                word = words[1, w]
                while word != 0:
                    out[at] = (w << 6) + np.int64(trailing_zeros(word))
                    at += 1
                    word &= word - one
        if at - start > units:
            for w in range(nwords):
                words[0, w] = 0
            for k in range(start, at):
                row = np.int64(out[k])
                words[0, row >> 6] |= one << np.uint64(row & 63)
            for u in range(units):
                out[start + u] = np.uint16((words[0, u >> 2] >> np.uint64((u & 3) << 4)) & np.uint64(0xFFFF))
            at = start + units
            dense[s] = True
        ends[s] = at
    return len(chosen), at
