"""windows(), extent() and wids(): the three functions that define a time window (Li 2008, ch. 5, floor form E1).

Window w of `[RANGE r SLIDE s ORIGIN m]` covers m + (w+1)*s - r <= t < m + (w+1)*s, for any integer w. All numbers are
microseconds. The duality `t in extent(w)  <=>  w in wids(t)` is tested.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.types import CalendarWindow, KindWindow, Window
from millpond.windows.calendar_panes import steps_of
from millpond.windows.registered import FOREVER, axis_of


def end_of(window: Window, wid: int) -> int:
    """The (open) end of window `wid`.

    >>> end_of(TimeWindow(600, 60), 9)
    600
    """
    return window.origin + (wid + 1) * window.slide


def id_of_end(window: Window, end: int) -> int:
    """The id of the window that ends at `end`, which must be an end."""
    return (end - window.origin) // window.slide - 1


def extent(window: Window, wid: int) -> tuple[int, int]:
    """The times that window `wid` covers, as (start, end), closed-open.

    >>> extent(TimeWindow(600, 60), 10)
    (60, 660)
    """
    end = end_of(window, wid)
    return end - window.range, end


def wids(window: Window, time: int) -> range:
    """The ids of all windows that `time` belongs to; empty in the gaps of windows whose SLIDE exceeds their RANGE.

    >>> wids(TimeWindow(600, 60), 5)
    range(0, 10)
    """
    since = time - window.origin
    return range(since // window.slide, (since + window.range) // window.slide)


def windows(window: Window, times: Iterable[int]) -> list[int]:
    """The ids of all windows with at least one of `times`, ascending. Empty stretches are never enumerated.

    >>> windows(TimeWindow(60, 60), [0, 59, 600])
    [0, 10]
    """
    return sorted({wid for time in times for wid in wids(window, time)})


def first_end_after(window: Window, time: int) -> int:
    """The first window end greater than `time`."""
    if isinstance(window, KindWindow):
        axis = axis_of(window.kind)
        return FOREVER if time >= FOREVER else axis.end_of(axis.ended(time))
    if isinstance(window, CalendarWindow):
        steps = steps_of(window)
        return steps.start(steps.pane(time) + 1)
    return window.origin + ((time - window.origin) // window.slide + 1) * window.slide


def last_end_until(window: Window, time: int) -> int:
    """The last window end not greater than `time`."""
    if isinstance(window, KindWindow):
        axis = axis_of(window.kind)
        return axis.end_of(axis.ended(time) - 1)
    if isinstance(window, CalendarWindow):
        steps = steps_of(window)
        return steps.start(steps.pane(time))
    return window.origin + ((time - window.origin) // window.slide) * window.slide


def have_ended(window: Window, after: int, until: int, count: int) -> bool:
    """Whether so many windows have ended between two instants, the second included.

    >>> have_ended(TimeWindow(60, 60), 60, 180, 2), have_ended(TimeWindow(60, 60), 60, 180, 3)
    (True, False)
    """
    if isinstance(window, KindWindow):
        axis = axis_of(window.kind)
        return axis.ended(until) - axis.ended(after) >= count
    if isinstance(window, CalendarWindow):
        steps = steps_of(window)
        return steps.pane(until) - steps.pane(after) >= count
    return until - after >= count * window.slide
