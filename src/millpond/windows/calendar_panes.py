"""Panes between readings of a time zone's clock: days, weeks, months, quarters, years, as long as they are there.

Panes are numbered; what is between two of them is calendar arithmetic with whole numbers. Zones come in only where a
day becomes an instant, or an instant a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

import numpy as np

from millpond.types import DAY, CalendarSpan, CalendarWindow, Window
from millpond.types.instants import FOREVER, NEVER
from millpond.windows.cuts import FAR, Cut, Ints
from millpond.windows.time_zones import day_of, instants, reading_of

#: Days beyond which no instant lies: see `NEVER` and `FOREVER`.
_LAST = 53_000_000

_ONE_DAY = CalendarSpan(1, "days")


def month_of(days: Ints) -> Ints:
    """The months, since January 1970, that some days since 1970 lie in.

    >>> month_of(np.array([-1, 0, 31])).tolist()
    [-1, 0, 1]
    """
    found: Ints = np.asarray(days, np.int64).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return found


def first_day(months: Ints) -> Ints:
    """The first days of some months."""
    found: Ints = np.asarray(months, np.int64).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return found


def in_month(months: Ints, day: Ints | int) -> Ints:
    """The day with that number, from 1 on, of some months, or their last one where they have fewer.

    >>> in_month(np.array([0, 1]), 31).tolist()
    [30, 58]
    """
    first = first_day(months)
    found: Ints = first + np.minimum(day, first_day(np.asarray(months, np.int64) + 1) - first) - 1
    return found


def months_later(days: Ints, months: int) -> Ints:
    """The same day so many months later, or the last day of that month.

    >>> months_later(np.array([30]), 1).tolist()
    [58]
    """
    month = month_of(days)
    return in_month(month + months, days - first_day(month) + 1)


@dataclass(frozen=True)
class CalendarPanes(Cut):
    """Panes of `span` each; pane 0 begins with the reading `anchor` of the zone's clock, microseconds since 1970.

    Where a day is skipped whole its pane is empty: it begins and ends at one instant (see `time_zones`).

    >>> panes = CalendarPanes(CalendarSpan(1, "months"), "Europe/Berlin")
    >>> panes.pane(0), panes.start(1) // 3_600_000_000
    (0, 743)
    """

    is_told: ClassVar[bool] = True

    span: CalendarSpan
    zone: str
    anchor: int = 0

    @property
    def width(self) -> int:
        """At most so wide, microseconds."""
        return self.span.longest

    @property
    def phase(self) -> int:
        """Where pane 0 begins is `anchor`'s matter."""
        return 0

    @property
    def named(self) -> list[str]:
        """See `Cut`."""
        return [f"{self.span.count} {self.span.unit}", self.zone, str(self.anchor)]

    @property
    def clock(self) -> int:
        """The time of day at which panes begin, microseconds."""
        return self.anchor % DAY

    # --- numbers and days --------------------------------------------------------------------------------------------

    def days(self, numbers: Ints) -> Ints:
        """The days since 1970 on which panes begin."""
        origin, count = self.anchor // DAY, self.span.count
        numbers = np.clip(np.asarray(numbers, np.int64), -_LAST // count, _LAST // count)
        if self.span.unit == "days":
            return np.clip(origin + numbers * count, -_LAST, _LAST)
        month, day = self._first
        found = in_month(np.clip(month + numbers * count, -_LAST // 31, _LAST // 31), day)
        return np.asarray(found, np.int64)

    def holding(self, days: Ints) -> Ints:
        """The panes that hold what follows the reading of `clock` on some days."""
        days = np.asarray(days, np.int64)
        if self.span.unit == "days":
            return (days - self.anchor // DAY) // self.span.count
        first, day = self._first
        month = month_of(days)
        month = month - (days < in_month(month, day))
        return (month - first) // self.span.count

    @property
    def _first(self) -> tuple[int, int]:
        """The month of the anchor, since January 1970, and the number of its day in it."""
        day = np.array([self.anchor // DAY])
        month = month_of(day)
        return int(month[0]), int((day - first_day(month))[0]) + 1

    # --- numbers and instants ----------------------------------------------------------------------------------------

    def pane(self, time: int) -> int:
        """The last pane that had begun by `time`."""
        if not NEVER < time < FOREVER:
            return -FAR if time <= NEVER else FAR
        return int(self.told(np.array([time]))[1][0])

    def start(self, pane: int) -> int:
        """The time at which `pane` starts."""
        return NEVER if pane <= -FAR else FOREVER if pane >= FAR else int(self.ends(np.array([pane]))[0])

    def ends(self, panes: Ints) -> Ints:
        """Where windows end that end before some panes, microseconds."""
        return instants(self.zone, self.days(panes), self.clock)

    def instants(self, panes: Ints) -> dict[str, Ints]:
        """See `Cut`."""
        return {"end": self.ends(panes), "start": self.ends(np.asarray(panes, np.int64) - 1)}

    def told(self, times: Ints) -> tuple[Ints | None, Ints]:
        """See `Cut`."""
        return None, self.holding(day_of(self.zone, times, self.clock))

    # --- windows -----------------------------------------------------------------------------------------------------

    def serves(self, window: Window) -> bool:
        """See `Cut`."""
        if not isinstance(window, CalendarWindow) or window.zone != self.zone:
            return False
        needed = calendar_panes_of(window)
        if needed.span.unit != self.span.unit or needed.span.count % self.span.count:
            return False
        return bool(self.days(self.holding(needed.days(np.array([0])))) == needed.days(np.array([0]))) and (
            needed.clock == self.clock and (self.span.unit == "days" or needed._first[1] == self._first[1])
        )

    def shape(self, window: Window) -> tuple[int, int, int]:
        """(panes per window at most, panes per slide, an end as a pane number)."""
        assert isinstance(window, CalendarWindow)  # see `serves`
        step = window.step.count // self.span.count
        alike = window.length.unit == self.span.unit
        width = window.length.count // self.span.count if alike else 31 * window.length.count
        offset = int(self.holding(np.array([window.anchor // DAY]))[0])
        return width, step, offset % step


def calendar_panes_of(window: CalendarWindow) -> CalendarPanes:
    """The coarsest panes that compose the windows; days where windows of months slide by days."""
    span, length = window.step, window.length
    span = CalendarSpan(gcd(span.count, length.count), span.unit) if span.unit == length.unit else _ONE_DAY
    given = CalendarPanes(span, window.zone, window.anchor)
    if span.unit == "days":
        return CalendarPanes(span, window.zone, window.anchor % (span.count * DAY))
    month, day = given._first
    first = int(in_month(np.array([month % span.count]), day)[0])
    kept = first * DAY + given.clock
    same = int(first_day(np.array([month % span.count]))[0]) + day - 1 == first
    return CalendarPanes(span, window.zone, kept) if same else given


def steps_of(window: CalendarWindow) -> CalendarPanes:
    """The stretches between the ends of windows."""
    return CalendarPanes(window.step, window.zone, window.anchor)


def back_from(window: CalendarWindow, now: int, until: int) -> int:
    """Where the window begins that reaches up to `now`, or to `until`, exclusive, where windows grow.

    >>> day = CalendarWindow(CalendarSpan(1, "days"), CalendarSpan(1, "days"), "Europe/Berlin")
    >>> noon = 1_711_882_800_000_000  # 2024-03-31 13:00 in Berlin, whose clocks were set forward that night
    >>> (noon - back_from(day, noon, noon)) // 3_600_000_000
    23
    """
    if window.grows:
        stretches = CalendarPanes(window.length, window.zone, window.anchor)
        return stretches.start(stretches.pane(until - 1))
    shown, count = reading_of(window.zone, now), window.length.count
    days = np.array([shown // DAY])
    earlier = days - count if window.length.unit == "days" else months_later(days, -count)
    return int(instants(window.zone, earlier, shown % DAY)[0])
