"""What streams of pairs know of the progress of a query, beside what all do that read stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from millpond.manifests.query_progress import QueryProgress, by_shard, news
from millpond.operators.relational.relational_progress import RelationalProgress


@dataclass(frozen=True)
class PairsProgress(RelationalProgress):
    """How far a stream of pairs has been reported.

    sides: the bound of each input; side_groups: those of its groups that are further. edges: what `revise_for` is
        measured from for each of them.
    """

    word: ClassVar[str] = "pairs"

    sides: tuple[int, ...] = by_shard(news, ())
    edges: tuple[int, ...] = by_shard(news, ())
    side_groups: tuple[dict[str, int], ...] = by_shard(news, ())


#: The progress of a stream of pairs.
Progress: TypeAlias = QueryProgress[PairsProgress]
