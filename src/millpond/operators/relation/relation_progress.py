"""What relations know of the progress of a query, beside what all do that read stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from millpond.manifests.query_progress import QueryProgress, by_shard, largest, news
from millpond.operators.relational.relational_progress import RelationalProgress
from millpond.progress import NEVER


@dataclass(frozen=True)
class RelationProgress(RelationalProgress):
    """How far a relational query has answered.

    early_at: the clock reading of its last early answers. stirred: whether rows of its streams came since; both only
        with the option `early`.
    summed: of aggregates over a join, whether what is known of groups is kept (`group_sums`).
    groups: groups whose instants are reported further than `closed`, on a stream with bounds of groups (microseconds).
    """

    word: ClassVar[str] = "relation"

    early_at: int = by_shard(largest, NEVER)
    stirred: bool = by_shard(largest, False)
    summed: bool = by_shard(largest, False)
    groups: dict[str, int] = field(default_factory=dict, metadata={"rule": news})


#: The progress of a relational query.
Progress: TypeAlias = QueryProgress[RelationProgress]
