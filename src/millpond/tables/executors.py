"""Jobs of the engine's one shape: map tasks, an exchange of packed tables by shard, merge tasks.

Tasks run in Spark, or in this process without a JVM. Both run the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from millpond.tables.chunks import Payload


@dataclass(frozen=True)
class Parcel:
    """What a map task sends to a shard: a partial of a synopsis, or (owner '') the task's report."""

    shard: int
    owner: str
    task: int
    payload: Payload


MapTask = Callable[[int], Iterator[Parcel]]
MergeTask = Callable[[int, Sequence[Parcel]], tuple[dict[str, Any], Payload]]


class Executor(Protocol):
    """Runs a job of the engine's one shape: map tasks, an exchange of few packed rows, one merge task per shard."""

    def run(
        self, map_task: MapTask, tasks: int, merge_task: MergeTask, shards: int, background: bool = False
    ) -> list[tuple[dict[str, Any], Payload]]:
        """The merge tasks' reports, in shard order. `background`: leave a core to epochs."""
        ...

    @property
    def cores(self) -> int:
        """How many tasks can run at once."""
        ...


class InlineExecutor:
    """Runs everything in the calling thread."""

    cores = 2

    def run(
        self, map_task: MapTask, tasks: int, merge_task: MergeTask, shards: int, background: bool = False
    ) -> list[tuple[dict[str, Any], Payload]]:
        """See `Executor.run`."""
        parcels = [parcel for task in range(tasks) for parcel in map_task(task)]
        return [merge_task(shard, [p for p in parcels if p.shard == shard]) for shard in range(shards)]
