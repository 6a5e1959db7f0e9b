"""A stretch of a stream's total order, and the matching rows that hot blocks have in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class TimedRows(Protocol):
    """What is needed of a hot block: immutable rows sorted by (event time, _id)."""

    @property
    def rows(self) -> pa.Table:
        """The rows: the stream's columns, _id, _epoch, _bound."""

    @property
    def times(self) -> NDArray[np.int64]:
        """Event times, microseconds, ascending."""

    @property
    def ids(self) -> NDArray[np.int64]:
        """Row ids, ascending among equal times."""


#: (block, low row, high row) -> the numbers of the rows of [low row, high row) that match one query, ascending.
Matching = Callable[[Any, int, int], NDArray[Any]]


@dataclass(frozen=True)
class Stretch:
    """The rows of one stream with begin <= event time <= end, microseconds; None: unbounded.

    first_id: of the rows at `begin`, only those with this id or a later one (windows of the last n rows).
    until_id: of the rows at `end`, only those with an id before this one (windows without the last n rows).

    >>> Stretch(10, 20).holds(10, 15), Stretch(10, 20).apart(21, 30), Stretch(10, 20, first_id=7).holds(10, 15)
    (True, True, False)
    """

    begin: int | None = None
    end: int | None = None
    first_id: int | None = None
    until_id: int | None = None

    @property
    def by_rows(self) -> bool:
        """Whether ids matter, too, and not times alone."""
        return self.first_id is not None or self.until_id is not None

    def holds(self, low: int, high: int) -> bool:
        """Whether every row with low <= time <= high is in it."""
        if self.begin is not None and (low < self.begin or (low == self.begin and self.first_id is not None)):
            return False
        return self.end is None or high < self.end or (high == self.end and self.until_id is None)

    def apart(self, low: int, high: int) -> bool:
        """Whether no row with low <= time <= high can be in it."""
        return (self.begin is not None and high < self.begin) or (self.end is not None and low > self.end)

    def rows_of(self, block: TimedRows) -> tuple[int, int]:
        """The rows [low, high) of a block that are in it."""
        times = block.times
        high = len(times) if self.end is None else int(np.searchsorted(times, self.end, "right"))
        if self.end is not None and self.until_id is not None:
            ties = int(np.searchsorted(times, self.end))
            high = ties + int(np.searchsorted(block.ids[ties:high], self.until_id))
        if self.begin is None:
            return 0, high
        low = int(np.searchsorted(times, self.begin))
        if self.first_id is not None:
            ties = int(np.searchsorted(times, self.begin, "right"))
            low += int(np.searchsorted(block.ids[low:ties], self.first_id))
        return low, max(low, high)

    def mask(self, times: Ints, ids: Ints) -> NDArray[np.bool_]:
        """Which of the rows with these times and ids are in it."""
        inside = np.ones(len(times), bool)
        if self.end is not None:
            inside &= times <= self.end
            if self.until_id is not None:
                inside &= (times < self.end) | (ids < self.until_id)
        if self.begin is not None:
            inside &= times >= self.begin
            if self.first_id is not None:
                inside &= (times > self.begin) | (ids >= self.first_id)
        return inside


def bounds_of(block: TimedRows) -> tuple[int, int]:
    """The least and the largest event time of a block that has rows."""
    return int(block.times[0]), int(block.times[-1])


def parts_in(blocks: Iterable[Any], matching: Matching, stretch: Stretch) -> list[tuple[Any, NDArray[Any]]]:
    """(block, matching row numbers) of every block that has matching rows in a stretch."""
    found = []
    for block in blocks:
        if not len(block.times) or stretch.apart(*bounds_of(block)):
            continue
        low, high = stretch.rows_of(block)
        if low < high:
            rows = matching(block, low, high)
            if len(rows):
                found.append((block, rows))
    return found
