"""What is known of the groups of aggregates over a join: kept from epoch to epoch, as what each epoch adds to it.

The sums of a group are whole numbers that add up (`relations.sums`), so an epoch stores how they differ from before,
and what is known is the sum of all that was stored. Files are put together by adding up, and no row is read for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from millpond.manifests.places import state_folder
from millpond.operators.relation.relation_progress import Progress
from millpond.progress import FOREVER
from millpond.relations import Content, TablesInTime, Ticks, difference
from millpond.relations.pipelines import Observer
from millpond.relations.sums import grouping_of, nothing, sums_at, sums_between, told, total
from millpond.synopses import query_table
from millpond.tables import Chunk, Segment, read_chunks
from millpond.tables.shard_cache import ShardCache, Version
from millpond.types import RelationQuery

#: Chunks of state that are sums of groups.
GROUPS = "groups"

#: Gives what was stored of a query's groups.
Stored = Callable[[], Sequence[pa.Table]]


@dataclass
class Sums:
    """What an epoch knows of the groups of a query, and what it adds.

    known: of the instant before the first that is not reported. added: what makes it differ from what was stored.
    observer: of the pipelines. ticks: the instants that are looked at alone; None: all.
    """

    db: duckdb.DuckDBPyConnection
    query: RelationQuery
    tables: TablesInTime
    observer: Observer | None
    ticks: Ticks | None
    known: pa.Table
    added: list[pa.Table] = field(default_factory=list)

    @staticmethod
    def of(
        db: duckdb.DuckDBPyConnection,
        query: RelationQuery,
        tables: TablesInTime,
        observer: Observer | None,
        ticks: Ticks | None,
        progress: Progress,
        stored: Stored,
        before: Callable[[], Sequence[Content]],
    ) -> Sums:
        """The sums as an epoch finds them. before: the inputs as they were known before it."""
        grouping = grouping_of(query)
        parts = [(t, 1) for t in stored()] if progress.own.summed else []
        known = total(db, grouping, parts) if parts else nothing(db, grouping)
        sums = Sums(db, query, tables, observer, ticks, known)
        if not progress.own.summed:
            sums.add([(sums_at(db, query, before(), tables, max(progress.closed, progress.start) - 1, ticks), 1)])
        return sums

    def revised(
        self,
        before: Sequence[Content],
        after: Sequence[Content],
        low: int,
        closed: int,
        ticks: Sequence[Ticks | None],
        earlier: bool,
    ) -> pa.Table:
        """How what was reported of low <= τ < closed differs, now that inputs are others.

        Arguments:
            ticks: of RSTREAM, before and after. earlier: inputs are others before `low`, too.
        """
        grouping = grouping_of(self.query)
        old, new = (
            sums_between(self.db, self.query, c, self.tables, low, closed, o, self.ticks)
            for c, o in ((before, None), (after, self.observer))
        )
        starts = [total(self.db, grouping, [(self.known, 1), (old, -1)])] * 2
        parts = [(new, 1), (old, -1)]
        if earlier:  # what is there at the first instant may have come before it
            there = (sums_at(self.db, self.query, c, self.tables, low - 1, self.ticks) for c in (before, after))
            parts += zip(there, (-1, 1), strict=True)
            starts[1] = total(self.db, grouping, [(starts[0], 1), *parts[2:]])
        both = zip(starts, (old, new), ticks, strict=True)
        reported = [told(self.db, self.query, start, sums, t, low, closed) for start, sums, t in both]
        self.add(parts)
        return difference(self.db, self.query, *reported)

    def passed(self, contents: Sequence[Content], low: int, high: int, ticks: Ticks | None) -> pa.Table:
        """What is reported of low <= τ < high, the stretch behind what is known; the sums go on to its end."""
        changes = sums_between(self.db, self.query, contents, self.tables, low, high, self.observer, self.ticks)
        found = told(self.db, self.query, self.known, changes, ticks, low, high)
        self.add([(changes, 1)])
        return found

    def ahead(self, contents: Sequence[Content], low: int, high: int, ticks: Ticks | None) -> pa.Table:
        """As `passed`, of instants that are not passed: the sums stay where they are."""
        changes = sums_between(self.db, self.query, contents, self.tables, low, high, None, self.ticks)
        return told(self.db, self.query, self.known, changes, ticks, low, high)

    def add(self, parts: Sequence[tuple[pa.Table, int]]) -> None:
        """Go on from here."""
        grouping = grouping_of(self.query)
        more = total(self.db, grouping, parts)
        self.known = total(self.db, grouping, [(self.known, 1), (more, 1)])
        self.added.append(more)

    def stored(self) -> pa.Table | None:
        """What the epoch stores; None: nothing differs."""
        parts = [(t, 1) for t in self.added if t.num_rows]
        found = total(self.db, grouping_of(self.query), parts) if parts else None
        return found if found is not None and found.num_rows else None


def sums_chunk(owner: str, epoch: int, sums: pa.Table) -> Chunk:
    """The chunk that stores sums. They are of no time, and never expire."""
    return Chunk(owner, GROUPS, epoch, FOREVER, FOREVER, sums)


def put_together(
    db: duckdb.DuckDBPyConnection, query: RelationQuery, owner: str, group: Sequence[Chunk]
) -> list[Chunk]:
    """Chunks of the sums of a query as one."""
    sums = total(db, grouping_of(query), [(c.table, 1) for c in group])
    return [sums_chunk(owner, max(c.epoch for c in group), sums)] if sums.num_rows else []


#: What was read last: the files, and the sum of what is in them.
_kept: ShardCache[tuple[frozenset[str], pa.Table]] = ShardCache()


def read_sums(
    db: duckdb.DuckDBPyConnection,
    version: Version,
    segments: Sequence[Segment],
    query: RelationQuery,
    owner: str,
    shard: int,
) -> list[pa.Table]:
    """What the state files of a shard have of a query's groups, added up."""
    names = [s.path for s in segments if s.high >= FOREVER]
    files = frozenset(names)
    kept = _kept.get(version, owner, shard)
    known, sums = (frozenset(), None) if kept is None else kept.value
    fresh = [n for n in names if n not in known] if known <= files else names
    paths = [os.path.join(state_folder(version.pond), name) for name in fresh]
    parts = [(c.table, 1) for c in read_chunks(paths, {owner}, lambda _o, kind, *_: kind == GROUPS)]
    if sums is not None and known <= files:
        parts = [(sums, 1), *parts]
    if parts and (len(parts) > 1 or sums is None or fresh):
        sums = total(db, grouping_of(query), parts)
    elif not parts:
        sums = None
    if sums is None:
        _kept.drop(version, owner, shard)
        return []
    _kept.put(version, owner, shard, (files, sums))
    return [sums]


def by_shard(
    db: duckdb.DuckDBPyConnection, query: RelationQuery, sums: pa.Table, shards: int, shard: int
) -> dict[int, pa.Table]:
    """The sums by the shard that has the rows of each group."""
    placed = grouping_of(query).placed
    if not placed or shards == 1:
        return {shard: sums}
    hashes = query_table(db, f"SELECT hash({placed}) AS h FROM r", r=sums)["h"].to_numpy() % np.uint64(shards)
    parts = {n: sums.filter(pa.array(hashes == n)) for n in range(shards)}
    return {n: part for n, part in parts.items() if part.num_rows}
