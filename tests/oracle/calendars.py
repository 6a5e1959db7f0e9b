"""Windows of a calendar by definition: edges are what a zone's clock shows, one date after the other."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Dated:
    """Windows of `length` that end every `step`, both as (how many, 'days' or 'months').

    origin: what the zone's clock shows at one of the ends; None: midnight of 1970-01-01, or of a Monday where whole
        weeks are counted. grows: windows begin with the stretch of `length` that they lie in.
    A step of one day that the zone skips has no window: its end is that of the day before.
    """

    length: tuple[int, str]
    step: tuple[int, str]
    zone: str
    origin: dt.datetime | None = None
    grows: bool = False

    def text(self) -> str:
        """The parameters in the bracket."""
        length, step = (f"{count} {unit.upper()}" for count, unit in (self.length, self.step))
        origin = "" if self.origin is None else f" ORIGIN TIMESTAMP '{self.origin}'"
        extent = f"ALL EVERY {length}" if self.grows else length
        return f"RANGE {extent} SLIDE {step} ZONE '{self.zone}'{origin}"

    def _first(self) -> dt.datetime:
        count, unit = self.length if self.grows else self.step
        weeks = unit == "days" and count % 7 == 0
        return self.origin or dt.datetime(1970, 1, 5 if weeks else 1)

    def _instant(self, reading: dt.datetime) -> int:
        """When the clock shows it: of two instants the first; skipped: by the offset before."""
        utc = reading.replace(tzinfo=ZoneInfo(self.zone), fold=0).astimezone(dt.UTC).replace(tzinfo=None)
        return (utc - _EPOCH) // dt.timedelta(microseconds=1)

    def _nth(self, n: int, span: tuple[int, str]) -> dt.datetime:
        return later(self._first(), n * span[0], span[1])

    def _edges(self, time: int, span: tuple[int, str]) -> Iterator[tuple[int, dt.datetime]]:
        """Edges with their readings, from well before a time on."""
        days = (_EPOCH + dt.timedelta(microseconds=time) - self._first()).days
        n = days // (span[0] * (1 if span[1] == "days" else 31)) - 40 if days < 0 else 0
        if days >= 0:
            n = days // (span[0] * (1 if span[1] == "days" else 31)) - 3
        last = None
        while True:
            reading = self._nth(n, span)
            instant = self._instant(reading)
            if instant != last:
                yield instant, reading
            last, n = instant, n + 1

    def all(self, first: int, last: int) -> list[int]:
        """All ends between two instants, both included."""
        found = []
        for instant, _ in self._edges(first, self.step):
            if instant > last:
                return found
            if instant >= first:
                found.append(instant)
        raise AssertionError

    def after(self, time: int) -> int:
        """The first end behind a time."""
        return next(instant for instant, _ in self._edges(time, self.step) if instant > time)

    def ends_with(self, times: Iterable[int], until: int | None) -> list[int]:
        """The ends of the windows that hold one of the times; of those that grow up to `until`."""
        times = set(times)
        if not times:
            return []
        last = max(times) if until is None else until
        found: set[int] = set()
        for time in times:
            for end, _ in self._edges(time, self.step):
                if end > time and self.before(end) > time:
                    break
                if self.grows and end > max(last, self.after(max(times)) if until is None else last):
                    break
                if end > time:
                    found.add(end)
        return sorted(found)

    def before(self, end: int) -> int:
        """Where the window begins that ends there."""
        if self.grows:
            start = None
            for instant, _ in self._edges(end - 400 * 86_400_000_000, self.length):
                if instant >= end:
                    assert start is not None
                    return start
                start = instant
        reading = next(reading for instant, reading in self._edges(end, self.step) if instant == end)
        return self._instant(later(reading, -self.length[0], self.length[1]))

    def back_from(self, now: int) -> int:
        """Where a window begins that is as long and reaches up to `now`."""
        if self.grows:
            return self.before(now + 1)
        utc = (_EPOCH + dt.timedelta(microseconds=now)).replace(tzinfo=dt.UTC)
        shown = utc.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        return self._instant(later(shown, -self.length[0], self.length[1]))


def later(reading: dt.datetime, count: int, unit: str) -> dt.datetime:
    """So many days or months later, at the same time of day; where a month is too short on its last day."""
    if unit == "days":
        return reading + dt.timedelta(days=count)
    month = reading.year * 12 + reading.month - 1 + count
    year, month = month // 12, month % 12 + 1
    return reading.replace(year=year, month=month, day=min(reading.day, calendar.monthrange(year, month)[1]))
