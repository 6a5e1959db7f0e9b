"""How much time map tasks may spend on matching row queries ahead of any question: a decider without effects.

What is not found ahead is made from the ranks when a query is invoked, some microseconds per block: row queries must
not make epochs long. What was decided travels in the manifest, so that an epoch that is repeated does the same again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millpond.errors import PondError

#: No limit, as a number that JSON has.
UNLIMITED = 1e18


def share_of(value: Any) -> float:
    """The setting `matching_share` from what was given, a text too.

    Raises: PondError for what is no number from 0 on.

    >>> share_of("inf"), share_of(0.1)
    (inf, 0.1)
    """
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not share >= 0:
        raise PondError(f"matching_share = {value!r}: pass a number from 0 on, such as 0.1, or inf")
    return share


@dataclass
class MatchingPace:
    """Nanoseconds per row that matching may take, by estimate; learnt from what it took.

    share: of the time that an epoch takes otherwise, how much matching may add; infinite: all that the other limits
    allow. work: what the next epoch is told. least: what it is told at least, when nothing else is left of the share.

    >>> pace = MatchingPace(share=0.1, work=500.0)
    >>> pace.learn(rows=100_000, matching=0.2, others=0.5, limited=True)
    >>> pace.work < 500
    True
    """

    share: float = 0.1
    work: float = 500.0
    least: float = 1.0
    most: float = 1e6

    @property
    def told(self) -> float:
        """What a manifest says."""
        return UNLIMITED if self.share == float("inf") else self.work

    def learn(self, rows: int, matching: float, others: float, limited: bool) -> None:
        """Adapt to an epoch.

        Arguments:
            rows: matched by the task that took longest for it. matching: the seconds that this took.
            others: seconds of everything else in the epoch. limited: whether queries were left out for lack of time.
        """
        if rows <= 0 or matching <= 0 or others <= 0:
            return
        allowed = self.share * others
        if matching <= allowed and not limited:
            return  # there is room, and nothing to fill it with
        # What matching takes beside finding rows cannot be told apart: change in proportion, half way at a time.
        change = min(2.0, max(0.25, allowed / matching))
        self.work = min(self.most, max(self.least, self.work * (1.0 + change) / 2.0))
