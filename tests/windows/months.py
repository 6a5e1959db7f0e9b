"""A kind of windows from outside the package: calendar months, each with what the month before had from its 15th on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

EPOCH = dt.datetime(1970, 1, 1)


class Months:
    """Window w ends with month w (0: January 1970) and begins on the 15th of the month before. Supplies the three
    functions of `millpond.windows.kinds.WindowKind`, and nothing else."""

    def extent(self, wid: int) -> tuple[int, int]:
        """From the 15th of the month before to the end of the month."""
        return _start(wid - 1) + 14 * 86_400_000_000, _start(wid + 1)

    def wids(self, time: int, until: int) -> range:
        """The month of the time, and the next one from the 15th on."""
        day = EPOCH + dt.timedelta(microseconds=time)
        month = (day.year - 1970) * 12 + day.month - 1
        last = month + (1 if day.day >= 15 else 0)
        while last >= month and _start(last + 1) > until:
            last -= 1
        return range(month, last + 1)

    def windows(self, times: Iterable[int], until: int) -> list[int]:
        """All windows of all times."""
        return sorted({wid for time in times for wid in self.wids(time, until)})


def _start(month: int) -> int:
    years, rest = divmod(month, 12)
    return (dt.datetime(1970 + years, rest + 1, 1) - EPOCH) // dt.timedelta(microseconds=1)
