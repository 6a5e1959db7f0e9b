"""Which (group, window) pairs have an answer, and which run of pane rows each is made of: on sorted arrays.

A window without a tuple is never enumerated: every pane row of a group proposes the ends up to its next row, so the
work is the number of answers, whatever the gaps in time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millpond.support.distinct import distinct

Ints = NDArray[np.int64]

#: How far rows reach: see `Rows.ends`.
Reach = int | Callable[[Ints], Ints] | None

#: Answers that windows which never end may give at once: every window since a group's first row is reported.
MOST_ENDS = 20_000_000


@dataclass(frozen=True)
class Rows:
    """Pane rows sorted by (group, pane), with an index that finds runs of panes of a group.

    group, pane: int64 arrays of the same length, sorted by group, then pane, no pair twice.
    """

    group: Ints
    pane: Ints
    panes: Ints
    code: Ints

    @staticmethod
    def sort(group: Ints, pane: Ints) -> tuple[Rows, Ints]:
        """Sorted rows and the permutation that sorts them."""
        panes = distinct(pane)
        code = group * np.int64(max(1, len(panes))) + np.searchsorted(panes, pane)
        if len(code) < 2 or bool(np.all(code[1:] > code[:-1])):
            order = np.arange(len(code))
        else:
            order = np.argsort(code, kind="stable")
        return Rows(group[order], pane[order], panes, code[order]), order

    def runs(self, group: Ints, end: Ints, width: int | Ints) -> tuple[Ints, Ints]:
        """For windows of `width` panes (of each, or of all) before pane `end`: the [low, high) run of rows of each."""
        size = np.int64(max(1, len(self.panes)))
        base = group * size
        low = np.searchsorted(self.code, base + np.searchsorted(self.panes, end - width))
        high = np.searchsorted(self.code, base + np.searchsorted(self.panes, end))
        return low, high

    def ends(
        self, shape: tuple[int, int, int], after: int | Ints, until: int | Ints, reach: Reach = None
    ) -> tuple[Ints, Ints]:
        """All (group, end) with after < end <= until that have a pane row in the `reach` panes before `end`.

        Arguments:
            shape: (panes per window, panes per slide, offset) of `Panes.shape`.
            after, until: bounds of the ends, as pane numbers: the same for all, or for each row (equal in a group).
            reach: panes before an end that count; default: the window. More reports windows that are empty. Or a
                function that gives the last end that each pane counts in, where windows differ in length.

        Raises:
            ValueError: windows are reported without rows, and these are too many.
        """
        width, step, offset = shape
        reach = width if reach is None else reach
        if not len(self.pane):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        upper = reach(self.pane) if callable(reach) else self.pane + reach
        follows = self.group[1:] == self.group[:-1]
        upper[:-1] = np.where(follows, np.minimum(upper[:-1], self.pane[1:]), upper[:-1])
        upper = np.minimum(upper, until)
        lower = np.maximum(self.pane + 1, after + 1)
        first = offset - ((offset - lower) // step) * step
        count = np.maximum(0, (upper - first) // step + 1)
        total = int(count.sum())
        if total > MOST_ENDS and (callable(reach) or reach > width):
            what = "a window that grows has" if callable(reach) else "windows without a row have"
            raise ValueError(f"{what} {total} answers at once; at most {MOST_ENDS} are allowed")
        row = np.repeat(np.arange(len(count)), count)
        nth = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
        return self.group[row], first[row] + nth * step


def late_pairs(
    group: Ints, pane: Ints, shape: tuple[int, int, int], after: int, until: int | Ints, reach: Reach = None
) -> tuple[Ints, Ints]:
    """The (group, end) pairs of already closed windows (after < end <= until) that new pane rows fall into."""
    if not len(group):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows, order = Rows.sort(group, pane)
    until = until[order] if isinstance(until, np.ndarray) else until
    return rows.ends(shape, after, until, reach)


def fold(values: tuple[Any, ...], low: Ints, high: Ints, combine: Any, identity: tuple[Any, ...]) -> tuple[Any, ...]:
    """Combine each run [low, high) of rows, in order, with an associative operation, in O(log n) array passes.

    Windows of any length are composed of power-of-two blocks of rows, which are built level by level; no inverse is
    needed, so minima and floating sums are exact to the operation.

    Arguments:
        values: arrays of the same length, the parts of one accumulator.
        combine: (left parts, right parts) -> parts, on whole arrays.
        identity: the parts of the empty run, scalars.
    """
    length = high - low
    result = tuple(np.full(len(low), i, v.dtype) for v, i in zip(values, identity, strict=True))
    position = low.copy()
    level, longest, bit = values, int(length.max(initial=0)), 0
    while (1 << bit) <= longest:
        block = 1 << bit
        chosen = np.nonzero(length & block)[0]
        if len(chosen):
            at = position[chosen]
            merged = combine(tuple(r[chosen] for r in result), tuple(v[at] for v in level))
            for r, m in zip(result, merged, strict=True):
                r[chosen] = m
            position[chosen] += block
        if (block << 1) <= longest:
            level = combine(tuple(v[:-block] for v in level), tuple(v[block:] for v in level))
        bit += 1
    return result
