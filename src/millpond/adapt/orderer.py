"""What keeps the order of a conjunction of filters: the interface that its four ways share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millpond.adapt.profile import Profile, ProfileWindow, Times

#: Seconds that a filter is taken to need at least: a clock may not see a cheap one.
LEAST_SECONDS = 1e-9


@dataclass(frozen=True)
class OrderSettings:
    """Parameters of an order that is kept (Babu 2005, table 4.1).

    probability: share of the dropped rows that are profiled.
    window: how many profile tuples count.
    alpha: thrashing factor in (0, 1]: an order changes when another filter promises 1 / alpha times as much.
    """

    probability: float = 0.01
    window: int = 1000
    alpha: float = 0.9


@dataclass(frozen=True)
class Reorder:
    """An instruction: from the next epoch on, evaluate in this order. `position`: the first place that was wrong."""

    order: tuple[int, ...]
    position: int


class Orderer(ABC):
    """Keeps the order of n filters as a function of what was profiled.

    Arguments:
        order: the order to begin with: the filter at each position.
        settings: probability, window and thrashing factor.
        times: seconds per row that each filter is taken to need before it was measured; None: all the same.
    """

    def __init__(self, order: Sequence[int], settings: OrderSettings | None = None, times: Times | None = None) -> None:
        self.settings = self.defaults() if settings is None else settings
        self._order = list(order)
        self.window = ProfileWindow(len(self._order), self.settings.window)
        self._assumed = np.ones(len(self._order)) if times is None else np.asarray(times, np.float64)

    @classmethod
    def defaults(cls) -> OrderSettings:
        """The settings of table 4.1 for this way."""
        return OrderSettings()

    @property
    def order(self) -> tuple[int, ...]:
        """The filter at each position."""
        return tuple(self._order)

    @property
    def times(self) -> Times:
        """Seconds per row of each filter, averaged over the window."""
        return np.maximum(self.window.times(self._assumed), LEAST_SECONDS)

    @abstractmethod
    def wanted(self, dropped: int) -> tuple[int, ...]:
        """Filters to ask besides those that were evaluated, for a profiled row dropped at a position (from 0)."""

    @abstractmethod
    def observe(self, profile: Profile) -> Reorder | None:
        """Take in what an epoch profiled under `order`. Returns the new order if it changes."""

    def forget(self, last: int) -> None:
        """Keep the last profile tuples alone: those before were seen under other conditions."""
        self.window.last(last)
