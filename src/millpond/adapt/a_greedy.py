"""A-Greedy: an order that is greedy for the last profile tuples, whatever the correlation of the filters.

Babu (2005), 4.3; within a factor of 4 / alpha of the best order once conditions are stable (theorem 4.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence

from millpond.adapt.matrix_view import MatrixView
from millpond.adapt.orderer import Orderer, OrderSettings, Reorder
from millpond.adapt.profile import Profile, Times


class AGreedy(Orderer):
    """Keeps the greedy invariant: at every position stands the filter that drops most per second there.

    >>> import numpy as np
    >>> orderer = AGreedy((0, 1), OrderSettings(window=4))
    >>> orderer.observe(Profile(np.array([[0, 1], [0, 1], [1, 0]], np.int8)))
    Reorder(order=(1, 0), position=0)
    """

    def __init__(self, order: Sequence[int], settings: OrderSettings | None = None, times: Times | None = None) -> None:
        super().__init__(order, settings, times)
        self.view = MatrixView(order)

    @property
    def order(self) -> tuple[int, ...]:
        """The filter at each position."""
        return tuple(self.view.order)

    def wanted(self, dropped: int) -> tuple[int, ...]:
        """All filters behind the one that dropped the row."""
        return self.order[dropped + 1 :]

    def observe(self, profile: Profile) -> Reorder | None:
        """Take in what an epoch profiled; a violation is corrected at once from the window, without new samples."""
        gone = self.window.push(profile)
        self.view.insert(profile.bits)
        self.view.delete(gone)
        times, first = self.times, None
        while (at := self.view.violation(times, self.settings.alpha)) is not None:
            first = at if first is None else first
            self.view.correct(at, self.window.bits, times)
        return None if first is None else Reorder(self.order, first)

    def forget(self, last: int) -> None:
        """Keep the last profile tuples alone; the view is of these."""
        self.view.delete(self.window.last(last))
