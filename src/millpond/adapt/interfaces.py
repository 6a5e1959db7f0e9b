"""The two halves of StreaMon beside the Executor, as every adaptive part of the engine has them (Babu 2005, ch. 3).

An epoch's manifest carries, for each subject (a conjunction of filters, say), the plan and what is to be profiled: the
`plan` of its Re-optimiser. Tasks execute the plan and report what they saw, JSON-ready. After the epoch is published
its Profiler puts the reports together (`observation`), and the Re-optimiser takes that in (`observe`): what it decides
is in the next manifest. So an epoch that is repeated uses the plan that it used, and a new adaptive part is a Profiler,
a Re-optimiser, and the code of tasks that executes its plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from millpond.adapt.observations import Observation
from millpond.adapt.plan_log import LogEntry

Plan_co = TypeVar("Plan_co", covariant=True)


class Profiler(Protocol):
    """Puts together what the tasks of an epoch report of one subject."""

    def observation(self, epoch: int, clock: int, reports: Sequence[dict[str, Any]]) -> Observation:
        """What the epoch observed; `reports` are of its map tasks, in their order."""
        ...


class Reoptimiser(Protocol[Plan_co]):
    """Chooses the plan of one subject. A state machine: no clock, no I/O."""

    @property
    def plan(self) -> Plan_co:
        """The plan of the next epoch, with what its tasks are to profile; JSON-ready by `millpond.types.to_json`."""
        ...

    def observe(self, observation: Observation) -> LogEntry | None:
        """Take in what an epoch observed. Returns what is to be added to the plan log."""
        ...


__all__ = ["Observation", "Profiler", "Reoptimiser"]
