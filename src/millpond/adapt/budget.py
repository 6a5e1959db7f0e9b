"""What profiling may take: a share of the filters' time, saved up and spent in portions that are worth their cost.

A token bucket. Asking filters for a handful of rows costs nearly as much as asking them for a hundred, so that in small
epochs every one of them would be over the budget; saved up over some, the same share pays for a useful portion.
"""

from __future__ import annotations

from statistics import median

#: Portions whose cost counts: of these the median, so that neither a stall nor a lucky one decides.
RECENT = 5

#: Portions that can be saved up, that can be had on credit, and of debts those that are not forgiven.
SAVED, LENT, OWED = 4, 4, 8


class Account:
    """A share of the time of filters, as seconds that may be spent on profiling. A state machine: it reads no clock.

    In the long run what is spent is at most the share of the whole, but for what is owed at an end (`LENT` usual
    portions), and what a stall took beyond `OWED`: that is not paid back for ever. The first portion finds caches cold
    and is free.

    Arguments:
        share: of the time of filters and of profiling together, that profiling may take; from 1 on there is no limit.

    >>> account = Account(0.5)
    >>> account.settle(seconds=1.0, spent=3.0), account.settle(1.0, 3.0), account.saves
    (None, None, False)
    >>> account.settle(5.0, 0.0), account.saves
    (None, True)
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.saved = 0.0
        self._cold = True
        self._costs: list[float] = []

    @property
    def usual(self) -> float:
        """Seconds that a portion takes; 0 while none was seen."""
        return median(self._costs) if self._costs else 0.0

    @property
    def saves(self) -> bool:
        """Whether enough is saved up for a portion."""
        return self.share >= 1 or (self.share > 0 and self.saved >= self.usual)

    @property
    def lends(self) -> bool:
        """Whether a portion may be had before it is saved up."""
        return self.share >= 1 or (self.share > 0 and self.saved >= (1 - LENT) * self.usual)

    def settle(self, seconds: float, spent: float) -> None:
        """An epoch has ended.

        Arguments:
            seconds: that filters took. spent: seconds that profiling took besides; 0 without a portion.
        """
        if self.share >= 1:
            return
        self.saved += seconds * self.share / (1 - self.share)
        if spent > 0:
            if self._cold:
                self._cold = False
                return
            self._costs = [*self._costs, spent][-RECENT:]
            self.saved -= spent
        self.saved = min(max(self.saved, -OWED * self.usual), SAVED * self.usual)
