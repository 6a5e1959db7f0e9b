"""The loops of matching, as machine code. Everything is arrays; `matches.py` says what they mean.

Ranks of an interval are [first, end). A box's rows come either from the slice of `order` that its most selective
interval selects, each row checked against the other intervals ("walk"), or, when that slice is long, from bitmaps of
the rows below a boundary, two for each interval, combined 64 rows at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millpond.synopses.compiled import compiled, trailing_zeros

_NULL, _NEVER, _LOW_CLOSED, _HIGH_CLOSED = 4, 8, 1, 2


@compiled
def plan(
    slot_first: Any,
    slot_count: Any,
    box_first: Any,
    box_end: Any,
    iv_attribute: Any,
    iv_low: Any,
    iv_high: Any,
    iv_flags: Any,
    place: Any,
    constant_at: Any,
    left: Any,
    right: Any,
    starts: Any,
    starts_at: Any,
    values: Any,
    n: Any,
    iv_first: Any,
    iv_end: Any,
    box_best: Any,
    box_slice: Any,
    expected: Any,
) -> None:
    """Ranks of every interval of the slots, the most selective one of each box, and the rows to expect of each slot.

    place: per attribute its place in the block's arrays, -1: not there, which makes `expected` infinite.
    box_best: the interval to walk (-1: every row, -2: no row), box_slice: how many rows it selects.
    """
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
    slot_first: Any,
    slot_count: Any,
    box_first: Any,
    box_end: Any,
    iv_attribute: Any,
    place: Any,
    iv_first: Any,
    iv_end: Any,
    box_best: Any,
    box_slice: Any,
    n: Any,
    codes: Any,
    order: Any,
    starts: Any,
    starts_at: Any,
    bits: Any,
    bits_at: Any,
    shift: Any,
    longest: int,
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
    (0) or every 2**shift rows of the order. longest: walk slices up to this. scratch: room for n + 1 rows; words: room
    for two bitmaps.
    """
    nwords = (n + 63) >> 6
    units = (n + 15) >> 4
    one = np.uint64(1)
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
                bitmaps = box_slice[box] > longest
                if bitmaps:
                    for i in range(b0, b1):
                        if bits_at[place[iv_attribute[i]]] < 0:
                            bitmaps = False
                if bitmaps:
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
