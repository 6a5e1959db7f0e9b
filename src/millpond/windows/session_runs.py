"""Sessions as runs of sorted rows: whole arrays in, which session each row is in and what sessions cover out.

A row reaches from its event time to a later one, both included; rows that reach one another are one session. Where a
session becomes too long it is cut: nothing of it reaches beyond the cut, and the next row begins another one.
`sessions` says the same one row at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from millpond.support.compiled import compiled
from millpond.support.distinct import distinct
from millpond.windows.candidates import Ints
from millpond.windows.row_runs import Flags, sorted_by


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
    if longest is None:
        begins = other | np.r_[True, time[1:] > _furthest(np.cumsum(other) - 1, reach)[:-1]]
    else:
        begins = _cut(other, time, reach, longest)
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


@compiled
def _cut(other: Flags, time: Ints, reach: Ints, longest: int) -> Flags:
    """Which rows begin a session, where those that are flagged are the first ones of sorted partitions."""
    begins = other.copy()
    start = furthest = 0
    for n in range(len(time)):
        if begins[n] or time[n] > furthest or time[n] >= start + longest:
            begins[n], start, furthest = True, time[n], reach[n]
        elif reach[n] > furthest:
            furthest = reach[n]
    return begins


def sessions(rows: Iterable[tuple[int, int]], longest: int | None = None) -> list[tuple[int, int, int]]:
    """The sessions of one partition, one row at a time: (start, end, rows of it).

    >>> sessions([(0, 10), (5, 15), (20, 30)])
    [(0, 15, 2), (20, 30, 1)]
    >>> sessions([(0, 10), (5, 15), (10, 20)], 10)
    [(0, 10, 2), (10, 20, 1)]
    """
    found: list[list[int]] = []
    for time, reach in sorted(rows):
        if not found or time > found[-1][1] or (longest is not None and time >= found[-1][0] + longest):
            found.append([time, reach, 0])
        found[-1][1] = max(found[-1][1], reach)
        found[-1][2] += 1
    return [(s, e if longest is None else min(e, s + longest), n) for s, e, n in found]
