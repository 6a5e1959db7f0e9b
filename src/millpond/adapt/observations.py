"""What a plan was seen to do in an epoch: the by-product of running it that Profilers collect."""

from __future__ import annotations

from dataclasses import dataclass, field

from millpond.adapt.profile import Profile


@dataclass(frozen=True)
class OperatorStatistics:
    """One operator of a plan in an epoch: rows in and out, seconds.

    >>> OperatorStatistics("match", 1000, 250, 0.01).selectivity
    0.25
    """

    name: str
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0

    @property
    def selectivity(self) -> float | None:
        """Rows out per row in; None without any."""
        return self.rows_out / self.rows_in if self.rows_in else None

    def __add__(self, other: OperatorStatistics) -> OperatorStatistics:
        """Both together; the name is the first one's."""
        return OperatorStatistics(
            self.name, self.rows_in + other.rows_in, self.rows_out + other.rows_out, self.seconds + other.seconds
        )


@dataclass(frozen=True)
class Observation:
    """What an epoch observed of a plan, put together of the reports of its tasks.

    epoch, clock: which, and its manifest's clock reading (microseconds). operators: in the order of definition.
    seconds: that the plan took; overhead: that observing it took besides. profile: sampled profile tuples. taken, kept:
    rows that entered the plan and that passed all of it; -1: as operators say. turned: whether a task left the plan's
    order, so that an operator stood at several places. moved: whether a task saw others pass than the plan expects.
    """

    epoch: int
    clock: int
    operators: tuple[OperatorStatistics, ...] = ()
    seconds: float = 0.0
    overhead: float = 0.0
    profile: Profile | None = field(default=None, compare=False)
    taken: int = -1
    kept: int = -1
    turned: bool = False
    moved: bool = False

    @property
    def rows(self) -> int:
        """Rows that entered the plan."""
        return self.taken if self.taken >= 0 else max((o.rows_in for o in self.operators), default=0)

    @property
    def dropped(self) -> int:
        """Rows that some operator dropped."""
        kept = self.kept if self.kept >= 0 else min((o.rows_out for o in self.operators), default=0)
        return self.rows - kept
