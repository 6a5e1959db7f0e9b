"""Sessions as runs of sorted rows: whole arrays in, which session each row is in and what sessions cover out.

A row reaches from its event time to a later one, both included; rows that reach one another are one run. A run may be
cut where it becomes too long: that is decided from its first row on. `sessions` says the same one row at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from millpond.support.distinct import distinct
from millpond.windows.candidates import Ints
from millpond.windows.row_runs import sorted_by


@dataclass(frozen=True)
class Sessions:
    """Sessions: the one that each row is in, by number from 0, and of each where it starts and ends.

    Numbers ascend by partition, then by start.
    """

    of_row: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)


def sessions_of(partition: Ints, time: Ints, reach: Ints, longest: int | None = None) -> Sessions:
    """The sessions of rows in any order.

    Args:
        partition: a number for the partition of each row. time, reach: from where to where it reaches (microseconds).
        longest: a row so long after the first one of its session begins another; None: none does.

    >>> found = sessions_of(np.array([0, 0, 0]), np.array([20, 0, 5]), np.array([30, 10, 15]))
    >>> found.of_row.tolist(), found.start.tolist(), found.end.tolist()
    ([1, 0, 0], [0, 20], [15, 30])
    """
    if not len(time):
        none = np.empty(0, np.int64)
        return Sessions(none, none, none)
    order = sorted_by(partition, time)
    if order is not None:
        partition, time, reach = partition[order], time[order], reach[order]
    other = np.r_[True, partition[1:] != partition[:-1]]
    furthest = _furthest(np.cumsum(other) - 1, reach)
    begins = other | np.r_[True, time[1:] > furthest[:-1]]
    if longest is not None:
        begins = _cut(np.flatnonzero(begins), time, longest)
    first = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    start, end = time[first], np.maximum.reduceat(reach, first)
    if longest is not None:
        end = np.minimum(end, start + longest)
    if order is None:
        return Sessions(number, start, end)
    of_row = np.empty(len(number), np.int64)
    of_row[order] = number
    return Sessions(of_row, start, end)


def _furthest(partition: Ints, reach: Ints) -> Ints:
    """For each row of sorted partitions, numbered from 0: the furthest that it or one before it reaches."""
    same = partition[1:] == partition[:-1]
    if bool(np.all(reach[1:][same] >= reach[:-1][same])):
        return reach
    values = distinct(reach)
    size = np.int64(len(values))
    found: Ints = np.maximum.accumulate(partition * size + np.searchsorted(values, reach))
    return values[found - partition * size]


def _cut(first: Ints, time: Ints, longest: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows begin a session, where those at the places `first` begin a run.

    From the first row of a run on, the first row that comes `longest` after the one that began a session begins the
    next.
    """
    size = len(time)
    begins = np.zeros(size, bool)
    begins[first] = True
    last = np.r_[first[1:], size] - 1
    long = time[last] - time[first] >= longest
    at, end = first[long], last[long]
    if not len(at):
        return begins
    # Runs one behind the other on one axis of times, so that one search finds the next row in each of them.
    times = distinct(time)
    width = np.int64(len(times) + 1)
    run = np.repeat(np.arange(len(first)), np.diff(np.r_[first, size]))
    code = run * width + np.searchsorted(times, time)
    while len(at):
        wanted = run[at] * width + np.searchsorted(times, time[at] + longest)
        at = np.searchsorted(code, wanted)
        inside = at <= end
        at, end = at[inside], end[inside]
        begins[at] = True
    return begins


def sessions(rows: Iterable[tuple[int, int]], longest: int | None = None) -> list[tuple[int, int, int]]:
    """The sessions of one partition, one row at a time: (start, end, rows of it).

    >>> sessions([(0, 10), (5, 15), (20, 30)])
    [(0, 15, 2), (20, 30, 1)]
    >>> sessions([(0, 10), (5, 15), (10, 20)], 10)
    [(0, 10, 2), (10, 20, 1)]
    """
    found: list[list[int]] = []
    furthest = 0  # that a row of the run reaches
    for time, reach in sorted(rows):
        joins = bool(found) and time <= furthest
        furthest = max(furthest, reach) if joins else reach
        if not joins or (longest is not None and time >= found[-1][0] + longest):
            found.append([time, reach, 0])
        found[-1][1] = max(found[-1][1], reach)
        found[-1][2] += 1
    return [(s, e if longest is None else min(e, s + longest), n) for s, e, n in found]
