"""The order of filters within a task: the plan's, until what the task itself has profiled says another.

The Re-optimiser's order is for the next epoch; an epoch that takes in a backlog has many pieces, and conditions may
change within it. Nothing of it depends on a clock: times are the plan's, so a repeated task takes the same orders.
"""

from __future__ import annotations

import numpy as np

from millpond.adapt.filter_plans import WAYS, FilterPlan
from millpond.adapt.orderer import Orderer, OrderSettings
from millpond.adapt.profile import Bits, Profile

#: Profile tuples of its own with which a task may leave the plan's order, and that count for it at most; how much more
#: than the Re-optimiser's a change must promise, since it rests on fewer.
FEW, COUNT, SURER = 100, 250, 0.8


class LocalOrder:
    """Keeps the order of a task's filters between its pieces.

    Arguments:
        plan: of the epoch. One without times is kept as it is.

    >>> import numpy as np
    >>> local = LocalOrder(FilterPlan((0, 1), 0.01, ((1,), ()), way="a_greedy", times=(1e-6, 1e-6)))
    >>> local.take(np.array([[0, 1]] * 100, np.int8))
    >>> local.order, local.ask, local.turned
    ((1, 0), ((0,), ()), True)
    """

    def __init__(self, plan: FilterPlan) -> None:
        self.plan = plan
        self._orderer: Orderer | None = None
        if len(plan.times) == len(plan.order) > 1 and plan.way in WAYS:
            settings = OrderSettings(plan.probability, min(COUNT, plan.most), plan.alpha * SURER)
            self._orderer = WAYS[plan.way](plan.order, settings, np.array(plan.times))
        self._waiting: list[Bits] = []
        self._seen = 0

    @property
    def order(self) -> tuple[int, ...]:
        """The filter at each position."""
        return self.plan.order if self._orderer is None else self._orderer.order

    @property
    def ask(self) -> tuple[tuple[int, ...], ...]:
        """Filters that are asked besides, for a profiled row dropped at each position."""
        if self._orderer is None:
            return self.plan.ask
        return tuple(self._orderer.wanted(position) for position in range(len(self.order)))

    @property
    def turned(self) -> bool:
        """Whether it is another order than the plan's."""
        return self.order != self.plan.order

    def take(self, bits: Bits) -> None:
        """Take in what a piece profiled, under `order`."""
        if self._orderer is None:
            return
        self._seen += len(bits)
        self._waiting.append(bits[-self._orderer.settings.window :])  # others would leave the window at once
        if self._seen >= FEW:
            for each in self._waiting:
                self._orderer.observe(Profile(each))
            self._waiting = []
