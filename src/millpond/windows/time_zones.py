"""Clocks of time zones: at which instant a zone's clock shows a reading, for whole arrays.

Instants and readings are microseconds since 1970: of UTC, and of what the zone's clock shows. A reading that clocks
skip is taken with the offset before, and of one that they show twice the first counts, as RFC 5545 has it. So a
midnight that is skipped (Havana, São Paulo) is the first instant of its day, and so is that of a day that is skipped
whole (Apia, 2011-12-30): the next day begins at the same instant.
"""

from __future__ import annotations

from datetime import UTC, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from millpond.support.distinct import distinct
from millpond.types import DAY, EPOCH

Ints = NDArray[np.int64]

#: Days, since 1970, whose offsets are looked up; those beyond have the offset of the nearest: the years 1 and 9999.
_FIRST_DAY, _LAST_DAY = -719_160, 2_932_890

#: Days that are looked up together.
_CHUNK = 256


def zone_of(name: str) -> tzinfo:
    """The time zone of that name.

    Raises:
        ValueError: there is none.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # a name that is none, or that is no name
        raise ValueError(f"there is no time zone '{name}'") from None


def instants(zone: str, days: Ints, clock: int) -> Ints:
    """The instants at which a zone's clock shows `clock`, microseconds behind midnight, on some days since 1970.

    They do not descend where the days do not.

    >>> (instants("America/Havana", np.array([19_792, 19_793]), 0) // 3_600_000_000 % 24).tolist()
    [5, 4]
    """
    days = np.asarray(days, np.int64)
    readings: Ints = days * DAY + clock
    return readings if zone == "UTC" or not len(days) else readings - _offsets(zone, days, clock)


def day_of(zone: str, times: Ints, clock: int) -> Ints:
    """The last day since 1970 on which a zone's clock had shown `clock` by each instant.

    >>> day_of("Europe/Berlin", np.array([23 * 3_600_000_000 - 1, 23 * 3_600_000_000]), 0).tolist()
    [0, 1]
    """
    days: Ints = (np.asarray(times, np.int64) - clock) // DAY
    if zone == "UTC" or not len(days):
        return days
    low = int(days.min())
    if int(days.max()) - low > len(days) + 4096:  # a row in 1970 and one in 2026: what lies between is not looked at
        days, place = np.unique(days, return_inverse=True)
    else:
        days, place = np.arange(low, int(days.max()) + 1), days - low
    # The zone's clock differs from UTC by less than a day.
    found = days[place] - 1
    for later in (0, 1):
        found = found + (instants(zone, days + later, clock)[place] <= times)
    return found


def reading_of(zone: str, time: int) -> int:
    """What a zone's clock shows at an instant.

    >>> reading_of("Asia/Kathmandu", 1_700_000_000_000_000) - 1_700_000_000_000_000
    20700000000
    """
    day = min(max(time // DAY, _FIRST_DAY), _LAST_DAY)
    utc = (EPOCH + timedelta(days=day, microseconds=time % DAY)).replace(tzinfo=UTC)
    ahead = utc.astimezone(zone_of(zone)).utcoffset() or timedelta()
    return time + ahead // timedelta(microseconds=1)


def _offsets(zone: str, days: Ints, clock: int) -> Ints:
    """By how much the zone's clock is ahead of UTC when it shows `clock` on some days."""
    days = np.clip(days, _FIRST_DAY, _LAST_DAY)
    chunks = days // _CHUNK
    needed = distinct(chunks)
    table = np.stack([_chunk(zone, clock, int(chunk)) for chunk in needed])
    found: Ints = table[np.searchsorted(needed, chunks), days % _CHUNK]
    return found


@lru_cache(maxsize=4096)
def _chunk(zone: str, clock: int, chunk: int) -> Ints:
    """By how much the zone's clock is ahead of UTC on the days of a chunk."""
    info, of_day = zone_of(zone), timedelta(microseconds=clock)
    offsets = np.zeros(_CHUNK, np.int64)
    for place in range(_CHUNK):
        day = min(max(chunk * _CHUNK + place, _FIRST_DAY), _LAST_DAY)
        ahead = (EPOCH + timedelta(days=day) + of_day).replace(tzinfo=info).utcoffset() or timedelta()
        offsets[place] = ahead // timedelta(microseconds=1)
    return offsets
