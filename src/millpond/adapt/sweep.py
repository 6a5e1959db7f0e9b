"""Sweep: one filter at a time is compared with those before it.

Babu (2005), 4.5.1. Ends at a greedy order like A-Greedy, profiles one filter per row, and takes longer to see a change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millpond.adapt.orderer import Orderer, OrderSettings, Reorder
from millpond.adapt.profile import UNKNOWN, Profile, Times

#: Of its window the part that a stage waits for before a filter moves.
BEGUN = 10


class Sweep(Orderer):
    """In each stage the filter at position `stage` (rotating over the second to the last) is profiled.

    A stage ends when that filter belongs further in front, and moves there, or after `window` tuples without need.
    Then the window is emptied, since of other filters nothing is known.

    A stage has few tuples, and of those that come to a late position hardly any: of two that nobody dropped, say, the
    filter may drop one. So it has to promise more by a standard deviation of both counts, each with one more than was
    seen. Without that a filter that costs a hundred times the others came to stand in front of one of them again and
    again, for the length of a sweep.
    """

    def __init__(self, order: Sequence[int], settings: OrderSettings | None = None, times: Times | None = None) -> None:
        super().__init__(order, settings, times)
        self.stage = 1

    @classmethod
    def defaults(cls) -> OrderSettings:
        """A stage of 500 profile tuples."""
        return OrderSettings(window=500)

    def wanted(self, dropped: int) -> tuple[int, ...]:
        """The filter of the stage, if the row was dropped before it."""
        return (self._order[self.stage],) if dropped < self.stage < len(self._order) else ()

    def observe(self, profile: Profile) -> Reorder | None:
        """Take in what an epoch profiled under `order` and `stage`."""
        if len(self._order) < 2:
            return None
        self.window.push(profile)
        bits = self.window.bits[:, self._order[: self.stage + 1]]
        drops = bits > 0
        first = np.where(drops.any(axis=1), drops.argmax(axis=1), self.stage + 1)
        seen = first[bits[:, self.stage] != UNKNOWN]
        taken = first[drops[:, self.stage]]
        places = np.arange(self.stage)
        here = (seen[:, None] == places).sum(axis=0)
        instead = (taken[:, None] >= places).sum(axis=0)
        times = self.times[self._order]
        if len(self.window.bits) < self.settings.window // BEGUN:
            return None
        own, its = 1 / times[: self.stage], self.settings.alpha / times[self.stage]
        chance = np.sqrt((here + 1) * own**2 + (instead + 1) * its**2)
        wrong = np.flatnonzero(instead * its - here * own > chance)
        if len(wrong):
            self._order.insert(int(wrong[0]), self._order.pop(self.stage))
        if len(wrong) or len(self.window.bits) >= self.settings.window:
            self._assumed = self.times
            self.window.clear()
            self.stage = self.stage % (len(self._order) - 1) + 1
        return Reorder(self.order, int(wrong[0])) if len(wrong) else None
