"""What queries that read stores know of their progress, beside what all kinds do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from millpond.manifests.query_progress import OwnProgress, QueryProgress, all_told, by_shard, largest, smallest
from millpond.progress import NEVER


@dataclass(frozen=True)
class Floor:
    """Rows of the epochs from `first` to `last` are seen by a relational query from its horizon on; see `visibility`.

    closed: how far it had answered when they came (microseconds); edge: what `revise_for` was measured from.
    sides: of a stream of pairs, what `revise_for` was measured from for rows of each input."""

    first: int
    last: int
    closed: int
    edge: int
    sides: tuple[int, ...] = ()


@dataclass(frozen=True)
class RelationalProgress(OwnProgress):
    """How far a query has answered that reads stores; each kind has a class of its own below it.

    first: the first instant at which a row was seen.
    pending: the next instant at which something changes, if nothing comes before.
    edge: what `revise_for` is measured from: how far it has answered, but no further than the high watermark; it never
        goes back. floors: rows that it sees later than at their own time.
    """

    first: int | None = by_shard(smallest, None)
    pending: int | None = by_shard(smallest, None)
    edge: int = by_shard(largest, NEVER)
    floors: tuple[Floor, ...] = by_shard(all_told, ())


R = TypeVar("R", bound=RelationalProgress)

#: The progress of a query that reads stores, of whichever kind.
Reading: TypeAlias = QueryProgress[RelationalProgress]
