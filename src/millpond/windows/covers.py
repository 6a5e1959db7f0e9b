"""Covers: how the windows of a query lie over its panes: where each window begins, and how far each pane counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millpond.types import CalendarSpan, CalendarWindow, KindWindow, LandmarkWindow, TimeWindow, Window
from millpond.types.instants import NEVER
from millpond.windows.calendar_panes import (
    CalendarPanes,
    calendar_panes_of,
    first_day,
    in_month,
    month_of,
    months_later,
)
from millpond.windows.ids import first_end_after
from millpond.windows.landmark_windows import BEGINNING, END, begin, first_after, holds_none
from millpond.windows.pane_layout import FAR, PaneCut, Panes

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cover:
    """The windows of `window` over `panes`; windows are named by their ends, as pane numbers.

    >>> Cover(Panes(3), TimeWindow(range=9, slide=6)).starts(np.array([6])).tolist()
    [3]
    """

    panes: PaneCut
    window: Window

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(panes per window, panes per slide, an end); 0 panes per window where they grow."""
        width, step, offset = self.panes.shape(self.window)
        return (0 if self.grows else width), step, offset

    @property
    def grows(self) -> bool:
        """Whether windows grow from landmarks: they go on without rows, until the next landmark."""
        return isinstance(self.window, LandmarkWindow)

    @property
    def varies(self) -> bool:
        """Whether windows differ in how many panes they have."""
        return self.grows

    def last_of(self, high: int) -> int:
        """The last end that is reported of windows that grow when a stream has ended, by its largest event time.

        It is the first behind the last row, and beside windows of a RANGE as long as these hold that row.
        """
        return max(first_end_after(self.window, high), high + self.window.range)

    def exist(self, ends: Ints) -> NDArray[np.bool_] | None:
        """Which ends are those of windows; None: all."""
        return None

    def begins(self, ends: Ints, starts: Ints) -> dict[str, pa.Array]:
        """Column `start` (microseconds) of windows by their ends and first panes, where it does not follow from `end`.

        NULL: the start of the stream.
        """
        if not self.grows:
            return {}
        known = starts > -FAR
        begin = self.panes.phase + np.where(known, starts, 0) * self.panes.width
        return {"start": pa.array(begin, mask=~known)}

    def starts(self, ends: Ints) -> Ints:
        """The first pane of the window that ends before each pane number."""
        ends = np.asarray(ends, np.int64)
        if not self.grows:
            return np.maximum(ends - self.shape[0], -FAR)
        distinct, place = np.unique(ends, return_inverse=True)
        inside = np.clip(distinct, self._low, self._high)
        marks = begin(self.window, self.panes.phase + inside * self.panes.width)
        found = np.where(marks <= BEGINNING, -FAR, (marks - self.panes.phase) // self.panes.width)
        return found[place]

    def lasts(self, panes: Ints) -> Ints:
        """The last pane number before which a window with each pane can end; below pane + 1 where no window has it."""
        panes = np.asarray(panes, np.int64)
        if not self.grows:
            return panes + self.shape[0]
        distinct, place = np.unique(panes, return_inverse=True)
        times = self.panes.phase + np.clip(distinct, self._low, self._high) * self.panes.width
        found = distinct + self.window.range // self.panes.width
        for landmark in self.window.landmarks:
            marks = first_after(landmark, times)
            last = np.where(marks >= END, FAR, (marks - self.panes.phase) // self.panes.width)
            found = np.maximum(found, np.where(holds_none(landmark, times), distinct, last))
        return found[place]

    def first_end(self, pane: int) -> int:
        """The first window end at or behind a pane number."""
        _, step, offset = self.shape
        return offset - ((offset - pane) // step) * step

    def since(self, pane: int) -> int:
        """The first pane that any window which ends behind pane number `pane` can have."""
        return int(self.starts(np.array([self.first_end(pane + 1)]))[0])

    @cached_property
    def _low(self) -> int:
        return (-(2**61)) // self.panes.width

    @cached_property
    def _high(self) -> int:
        return 2**61 // self.panes.width


@dataclass(frozen=True)
class CalendarCover(Cover):
    """Windows of a calendar over panes of it.

    A window whose end is no instant of its own is none: where a day is skipped whole, windows that end with it are.
    """

    @property
    def calendar(self) -> CalendarWindow:
        """The windows."""
        assert isinstance(self.window, CalendarWindow)
        return self.window

    @property
    def days(self) -> CalendarPanes:
        """The panes."""
        assert isinstance(self.panes, CalendarPanes)
        return self.panes

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """See `Cover`; panes per window are the most that there are."""
        return self.days.shape(self.window)

    @property
    def grows(self) -> bool:
        """See `Cover`."""
        return self.calendar.grows

    @property
    def varies(self) -> bool:
        """See `Cover`."""
        return self.grows or self.calendar.length.unit != self.days.span.unit

    def last_of(self, high: int) -> int:
        """See `Cover`: the first end behind the last row."""
        return first_end_after(self.window, high)

    def exist(self, ends: Ints) -> NDArray[np.bool_] | None:
        """See `Cover`."""
        skips = self.calendar.step == CalendarSpan(1, "days")
        return self.days.ends(ends) > self.days.ends(np.asarray(ends) - 1) if skips else None

    def begins(self, ends: Ints, starts: Ints) -> dict[str, pa.Array]:
        """See `Cover`."""
        return {"start": pa.array(self.days.ends(starts))}

    def starts(self, ends: Ints) -> Ints:
        """See `Cover`."""
        ends = np.asarray(ends, np.int64)
        if not self.varies:
            return np.maximum(ends - self.shape[0], -FAR)
        if self.grows:
            stretch = self._stretches
            return self.days.holding(stretch.days(stretch.holding(self.days.days(ends - 1))))
        return self.days.holding(months_later(self.days.days(ends), -self.calendar.length.count))

    def lasts(self, panes: Ints) -> Ints:
        """See `Cover`."""
        panes = np.asarray(panes, np.int64)
        if not self.varies:
            return panes + self.shape[0]
        days = self.days.days(panes)
        if self.grows:
            stretch = self._stretches
            return self.days.holding(stretch.days(stretch.holding(days) + 1))
        # The last day from which so many months back lead to the pane's first day or to one before: from any day of
        # its month where they lead to the last day of theirs.
        month = month_of(days)
        is_last = days + 1 == first_day(month + 1)
        day = np.where(is_last, 31, days - first_day(month) + 1)
        return self.days.holding(in_month(month + self.calendar.length.count, day))

    @cached_property
    def _stretches(self) -> CalendarPanes:
        """The stretches that windows grow in."""
        return CalendarPanes(self.calendar.length, self.calendar.zone, self.calendar.anchor)


def cover_of(panes: PaneCut, window: Window) -> Cover:
    """How windows lie over panes."""
    return CalendarCover(panes, window) if isinstance(window, CalendarWindow) else Cover(panes, window)


def begin_of(window: Window, end: int) -> int:
    """Where the window begins that ends at an instant, at the latest; NEVER where only its kind knows."""
    match window:
        case KindWindow():
            return NEVER
        case CalendarWindow():
            cut = calendar_panes_of(window)
            return int(cut.ends(cover_of(cut, window).starts(np.array([cut.pane(end)])))[0])
        case TimeWindow() | LandmarkWindow():
            return int(cover_of(Panes(1), window).starts(np.array([end]))[0])
        case _:
            assert_never(window)
