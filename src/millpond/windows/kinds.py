"""Kinds of windows as the three functions that define them: windows(), extent() and wids() (Li 2008, section 5.2).

A new kind is added by supplying the three; `bucket` then says which rows are in which windows, and an aggregate over
any kind is a GROUP BY over what it gives. `mismatches` is the duality test: t in extent(w) <=> w in wids(t).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from millpond.types import CalendarWindow, KindWindow, LandmarkWindow, TimeWindow, Window
from millpond.windows import ids, registered
from millpond.windows import landmark_windows as landmarks
from millpond.windows.calendar_panes import calendar_panes_of
from millpond.windows.covers import Cover, cover_of
from millpond.windows.protocol import WindowKind

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Sliding:
    """`[RANGE r SLIDE s ORIGIN o]`.

    >>> Sliding(TimeWindow(600, 60)).wids(5, 10_000)
    range(0, 10)
    """

    window: TimeWindow

    def windows(self, times: Iterable[int], until: int) -> list[int]:
        """See `WindowKind`."""
        return sorted({wid for time in times for wid in self.wids(time, until)})

    def extent(self, wid: int) -> tuple[int, int]:
        """See `WindowKind`."""
        return ids.extent(self.window, wid)

    def wids(self, time: int, until: int) -> range:
        """See `WindowKind`."""
        held = ids.wids(self.window, time)
        last = ids.id_of_end(self.window, ids.last_end_until(self.window, until))
        return range(held.start, max(held.start, min(held.stop, last + 1)))


@dataclass(frozen=True)
class Growing:
    """`[RANGE ALL SINCE … SLIDE s]`: windows that grow from a landmark to the next."""

    window: LandmarkWindow

    def windows(self, times: Iterable[int], until: int) -> list[int]:
        """See `WindowKind`."""
        return landmarks.windows(self.window, times, until)

    def extent(self, wid: int) -> tuple[int, int]:
        """See `WindowKind`."""
        return landmarks.extent(self.window, wid)

    def wids(self, time: int, until: int) -> range:
        """See `WindowKind`."""
        return landmarks.wids(self.window, time, until)


@dataclass(frozen=True)
class Dated:
    """`[RANGE r SLIDE s ZONE z]`, `[RANGE ALL EVERY r SLIDE s ZONE z]`: by the numbers of panes they end before."""

    window: CalendarWindow

    @property
    def _cover(self) -> Cover:
        return cover_of(calendar_panes_of(self.window), self.window)

    def windows(self, times: Iterable[int], until: int) -> list[int]:
        """See `WindowKind`."""
        return sorted({wid for time in times for wid in self.wids(time, until)})

    def extent(self, wid: int) -> tuple[int, int]:
        """See `WindowKind`."""
        cover, end = self._cover, np.array([self._end(wid)])
        start = cover.starts(end)
        return int(cover.panes.ends(start)[0]), int(cover.panes.ends(end)[0])

    def wids(self, time: int, until: int) -> range:
        """See `WindowKind`."""
        cover = self._cover
        _, step, offset = cover.shape
        pane = cover.panes.pane(time)
        last = min(int(cover.lasts(np.array([pane]))[0]), cover.panes.pane(until))
        first = cover.first_end(pane + 1)
        return range((first - offset) // step, max((first - offset) // step, (last - offset) // step + 1))

    def _end(self, wid: int) -> int:
        _, step, offset = self._cover.shape
        return offset + wid * step


def kind_of(window: Window) -> WindowKind:
    """The kind of a query's windows."""
    match window:
        case TimeWindow():
            return Sliding(window)
        case LandmarkWindow():
            return Growing(window)
        case KindWindow():
            return registered.axis_of(window.kind).kind
        case CalendarWindow():
            return Dated(window)
        case _:
            assert_never(window)


def bucket(kind: WindowKind, times: Sequence[int] | Ints, until: int) -> tuple[Ints, Ints]:
    """Which row is in which window (Li's Bucket): (place of the row, window id), a pair for each, by row.

    >>> rows, wids = bucket(Sliding(TimeWindow(20, 10)), [5, 12], 30)
    >>> rows.tolist(), wids.tolist()
    ([0, 0, 1, 1], [0, 1, 1, 2])
    """
    found = {int(time): kind.wids(int(time), until) for time in set(np.asarray(times, np.int64).tolist())}
    held = [found[int(time)] for time in times]
    rows = np.repeat(np.arange(len(held)), [len(h) for h in held]).astype(np.int64)
    wids = np.concatenate([np.arange(h.start, h.stop, dtype=np.int64) for h in held] or [np.empty(0, np.int64)])
    return rows, wids


def mismatches(kind: WindowKind, times: Iterable[int], until: int) -> list[tuple[int, int]]:
    """The (time, window) pairs on which `extent` and `wids` disagree; none for a kind that is sound.

    Looked at are the windows with any of the times, and those on either side of them.
    """
    times = list(times)
    near = sorted({w for wid in kind.windows(times, until) for w in (wid - 1, wid, wid + 1)})
    wrong = []
    for wid in near:
        start, end = kind.extent(wid)
        if end <= until:
            wrong += [(t, wid) for t in times if (start <= t < end) != (wid in kind.wids(t, until))]
    return wrong


__all__ = ["Dated", "Growing", "Sliding", "WindowKind", "bucket", "kind_of", "mismatches"]
