"""Independent: filters by their own drop rates, as if they did not depend on each other.

Babu (2005), 4.5.2. Cheap and quick; up to n times worse than a greedy order when filters are correlated.
"""

from __future__ import annotations

import numpy as np

from millpond.adapt.orderer import Orderer, OrderSettings, Reorder
from millpond.adapt.profile import Profile


class Independent(Orderer):
    """Keeps filters in decreasing order of unconditional drops per second.

    >>> orderer = Independent((0, 1), OrderSettings(window=4))
    >>> orderer.observe(Profile(np.array([[0, 1], [0, 1], [1, 0]], np.int8)))
    Reorder(order=(1, 0), position=0)
    """

    @classmethod
    def defaults(cls) -> OrderSettings:
        """Half of A-Greedy's profiling."""
        return OrderSettings(probability=0.005)

    def wanted(self, dropped: int) -> tuple[int, ...]:
        """All filters behind the one that dropped the row."""
        return self.order[dropped + 1 :]

    def observe(self, profile: Profile) -> Reorder | None:
        """Take in what an epoch profiled."""
        self.window.push(profile)
        counts = (self.window.bits > 0).sum(axis=0)
        ratios = (counts / self.times)[self._order]
        best_behind = np.maximum.accumulate(ratios[::-1])[::-1]
        wrong = np.flatnonzero(ratios < self.settings.alpha * best_behind)
        if not len(wrong):
            return None
        self._order = [self._order[i] for i in np.argsort(-ratios, kind="stable")]
        return Reorder(self.order, int(wrong[0]))
