"""Windows that end at instants as in SQL."""

from __future__ import annotations

from typing import assert_never

from millpond.types import (
    DAY,
    HOUR,
    CalendarSpan,
    CalendarWindow,
    KindWindow,
    Landmark,
    LandmarkWindow,
    TimeWindow,
    Window,
)
from millpond.types.durations import duration
from millpond.types.instants import moment
from millpond.windows.landmark_windows import is_dated

#: How the language calls the time from a landmark to the next.
_PERIODS = {HOUR: "HOURLY", DAY: "DAILY", 7 * DAY: "WEEKLY"}


def window_text(window: Window) -> str:
    """A window with a SLIDE as in SQL."""
    match window:
        case KindWindow():
            return f"[KIND {window.name}]"
        case LandmarkWindow():
            return f"[RANGE ALL {_since(window.landmark)}SLIDE {duration(window.slide)}]"
        case CalendarWindow():
            extent = f"ALL EVERY {window.length}" if window.grows else window.length
            return f"[RANGE {extent} SLIDE {window.step} ZONE '{window.zone}']".upper().replace(
                window.zone.upper(), window.zone
            )
        case TimeWindow():
            return f"[RANGE {duration(window.range)} SLIDE {duration(window.slide)}]"
        case _:
            assert_never(window)


def _since(landmark: Landmark) -> str:
    """The landmark as in SQL, with a space behind it; '' for the start of the stream.

    >>> _since(Landmark(21_600_000_000, 86_400_000_000, "Europe/Berlin"))
    "SINCE '06:00:00' DAILY ZONE 'Europe/Berlin' "
    """
    if landmark.since is None:
        return ""
    at = moment(landmark.since)
    since = f"SINCE TIMESTAMP '{at}' " if is_dated(landmark) else f"SINCE '{at.removeprefix('1970-01-01 ')}' "
    if landmark.always:
        since = f"ORIGIN TIMESTAMP '{at}' "
    if landmark.months:
        since += f"EVERY {CalendarSpan(landmark.months, 'months')} ".upper()
    elif landmark.every is not None:
        since += f"{_PERIODS.get(landmark.every) or f'EVERY {duration(landmark.every)}'} "
    return since + (f"ZONE '{landmark.zone}' " if landmark.zone != "UTC" else "")


__all__ = ["window_text"]
