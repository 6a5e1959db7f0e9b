"""Instants as whole microseconds since 1970 in UTC, and as datetimes."""

from __future__ import annotations

import datetime as dt
from typing import Final

#: The instant 0, without a zone: UTC is meant everywhere.
EPOCH: Final = dt.datetime(1970, 1, 1)

#: Bounds before the first and after the last possible event time.
NEVER: Final = -(2**62)
FOREVER: Final = 2**62


def micros_of(moment: dt.datetime) -> int:
    """Microseconds since 1970 of a datetime; one without a zone is UTC.

    >>> micros_of(dt.datetime(1970, 1, 1, 1)), micros_of(dt.datetime.fromisoformat("1970-01-01T01:00:00+01:00"))
    (3600000000, 0)
    """
    plain = moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (plain - EPOCH) // dt.timedelta(microseconds=1)


def moment_of(micros: int) -> dt.datetime:
    """The datetime, without a zone, of microseconds since 1970.

    Raises: OverflowError beyond the years 1 to 9999.

    >>> moment_of(-1)
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    """
    return EPOCH + dt.timedelta(microseconds=micros)


__all__ = ["EPOCH", "FOREVER", "NEVER", "micros_of", "moment_of"]
