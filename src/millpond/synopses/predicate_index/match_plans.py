"""How all queries are matched with a block: ranks of all intervals, what rows to expect, the cheapest way for each box.

A plan is made for one block and one table; `probe` has the loops, `matches` what is done with a plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.synopses.blocks import Block
from millpond.synopses.predicate_index import grid, probe
from millpond.synopses.predicate_index.boxes import Compiled

#: Attributes that take part in matching a block; queries that use rarer ones stay factored.
MAX_ATTRIBUTES = 256

#: Nanoseconds, about: of a walked row, a row in a cell, a run of cells, a word of a bitmap,
#: a word of what sorts many rows, a box.
PRICES = (3.0, 1.5, 5.0, 0.7, 1.2, 60.0)

#: Nanoseconds for looking at an interval, which comes before everything else.
PLANNED = 75.0

# Bitmaps and grids are made for a block where they pay that.
_BITMAPS_PAY = 64  # boxes that use them, per attribute
_GRID_PAYS = 6.0  # nanoseconds saved per row and attribute
_SAMPLED = 1024  # queries whose intervals say what grid is best
_RANK_BOUNDARIES = 512
_SHIFT = 8


class Plan:
    """A block prepared for a table: ranks of all intervals, rows to expect of all queries."""

    def __init__(self, block: Block, table: Compiled) -> None:
        self.n = len(block)
        wanted = wanted_attributes(table)
        self.indexes = block.indexes([table.attributes[i] for i in wanted])
        self.place = np.full(len(table.attributes) + 1, -1, np.int32)
        self.place[wanted] = np.arange(len(wanted), dtype=np.int32)
        left = np.zeros(int(table.constant_at[-1]) + 1, np.int32)
        right = np.zeros_like(left)
        for i, index in zip(wanted, self.indexes, strict=True):
            constants, ids = table.constants[i]
            at = int(table.constant_at[i])
            left[at + ids], right[at + ids] = ranks_of(index.values, constants)
        self.starts = np.concatenate([index.starts for index in self.indexes] or [np.zeros(1, np.int32)])
        lengths = [len(index.starts) for index in self.indexes]
        self.starts_at = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        values = np.array([len(index.values) for index in self.indexes] or [0], np.int64)
        self.iv_first = np.zeros(len(table.iv_low) + 1, np.int32)
        self.iv_end = np.zeros_like(self.iv_first)
        self.box_best = np.full(len(table.box_first) + 1, -2, np.int32)
        self.boxes = probe.Ranked(
            table.slot_first,
            table.slot_count,
            table.box_first,
            table.box_end,
            table.iv_attribute,
            self.place,
            self.iv_first,
            self.iv_end,
            self.box_best,
            np.zeros(len(table.box_first) + 1, np.int32),
            self.starts,
            self.starts_at,
        )
        self.expected = np.zeros(len(table.queries), np.float64)
        probe.plan(
            self.boxes,
            table.iv_low,
            table.iv_high,
            table.iv_flags,
            table.constant_at,
            left,
            right,
            values,
            self.n,
            self.expected,
        )

    def shares(self, table: Compiled, slots: npt.NDArray[np.int64]) -> list[npt.NDArray[np.float64]]:
        """Per attribute of the block the shares of its rows that the intervals of some slots select."""
        boxes = _ranges(table.slot_first[slots], table.slot_count[slots])
        boxes = boxes[self.box_best[boxes] >= 0]
        intervals = _ranges(table.box_first[boxes], table.box_end[boxes] - table.box_first[boxes])
        places = self.place[table.iv_attribute[intervals]]
        at = self.starts_at[places]
        rows = self.starts[at + self.iv_end[intervals]] - self.starts[at + self.iv_first[intervals]]
        return [rows[places == p] / self.n for p in range(len(self.indexes))]


def wanted_attributes(table: Compiled) -> npt.NDArray[np.int64]:
    """The attributes that take part: those of most use, if there are many."""
    wanted: npt.NDArray[np.int64] = np.flatnonzero(table.uses > 0)
    if len(wanted) > MAX_ATTRIBUTES:
        wanted = np.sort(wanted[np.argsort(-table.uses[wanted], kind="stable")[:MAX_ATTRIBUTES]]).astype(np.int64)
    return wanted


def _ranges(first: npt.NDArray[Any], count: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """first[0], first[0] + 1, … count[0] of them, then those of first[1] …"""
    ends = np.cumsum(count, dtype=np.int64)
    nth = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - count, count)
    made: npt.NDArray[np.int64] = np.repeat(first.astype(np.int64), count) + nth
    return made


def ranks_of(
    values: npt.NDArray[Any], constants: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """How many values are below each constant, and how many are not above it; both arrays ascend and are distinct."""
    if len(constants) <= len(values):
        return (
            np.searchsorted(values, constants, "left").astype(np.int32),
            np.searchsorted(values, constants, "right").astype(np.int32),
        )
    # Fewer searches the other way round: a value is below exactly the constants behind its place.
    size = len(constants) + 1
    below = np.bincount(np.searchsorted(constants, values, "right"), minlength=size)
    upto = np.bincount(np.searchsorted(constants, values, "left"), minlength=size)
    return np.cumsum(below)[:-1].astype(np.int32), np.cumsum(upto)[:-1].astype(np.int32)


@dataclass(frozen=True, eq=False)
class Ways:
    """How the rows of each box are found. cost: nanoseconds for each chosen query, about."""

    way: npt.NDArray[np.uint8]
    cost: npt.NDArray[np.float64]
    layout: grid.Layout
    bitmaps: bool


def ways_of(plan: Plan, table: Compiled, chosen: npt.NDArray[np.int64]) -> Ways:
    """The cheapest ways, and whether a grid and bitmaps are to be made for them."""
    plain = grid.no_layout(len(plan.indexes), len(plan.starts))
    ways = _choose(plan, table, chosen, plain)
    worth = _GRID_PAYS * plan.n * max(1, len(plan.indexes))
    if float(ways.cost.sum()) > worth:
        some = chosen[:: max(1, len(chosen) // _SAMPLED)]
        made = grid.layout(plan.shares(table, some), plan.indexes, plan.starts_at, len(plan.starts), plan.n)
        if made.cells > 1:
            other = _choose(plan, table, chosen, made)
            if float(ways.cost.sum()) - float(other.cost.sum()) > worth:
                return other
    return ways


def _choose(plan: Plan, table: Compiled, chosen: npt.NDArray[np.int64], layout: grid.Layout) -> Ways:
    way = np.zeros(len(table.box_first) + 1, np.uint8)
    cost = np.zeros(len(chosen), np.float64)
    prices = np.array(PRICES, np.float64)
    for _ in range(2):
        _, bitmaps = probe.choose(chosen, plan.boxes, plan.expected, plan.n, layout.buckets, prices, way, cost)
        if not bitmaps or bitmaps >= _BITMAPS_PAY * len(plan.indexes):
            break
        prices[3] = np.inf
    return Ways(way, cost, layout, bitmaps > 0 and bool(np.isfinite(prices[3])))


def bitmaps_of(plan: Plan, ways: Ways) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Bitmaps of the rows below boundaries for every attribute, if boxes will use them."""
    words = (plan.n + 63) >> 6
    at = np.full(max(1, len(plan.indexes)), -1, np.int64)
    shift = np.zeros(len(at), np.int64)
    if not ways.bitmaps:
        return np.zeros((1, words), np.uint64), at, shift
    cuts = []
    for p, index in enumerate(plan.indexes):
        if len(index.starts) <= _RANK_BOUNDARIES:
            cuts.append(index.starts.astype(np.int64))
        else:
            shift[p] = _SHIFT
            cuts.append(np.minimum(np.arange((plan.n + 255) // 256 + 1) << _SHIFT, plan.n))
    at[:] = np.concatenate(([0], np.cumsum([len(c) for c in cuts])))[:-1]
    bits = np.empty((sum(len(c) for c in cuts), words), np.uint64)
    for p, index in enumerate(plan.indexes):
        probe.boundaries(index.order, cuts[p], bits[at[p] : at[p] + len(cuts[p])])
    return bits, at, shift
