"""Landmarks: where windows that grow begin. A window [landmark, end) holds all rows since the last landmark before it.

Li 2008, section 5.2 (landmark windows: RANGE ALL), with landmarks that come again: "since 06:00 each day". All numbers
are microseconds; functions take and give whole arrays. A window that ends exactly at a landmark belongs to the stretch
before it, so a row at time t is in the windows with t < end <= the next landmark behind t.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from math import gcd

import numpy as np
from numpy.typing import NDArray

from millpond.types import DAY, EPOCH, MINUTE, CalendarSpan, Landmark, LandmarkWindow, Window
from millpond.windows.calendar_panes import CalendarPanes
from millpond.windows.ids import end_of, first_end_after, id_of_end, last_end_until
from millpond.windows.time_zones import zone_of

Ints = NDArray[np.int64]

#: Stands for the start of the stream, and for the landmark that never comes.
BEGINNING, END = -(2**62), 2**62

#: Offsets of all time zones are multiples of it, from `_FIRST_DAY` on; older days are counted with the offset of then.
OFFSET_STEP = 15 * MINUTE
_FIRST_DAY, _LAST_DAY = 3652, 2_932_000  # 1980-01-01; a day in the year 9997


def is_dated(landmark: Landmark) -> bool:
    """Whether there is a first landmark. One that is said by a time of day alone has been there on every day.

    >>> is_dated(Landmark(6 * 3_600_000_000, DAY)), is_dated(Landmark(1_704_067_200_000_000, DAY))
    (False, True)
    """
    if landmark.since is None or landmark.always:
        return False
    return landmark.every is None or not 0 <= landmark.since < DAY


def last_before(landmark: Landmark, times: Ints) -> Ints:
    """The last landmark before each time, exclusive: where the window that ends there begins.

    Up to the first landmark no window ends: there it gives that first landmark, which is not before the time.

    >>> last_before(Landmark(10, 100), np.array([11, 110, 111])).tolist()
    [10, 10, 110]
    """
    times = np.asarray(times, np.int64)
    if landmark.since is None:
        return np.full(len(times), BEGINNING, np.int64)
    if landmark.every is None:
        return np.full(len(times), landmark.since, np.int64)
    return _instants(landmark, _nth(landmark, _nth_before(landmark, times)))


def first_after(landmark: Landmark, times: Ints) -> Ints:
    """The first landmark behind each time, exclusive; END where none comes.

    >>> first_after(Landmark(10, 100), np.array([9, 10, 109, 110])).tolist()
    [10, 110, 110, 210]
    >>> first_after(Landmark(DAY + 10, 100), np.array([9])).tolist() == [DAY + 10]
    True
    """
    times = np.asarray(times, np.int64)
    if landmark.since is None:
        return np.full(len(times), END, np.int64)
    if landmark.every is None:
        return np.where(times < landmark.since, landmark.since, END)
    return _instants(landmark, _nth(landmark, _nth_before(landmark, times + 1) + 1))


def begin(window: Window, ends: Ints) -> Ints:
    """Where the windows that end at these instants begin; BEGINNING: with the stream. With several: the first of them.

    >>> begin(LandmarkWindow(10, Landmark(100, 200), range=60), np.array([120, 290, 310])).tolist()
    [60, 100, 250]
    """
    ends = np.asarray(ends, np.int64)
    starts = [last_before(mark, ends) for mark in window.landmarks]
    starts += [ends - window.range] if window.range or not starts else []
    found: Ints = np.minimum.reduce(starts)
    return found


def holds_none(landmark: Landmark, times: Ints) -> NDArray[np.bool_]:
    """Whether each time lies before the first landmark, where no window holds it."""
    times = np.asarray(times, np.int64)
    return times < landmark_zero(landmark) if is_dated(landmark) else np.zeros(len(times), bool)


def landmark_zero(landmark: Landmark) -> int:
    """The instant of the landmark that `since` names; BEGINNING for the start of the stream."""
    return BEGINNING if landmark.since is None else int(_instants(landmark, np.zeros(1, np.int64))[0])


def grid(window_slide: int, origin: int, landmark: Landmark) -> int:
    """The widest pane (microseconds) that divides the SLIDE and has all landmarks at its edges.

    >>> grid(60, 0, Landmark(90, 3600))
    30
    """
    if landmark.since is None:
        return window_slide
    width = gcd(window_slide, landmark.since - origin, DAY if landmark.months else landmark.every or 0)
    return width if landmark.zone == "UTC" else gcd(width, OFFSET_STEP)


def _nth_before(landmark: Landmark, times: Ints) -> Ints:
    """The largest n, of any sign, such that landmark n lies before each time, exclusive."""
    assert landmark.since is not None and landmark.every is not None
    nth: Ints = -((landmark.since - times) // landmark.every) - 1
    if landmark.months:
        nth = _months(landmark).holding(times // DAY)
    elif landmark.zone == "UTC":
        return nth
    nth = nth + 1  # the zone's clock differs from UTC by less than a day
    for _ in range(2):
        nth = nth - (_instants(landmark, nth) >= times)
    return nth


def _nth(landmark: Landmark, nth: Ints) -> Ints:
    return np.maximum(nth, 0) if is_dated(landmark) else nth


def _instants(landmark: Landmark, nth: Ints) -> Ints:
    """The instants of landmarks by their number: clock readings of the zone, looked up once per distinct day.

    Of two equal readings (clocks set back) the first one counts; a reading that is left out (clocks set forward) is
    taken with the offset before, as RFC 5545 has it: 02:30 is 03:30 then.
    """
    assert landmark.since is not None
    readings: Ints = landmark.since + nth * (landmark.every or 0)
    if landmark.months:
        readings = _months(landmark).days(nth) * DAY + landmark.since % DAY
    if landmark.zone == "UTC":
        return readings
    zone = zone_of(landmark.zone)
    days, place = np.unique(readings // DAY, return_inverse=True)
    clock = timedelta(microseconds=int(landmark.since % DAY))
    offsets = np.empty(len(days), np.int64)
    for i, day in enumerate(np.clip(days, _FIRST_DAY, _LAST_DAY).tolist()):
        offset = (EPOCH + timedelta(days=day) + clock).replace(tzinfo=zone).utcoffset() or timedelta()
        offsets[i] = offset // timedelta(microseconds=1) // OFFSET_STEP * OFFSET_STEP
    return readings - offsets[place]


def _months(landmark: Landmark) -> CalendarPanes:
    """The stretches between landmarks that come every so many months."""
    assert landmark.since is not None
    return CalendarPanes(CalendarSpan(landmark.months, "months"), landmark.zone, landmark.since)


# --- windows(), extent() and wids() --------------------------------------------------------------------------------


def extent(window: LandmarkWindow, wid: int) -> tuple[int, int]:
    """The times that window `wid` covers, as (start, end), closed-open; start >= end where no window is.

    >>> extent(LandmarkWindow(60, Landmark()), 1) == (BEGINNING, 120)
    True
    """
    end = end_of(window, wid)
    return int(last_before(window.landmark, np.array([end]))[0]), end


def wids(window: LandmarkWindow, time: int, until: int) -> range:
    """The ids of all windows that `time` belongs to and that end at or before `until`.

    >>> wids(LandmarkWindow(60, Landmark()), 90, 300)
    range(1, 5)
    """
    times = np.array([time])
    last = min(until, int(first_after(window.landmark, times)[0]))
    first = id_of_end(window, first_end_after(window, time))
    if holds_none(window.landmark, times)[0]:
        return range(first, first)
    return range(first, max(first, id_of_end(window, last_end_until(window, last)) + 1))


def windows(window: LandmarkWindow, times: Iterable[int], until: int) -> list[int]:
    """The ids of all windows with at least one of `times` that end at or before `until`, ascending."""
    return sorted({wid for time in times for wid in wids(window, time, until)})
