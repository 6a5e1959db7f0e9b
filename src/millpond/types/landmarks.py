"""Landmarks: where windows that grow begin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Landmark:
    """Where growing windows begin: `[RANGE ALL SLIDE …]`, `[RANGE ALL SINCE '06:00' DAILY SLIDE …]`.

    since: the first landmark, microseconds; None: the start of the stream, and there is no other. Without a date
        (`every` a day) the first one lies in 1970, so that there is one on each day.
    every: the time from a landmark to the next, microseconds of the clock of `zone`; None: there is only one.
    zone: the time zone in which days are counted.
    """

    since: int | None = None
    every: int | None = None
    zone: str = "UTC"
