"""The order of filters within a task: the plan's, until what the task itself has profiled says another.

The Re-optimiser's order is for the next epoch; an epoch that takes in a backlog has many pieces, and conditions may
change within it, or with it. Where filters are dear, a task looks after its first rows already: if others pass than the
plan expects, it profiles at once. Nothing of it depends on a clock: times are the plan's, so a repeated task takes the
same orders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millpond.adapt.filter_plans import FEW, WAYS, FilterPlan, are_apart
from millpond.adapt.orderer import Orderer, OrderSettings
from millpond.adapt.profile import Bits, Profile

#: Profile tuples of its own that count for a task at most; how much more than the Re-optimiser's a change must promise,
#: since it rests on fewer.
COUNT, SURER = 250, 0.8

#: Rows after which a task looks at its order for the first time: where all filters together take so many seconds for a
#: row, and a piece has so many rows at least. Else it is too much trouble, since each filter is called once more.
FIRST, DEAR, MUCH = 512, 20e-6, 32_768

#: Seconds that a piece may take in a wrong order, from which on a task looks at what the first filter does with its
#: first rows, before it asks it for the others: one call more.
STAKE = 0.1


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
        self._expects = {n: (e[0], e[1]) for n, e in enumerate(plan.expects) if len(e) == 2 and e[1]}
        self._credit = plan.credit if self._orderer is not None else 0
        self._lacking = 0
        self._looked = False
        #: Whether others pass than the plan expects.
        self.moved = False
        if plan.new:
            self._lacking, self._credit = self._credit, 0

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

    def rows(self, most: int) -> int:
        """Of the rows that are left of a piece, how many to evaluate before the next look at the order."""
        worth = self.plan.new or (sum(self.plan.times) >= DEAR and most >= MUCH)
        if self._orderer is None or not self.plan.credit or not worth or self._looked or most < 2 * FIRST:
            return most
        self._looked = True
        return FIRST

    def peek(self, rows: int) -> int:
        """Of the rows of a piece, on how many to look at the first filter before it is asked for the others; 0: none.

        Where it passes what the plan expects it to, so few rows come to the others that their order does not matter as
        much.
        """
        known = self._credit and self.order[0] in self._expects
        return FIRST if known and rows >= 2 * FIRST and rows * sum(self.plan.times) >= STAKE else 0

    def moves(self, passed: tuple[int, int]) -> bool:
        """Whether the first filter passes so many rows, of so many, that conditions have moved."""
        return are_apart(self._expects[self.order[0]], passed)

    def saw(self, passed: Sequence[tuple[int, int]]) -> bool:
        """Take in how many rows passed each filter, of how many, in the order of the filters as they are written.

        Returns: whether conditions have moved: what was profiled before says nothing of them.
        """
        if self._orderer is None:
            return False
        seen = {n: each for n, each in enumerate(passed) if each[1]}
        moved = any(are_apart(self._expects[n], each) for n, each in seen.items() if n in self._expects)
        if moved:
            self.moved, self._looked, self._expects = True, False, {}
            self._lacking, self._credit = max(self._lacking, self._credit), 0
            self._orderer.forget(0)
            self._waiting, self._seen = [], 0
        self._expects = seen | self._expects
        return moved

    def probability(self, dropped: int) -> float:
        """Share of some dropped rows that are profiled: the plan's, or what a portion takes that is lacking."""
        lacking = 1.2 * self._lacking / dropped if dropped else 0.0
        return min(1.0, max(self.plan.probability, lacking))

    def take(self, bits: Bits) -> None:
        """Take in what was profiled, under `order`."""
        if self._orderer is None:
            return
        before = self.order
        self._lacking = max(0, self._lacking - len(bits))
        self._seen += len(bits)
        self._waiting.append(bits[-self._orderer.settings.window :])  # others would leave the window at once
        if self._seen >= FEW:
            for each in self._waiting:
                self._orderer.observe(Profile(each))
            self._waiting = []
        if self.order != before:
            self._expects = {}  # rows come to a filter that others let pass
