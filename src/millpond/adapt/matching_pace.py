"""How much time map tasks may spend on matching row queries ahead of any question: a decider without effects.

What is not found ahead is made from the ranks when a query is invoked, some microseconds per block: row queries must
not make epochs long. What was decided travels in the manifest, so that an epoch that is repeated does the same again.
"""

from __future__ import annotations

from dataclasses import dataclass

#: No limit, as a number that JSON has.
UNLIMITED = 1e18


@dataclass
class MatchingPace:
    """Nanoseconds per row that matching may take, by estimate; learnt from what it took.

    share: of the time that an epoch takes otherwise, how much matching may add; infinite: all that the other limits
    allow. work: what the next epoch is told. speed: how much longer matching takes than the estimate says, as far as is
    known. least: what an epoch is told at least, when nothing else is left of the share.

    >>> pace = MatchingPace(share=0.1, work=500.0)
    >>> pace.learn(rows=100_000, matching=0.2, others=0.5, used=5e7)
    >>> pace.work < 500
    True
    """

    share: float = 0.1
    work: float = 500.0
    speed: float = 1.0
    least: float = 1.0
    most: float = 1e6

    @property
    def told(self) -> float:
        """What a manifest says."""
        return UNLIMITED if self.share == float("inf") else self.work

    def learn(self, rows: int, matching: float, others: float, used: float) -> None:
        """Adapt to an epoch.

        Where nothing was matched ahead, since the share is too small for it, only the share is known anew: trying
        whether it is quicker than the estimate says would make an epoch long, now and then.

        Arguments:
            rows: of the task that took longest for it. matching: the seconds that this took.
            others: seconds of everything else in the epoch. used: nanoseconds that finding rows was said to take.
        """
        if rows <= 0 or others <= 0 or self.share == float("inf"):
            return
        if used > 0 and matching > 0:
            # What matching takes beside finding rows cannot be told apart; half way at a time.
            found = min(4.0 * self.speed, max(self.speed / 4.0, matching / (used * 1e-9)))
            self.speed = (self.speed + found) / 2.0
        allowed = self.share * others / self.speed / rows * 1e9
        self.work = min(self.most, max(self.least, (self.work + allowed) / 2.0))
