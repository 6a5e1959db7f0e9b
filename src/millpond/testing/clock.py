"""A clock that moves only when told, and durations as people write them."""

from __future__ import annotations

import re
from decimal import Decimal

#: Where a virtual clock stands unless told otherwise: 2024-01-01 00:00:00 UTC, in microseconds since 1970.
START = 1_704_067_200_000_000

_UNITS = {
    "us": 1,
    "microsecond": 1,
    "ms": 1_000,
    "millisecond": 1_000,
    "s": 1_000_000,
    "sec": 1_000_000,
    "second": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "minute": 60_000_000,
    "h": 3_600_000_000,
    "hour": 3_600_000_000,
    "d": 86_400_000_000,
    "day": 86_400_000_000,
    "w": 604_800_000_000,
    "week": 604_800_000_000,
}


class VirtualClock:
    """A clock for `millpond.open(…, clock=…)`: calling it gives microseconds since 1970, `advance` moves it.

    Arguments:
        start: where it stands at first, in microseconds.

        >>> clock = VirtualClock(0)
        >>> clock.advance(1_500_000)
        1500000
        >>> clock()
        1500000
    """

    def __init__(self, start: int = START) -> None:
        self._now = start

    def __call__(self) -> int:
        return self._now

    def advance(self, microseconds: int) -> int:
        """Move forward by so many microseconds (never back); returns the new time."""
        if microseconds < 0:
            raise ValueError(f"a clock only moves forward, not by {microseconds} µs")
        self._now += microseconds
        return self._now


def duration(text: str) -> int:
    """A duration as people write it (`5s`, `1.5 minutes`, `10 us`, `1h 30m`; a bare number is microseconds), in µs.

    Raises ValueError if it is not one.

        >>> duration("1h 30m"), duration("250 ms"), duration("7")
        (5400000000, 250000, 7)
    """
    if re.fullmatch(r"\s*\d+\s*", text):
        return int(text)
    total, rest = Decimal(0), text.strip()
    while rest:
        match = re.match(r"([\d.]+)\s*([A-Za-z]+)\s*", rest)
        unit = match.group(2).lower() if match else ""
        size = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if match is None or size is None:
            raise ValueError(f"'{text}' is not a duration; write for example '5s', '10 minutes' or '250 ms'")
        total += Decimal(match.group(1)) * size
        rest = rest[match.end() :]
    if not text.strip():
        raise ValueError("an empty text is not a duration")
    return int(total)
