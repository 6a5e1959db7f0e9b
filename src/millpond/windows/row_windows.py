"""windows(), extent() and wids() of windows that end with rows (Li 2008, section 5.3, Eq 5.4-5.6 and 5.10-5.18).

Pure functions over a finite set of rows, for tests and for reading; the engine uses `row_runs`, which is tested against
them. A row is (event time, id, partition); ids are given in the order of arrival. Rows are numbered from 1 within their
partition: by rank in (event time, id), or by id. A window ends with each row whose number is a multiple of SLIDE.

Duality: row in extent(w)  <=>  w in wids(row).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from millpond.types import CountWindow, RowWindow, SpanWindow


class StreamRow(NamedTuple):
    """A row as windows see it: event time in microseconds, id (order of arrival), values of PARTITION BY."""

    time: int
    id: int
    partition: Hashable = None


class RowWid(NamedTuple):
    """The id of a window: its partition, the event time of its last row, its number."""

    partition: Hashable
    end: int
    number: int


def _order(window: RowWindow, row: StreamRow) -> tuple[int, int]:
    return (row.time, row.id) if window.numbered == "rank" else (row.id, 0)


def numbers(window: RowWindow, rows: Sequence[StreamRow]) -> dict[StreamRow, int]:
    """The number of every row within its partition, from 1.

    >>> late = [StreamRow(10, 1), StreamRow(5, 2)]
    >>> numbers(CountWindow(rows=1), late)[late[0]], numbers(CountWindow(rows=1, numbered="arrival"), late)[late[0]]
    (2, 1)
    """
    counted: dict[Hashable, int] = {}
    found: dict[StreamRow, int] = {}
    for row in sorted(rows, key=lambda r: _order(window, r)):
        counted[row.partition] = counted.get(row.partition, 0) + 1
        found[row] = counted[row.partition]
    return found


def windows(window: RowWindow, rows: Sequence[StreamRow]) -> list[RowWid]:
    """The ids of all windows of a set of rows, by end and number.

    Windows over time are the set of their ends (Eq 5.10, 5.13, 5.16): rows of equal time give one, whose number is the
    largest.

    >>> windows(SpanWindow(range=10), [StreamRow(0, 1), StreamRow(0, 2)])
    [RowWid(partition=None, end=0, number=2)]
    """
    best: dict[Hashable, RowWid] = {}
    for row, number in numbers(window, rows).items():
        if number % window.slide:
            continue
        wid = RowWid(row.partition, row.time, number // window.slide)
        key: Hashable = wid if isinstance(window, CountWindow) else (row.partition, row.time)
        if key not in best or best[key].number < wid.number:
            best[key] = wid
    return sorted(best.values(), key=lambda w: (w.end, w.number, repr(w.partition)))


def extent(window: RowWindow, wid: RowWid, rows: Sequence[StreamRow]) -> list[StreamRow]:
    """The rows that a window holds: the last `rows` up to its end, or those with end - range < time <= end.

    >>> extent(SpanWindow(range=10), RowWid(None, 10, 2), [StreamRow(0, 1), StreamRow(10, 2)])
    [StreamRow(time=10, id=2, partition=None)]
    """
    own = [row for row in rows if row.partition == wid.partition]
    if isinstance(window, SpanWindow):
        return [row for row in own if wid.end - window.range < row.time <= wid.end]
    last = wid.number * window.slide
    number = numbers(window, own)
    return [row for row in own if last - window.rows < number[row] <= last]


def wids(window: RowWindow, row: StreamRow, rows: Sequence[StreamRow]) -> list[RowWid]:
    """The ids of the windows that hold a row: those with time <= end < time + range (Eq 5.12), or with
    number <= last number < number + rows (Eq 5.6, floor form).

    >>> wids(CountWindow(rows=2, slide=2), StreamRow(0, 1), [StreamRow(0, 1), StreamRow(10, 2)])
    [RowWid(partition=None, end=10, number=1)]
    """
    own = [w for w in windows(window, rows) if w.partition == row.partition]
    if isinstance(window, SpanWindow):
        return [w for w in own if row.time <= w.end < row.time + window.range]
    number = numbers(window, rows)[row]
    return [w for w in own if number <= w.number * window.slide < number + window.rows]
