"""Windows that end with rows as runs of sorted rows: whole arrays in, [low, high) per window out.

Rows lie in order of (partition, place), so that every window is one run; windows come in order of their runs, whose
bounds never go back. `row_windows` says the same one row at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from millpond.support.distinct import distinct
from millpond.windows.candidates import Ints

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Runs:
    """Windows: first and last instant (inclusive) in microseconds, number, run [low, high) of rows."""

    start: Ints
    end: Ints
    number: Ints
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.end)


def stable_order(keys: Ints) -> Ints | None:
    """The stable permutation that sorts; None when they are sorted. Few values of a small range are sorted by radix."""
    if len(keys) < 2 or bool(np.all(keys[1:] >= keys[:-1])):
        return None
    low, high = int(keys.min()), int(keys.max())
    if high - low < 2**16:
        keys = (keys - low).astype(np.uint16)  # NumPy sorts 16 bits by radix
    return np.argsort(keys, kind="stable")


def sorted_by(*keys: Ints) -> Ints | None:
    """The permutation that sorts by the first key, then the second, …; None when it is the identity."""
    order: Ints | None = None
    for key in reversed(keys):
        again = stable_order(key if order is None else key[order])
        if again is not None:
            order = again if order is None else order[again]
    return order


def firsts(partition: Ints) -> Ints:
    """For every row of sorted partitions the place of the first row of its partition."""
    if not len(partition):
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.r_[True, partition[1:] != partition[:-1]])
    return np.repeat(starts, np.diff(np.r_[starts, len(partition)]))


def numbers(partition: Ints, weight: Ints) -> Ints:
    """Running sums of weights within each of sorted partitions: the number of a row that weighs 1."""
    total = np.cumsum(weight)
    first = firsts(partition)
    return total - (total[first] - weight[first]) if len(total) else total


def runs_of_rows(partition: Ints, time: Ints, number: Ints, rows: int, slide: int, since: int, before: int) -> Runs:
    """Windows of the last `rows` rows, of those that end at since <= t < before; every row has a number."""
    chosen = (time >= since) & (time < before)
    if slide > 1:
        chosen &= number % slide == 0
    at = np.flatnonzero(chosen)
    low = np.maximum(firsts(partition)[at], at + 1 - rows)
    return Runs(time[low], time[at], number[at] // slide, low, at + 1)


class Places(Protocol):
    """An array, or what stands for one: values at places."""

    def __getitem__(self, place: Ints, /) -> Ints:
        """The values at these places."""
        ...


def runs_of_counts(held: Ints, stood: Ints, time: Places, rows: int, slide: int, since: int, before: int) -> Runs:
    """As `runs_of_rows`, where every row weighs one: only rows that end a window are looked at.

    Arguments:
        held: by partition, how many rows there are. stood: how many came before those.
        time: of rows in the order of (partition, place).

    >>> runs = runs_of_counts(np.array([1, 3]), np.array([5, 1]), np.array([7, 1, 2, 3]), 2, 2, 0, 9)
    >>> runs.end.tolist(), runs.number.tolist(), runs.low.tolist(), runs.high.tolist()
    ([7, 1, 3], [3, 1, 2], [0, 1, 2], [1, 2, 4])
    """
    first = np.cumsum(held) - held
    least = stood // slide + 1
    windows = (stood + held) // slide - least + 1
    owner = np.repeat(np.arange(len(held)), windows)
    number = least[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(windows) - windows, windows)
    at = (first - stood - 1)[owner] + number * slide
    end = time[at]
    chosen = (end >= since) & (end < before)
    if not chosen.all():
        owner, number, at, end = owner[chosen], number[chosen], at[chosen], end[chosen]
    low = np.maximum(first[owner], at + 1 - rows)
    return Runs(time[low], end, number, low, at + 1)


def runs_of_range(
    partition: Ints, time: Ints, number: Ints, numbered: Flags, size: int, slide: int, since: int, before: int
) -> Runs:
    """Windows (end - size, end] that end at since <= t < before; rows are in order of (partition, time)."""
    chosen = numbered & (time >= since) & (time < before)
    if slide > 1:
        chosen &= number % slide == 0
    at = np.flatnonzero(chosen)
    if not len(at):
        none = np.empty(0, np.int64)
        return Runs(none, none, none, none, none)
    # Rows of equal time end one window: that with the largest number.
    fresh = np.flatnonzero(np.r_[True, (time[at][1:] != time[at][:-1]) | (partition[at][1:] != partition[at][:-1])])
    last = np.maximum.reduceat(number[at], fresh)
    at = at[fresh]
    end = time[at]
    low, high = _between(partition, time, at, end - size, end)
    return Runs(end - size, end, last // slide, low, high)


def _between(partition: Ints, time: Ints, at: Ints, after: Ints, until: Ints) -> tuple[Ints, Ints]:
    """The runs of rows of the partition of row `at` with after < time <= until."""
    if partition[0] == partition[-1]:
        return np.searchsorted(time, after, "right"), np.searchsorted(time, until, "right")
    least = int(min(time.min(), after.min()))
    span = int(time.max()) - least + 1
    if span * (int(partition[-1]) + 1) < 2**62:
        code, base = partition * span + (time - least), partition[at] * span
        return np.searchsorted(code, base + (after - least), "right"), np.searchsorted(
            code, base + (until - least), "right"
        )
    times = distinct(time)
    size = len(times) + 1
    code, base = partition * size + np.searchsorted(times, time, "right"), partition[at] * size
    return (
        np.searchsorted(code, base + np.searchsorted(times, after, "right"), "right"),
        np.searchsorted(code, base + np.searchsorted(times, until, "right"), "right"),
    )


def of_passing(runs: Runs, passes: Flags) -> tuple[Ints, Ints, Ints]:
    """For rows of which only some count: (window, low, high) among those that do, of windows that hold one."""
    before = np.r_[0, np.cumsum(passes)]
    low, high = before[runs.low], before[runs.high]
    window = np.flatnonzero(high > low)
    return window, low[window], high[window]


def of_groups(runs: Runs, at: Ints, group: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """For every (window, group) that holds a row: (window, low, high) among rows in order of (group, place).

    Every row of a group proposes the windows that hold it and not its group's next row, so the work is the number of
    answers.

    Arguments:
        at: places of the rows that count, ascending within each group. group: their groups, ascending.
        size: the number of all rows.
    """
    first = np.searchsorted(runs.high, at, "right")
    upper = np.searchsorted(runs.low, at, "right") - 1
    if len(at) > 1:
        follows = group[1:] == group[:-1]
        upper[:-1] = np.where(follows, np.minimum(upper[:-1], first[1:] - 1), upper[:-1])
    count = np.maximum(0, upper - first + 1)
    row = np.repeat(np.arange(len(at)), count)
    window = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    code: Any = group * np.int64(size) + at
    low = np.searchsorted(code, group[row] * np.int64(size) + runs.low[window])
    return window, low, row + 1
