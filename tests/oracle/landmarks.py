"""Landmark windows by definition: where a window that grows begins, and which windows there are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

DAY = 86_400_000_000

#: Where windows begin that begin with the stream.
BEGINNING = -(10**17)

_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Since:
    """Where windows begin; microseconds.

    at: the first landmark; None: the start of the stream. every: the time between landmarks. daily_at: instead of `at`,
    a time of day (microseconds behind midnight); then there is a landmark on every day there ever was. zone: whose
    clock `daily_at` is read on.
    """

    at: int | None = None
    every: int | None = None
    daily_at: int | None = None
    zone: str = "UTC"

    def text(self) -> str:
        """The parameter of the bracket."""
        if self.daily_at is not None:
            clock = (_EPOCH + dt.timedelta(microseconds=self.daily_at)).strftime("%H:%M:%S")
            return f" SINCE '{clock}' DAILY" + (f" ZONE '{self.zone}'" if self.zone != "UTC" else "")
        if self.at is None:
            return ""
        moment = (_EPOCH + dt.timedelta(microseconds=self.at)).isoformat(sep=" ")
        return f" SINCE TIMESTAMP '{moment}'" + (f" EVERY {self.every} us" if self.every is not None else "")

    def before(self, end: int) -> int | None:
        """The last landmark before `end`, exclusive: where the window that ends there begins; None: nowhere."""
        if self.daily_at is not None:
            day = (_EPOCH + dt.timedelta(microseconds=end)).date()
            days = [day + dt.timedelta(days=n) for n in (-3, -2, -1, 0, 1, 2)]
            return max(m for d in days if (m := self._on(d)) < end)
        if self.at is None:
            return BEGINNING
        if end <= self.at:
            return None
        mark = self.at
        if self.every is not None:
            while mark + self.every < end:
                mark += self.every
        return mark

    def _on(self, day: dt.date) -> int:
        """The landmark of a day of the zone's calendar."""
        assert self.daily_at is not None
        local = dt.datetime.combine(day, dt.time()) + dt.timedelta(microseconds=self.daily_at)
        utc = local.replace(tzinfo=ZoneInfo(self.zone)).astimezone(dt.UTC).replace(tzinfo=None)
        return (utc - _EPOCH) // dt.timedelta(microseconds=1)


def landmark_ends(since: Since, slide: int, times: Iterable[int], until: int) -> list[int]:
    """The ends up to `until` of the windows that hold one of the times: k·slide, until a landmark has come."""
    ends: set[int] = set()
    for time in set(times):
        end = (time // slide + 1) * slide
        while end <= until:
            start = since.before(end)
            if start is not None and start > time:
                break
            if start is not None:
                ends.add(end)
            end += slide
    return sorted(ends)
