"""Instants that are reported, and tables that are others from some instants on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millpond.relations.spans import FOR_EVER, Ints

#: Constant relations by alias.
Tables = Mapping[str, pa.Table]

#: Instants that RSTREAM may report in one epoch.
TICKS = 5_000_000


@dataclass(frozen=True)
class TablesInTime:
    """Tables that are others from some instants on.

    stretches: from which instant on (microseconds), and the tables by alias, ascending; the first is from ever.
    """

    stretches: tuple[tuple[int, Tables], ...]

    def at(self, instant: int) -> Tables:
        """The tables that hold at an instant."""
        return next((t for since, t in reversed(self.stretches) if since <= instant), self.stretches[0][1])

    def between(self, low: int, high: int) -> list[tuple[int, int, Tables]]:
        """The stretches that meet the instants low <= τ < high, cut to them; at least one."""
        ends = [since for since, _ in self.stretches[1:]] + [max(high, low)]
        found = [(max(low, since), min(high, end), t) for (since, t), end in zip(self.stretches, ends, strict=True)]
        return [f for f in found if f[0] < f[1]] or [(low, high, self.at(low))]


@dataclass(frozen=True)
class Ticks:
    """The instants that RSTREAM reports: multiples of `every` (microseconds) behind `origin`, from `first` on.

    last: where nothing follows, the instant at which everything has happened; the first tick from there on is the last.

    >>> Ticks(10, 5, 27).between(0, 1_000).tolist(), Ticks(10, 5, 27, origin=-1).between(0, 1_000).tolist()
    ([10, 20], [9, 19, 29])
    >>> Ticks(10, 5, 27).between(0, FOR_EVER).tolist()
    [10, 20, 30]
    """

    every: int
    first: int
    last: int
    origin: int = 0

    def at_or_after(self, instant: int) -> int:
        """The first tick from an instant on."""
        return self.origin - (self.origin - instant) // self.every * self.every

    def at_or_after_all(self, instants: Ints) -> Ints:
        """The first tick from each instant on; what is before or behind all ticks stays where it is."""
        ticks = self.origin - (self.origin - instants) // self.every * self.every
        return np.where(np.abs(instants.astype(np.float64)) < float(FOR_EVER), ticks, instants)

    def between(self, low: int, high: int) -> Ints:
        """The ticks low <= τ < high, ascending.

        Raises: ValueError when there are too many.
        """
        last = high - 1 if high < FOR_EVER else self.at_or_after(self.last)
        start = self.at_or_after(max(low, self.first))
        count = max(0, (last - start) // self.every + 1)
        if count > TICKS:
            raise ValueError(f"RSTREAM would report {count} instants in one epoch; at most {TICKS} are allowed")
        return start + np.arange(count, dtype=np.int64) * self.every
