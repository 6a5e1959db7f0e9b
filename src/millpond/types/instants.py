"""Instants as whole microseconds since 1970 in UTC, as datetimes, as text, and again and again."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

#: The instant 0, without a zone: UTC is meant everywhere.
EPOCH: Final = dt.datetime(1970, 1, 1)

#: Bounds before the first and after the last possible event time.
NEVER: Final = -(2**62)
FOREVER: Final = 2**62


def micros_of(when: dt.datetime) -> int:
    """Microseconds since 1970 of a datetime; one without a zone is UTC.

    >>> micros_of(dt.datetime(1970, 1, 1, 1)), micros_of(dt.datetime.fromisoformat("1970-01-01T01:00:00+01:00"))
    (3600000000, 0)
    """
    plain = when if when.tzinfo is None else when.astimezone(dt.UTC).replace(tzinfo=None)
    return (plain - EPOCH) // dt.timedelta(microseconds=1)


def moment_of(micros: int) -> dt.datetime:
    """The datetime, without a zone, of microseconds since 1970.

    Raises: OverflowError beyond the years 1 to 9999.

    >>> moment_of(-1)
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    """
    return EPOCH + dt.timedelta(microseconds=micros)


def moment(bound: int) -> str:
    """A bound as text.

    >>> moment(FOREVER), moment(NEVER), moment(0)
    ('end', 'none', '1970-01-01 00:00:00')
    """
    if bound >= FOREVER:
        return "end"
    if bound <= NEVER:
        return "none"
    try:
        return str(moment_of(bound))
    except OverflowError:
        return f"{bound} us"


@dataclass(frozen=True)
class Landmark:
    """Where growing windows begin: `[RANGE ALL SLIDE …]`, `[RANGE ALL SINCE '06:00' DAILY SLIDE …]`.

    since: the first landmark, microseconds; None: the start of the stream, and there is no other. Without a date
        (`every` a day) the first one lies in 1970, so that there is one on each day.
    every: the time from a landmark to the next, microseconds of the clock of `zone`; None: there is only one.
    zone: the time zone in which days are counted.
    months: landmarks come every so many months instead, and `every` is the most that these can be.
    always: there have been landmarks before `since`, too.
    """

    since: int | None = None
    every: int | None = None
    zone: str = "UTC"
    months: int = 0
    always: bool = False
