"""The merge step of relational queries: rows into their stores, and from these to answers (`relation_answers`)."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Catalog, Standing, Store
from millpond.catalog.unions import late_of, progress_of
from millpond.language.duck import quote
from millpond.language.spreading import EVERYWHERE, are_together
from millpond.manifests.places import state_folder
from millpond.manifests.records import Manifest, QueryProgress
from millpond.operators.pairs.advance import advance_pairs, moved
from millpond.operators.relation.advance import Given, Input, advance_relation
from millpond.operators.relation.bounds import answered_until, high_of, is_paired, pair_bounds, specs_of, stirring_bound
from millpond.operators.relation.early import Speculation
from millpond.operators.relation.group_sums import read_sums, sums_chunk
from millpond.operators.relation.join_orders import JoinOrders
from millpond.operators.relation.needs import horizon_of, lows_of, needed_mask, unanswered
from millpond.operators.relation.probing import Past, marked
from millpond.operators.relation.table_use import TableUse, trimmed
from millpond.operators.relation.visibility import floored, revises
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.early import EARLY, due
from millpond.progress import NEVER, StreamProgress
from millpond.relations import Run, all_rows, kept, merge_rows, only_needed, spare_of, with_rows
from millpond.relations.spilling import spill
from millpond.support.errors import SourceError
from millpond.synopses import query_table, tolerance
from millpond.synopses.parallel import at_most, side_by_side
from millpond.synopses.tolerance import one_line
from millpond.tables import Chunk, Segment, read_chunks
from millpond.types import StreamDefinition, to_json

if TYPE_CHECKING:
    from millpond.archive.reading.scan import Counters

#: Chunks of state that are rows of stores.
ROWS = "rows"

#: What a query's own data can raise: it fails the query, not the epoch.
FAULTS = (*tolerance.FAULTS, SourceError)

#: Rows of a store that are kept in memory without asking whether anybody needs them.
PRUNED = 20_000


@dataclass(frozen=True)
class _Kept:
    """Rows of a store after an epoch; size: how many there were when those that nobody needs were last left out.

    adopted: the files of back-fills that were read.
    """

    epoch: int
    runs: tuple[Run, ...]
    size: int
    adopted: frozenset[str] = frozenset()


_kept: dict[tuple[str, str, int], _Kept] = {}


def store_runs(
    db: duckdb.DuckDBPyConnection,
    pond: str,
    pond_id: str,
    manifest: Manifest,
    catalog: Catalog,
    store: Store,
    shard: int,
    delta: pa.Table | None,
    segments: Sequence[Segment],
) -> tuple[Run, ...]:
    """All rows of a store with those of the epoch, in total order."""
    key = pond_id, store.owner, shard
    held = _kept.get(key)
    adopted = any(str(q.id) in manifest.adopt for q in catalog.users(store.owner))
    # What is kept is good for the next epoch, and for a repetition of this one if that brought nothing.
    fits = held is not None and held.epoch == manifest.epoch - (0 if delta is None and not adopted else 1)
    files = frozenset(s.path for s in segments if s.path.startswith("b"))
    runs: tuple[Run, ...]
    missed = None if held is None or adopted else _missed(held, files, manifest, segments)
    if held is not None and fits and not adopted:
        runs, size = held.runs, held.size
    elif held is not None and missed is not None:
        runs, size = held.runs, held.size
        for rows in _read_rows(pond, store.owner, missed):
            runs = with_rows(runs, rows)
    else:
        parts = _read_rows(pond, store.owner, [s.path for s in segments])
        runs, size = with_rows((), merge_rows(parts)) if parts else (), 0
    if delta is not None and delta.num_rows:
        runs = with_rows(runs, delta)
    count = sum(len(r) for r in runs)
    if count > max(PRUNED, 2 * size):
        runs = only_needed(runs, needed_mask(db, manifest, catalog, store, all_rows(runs)))
        size = sum(len(r) for r in runs)
    asked = [q.definition.options.memory_rows for q in catalog.users(store.owner)]
    if (most := min((n for n in asked if n is not None), default=None)) is not None:
        runs = spill(runs, most, os.path.join(pond, "spill"))
    _kept[key] = _Kept(manifest.epoch, runs, size, files)
    return runs


def _missed(held: _Kept, files: frozenset[str], manifest: Manifest, segments: Sequence[Segment]) -> list[str] | None:
    """The files of the epochs that others ran since; None when they do not tell all that is new."""
    if held.epoch >= manifest.epoch or files - held.adopted:
        return None
    paths = [s.path for s in segments if not s.path.startswith("b") and int(s.path[1:13]) > held.epoch]
    # What has been put together holds rows of before as well.
    return paths if all(p.startswith("e") for p in paths) else None


def _read_rows(pond: str, owner: str, paths: Sequence[str]) -> list[pa.Table]:
    found = read_chunks([os.path.join(state_folder(pond), p) for p in paths], {owner}, lambda _o, k, *_: k == ROWS)
    return [merge_rows([c.table]) for c in found if c.table.num_rows]


def keep_silent(pond_id: str, manifest: Manifest, owner: str, shard: int) -> None:
    """What is kept of a store that an epoch brought nothing for is as good after it."""
    held = _kept.get((pond_id, owner, shard))
    if held is not None and held.epoch == manifest.epoch - 1:
        _kept[pond_id, owner, shard] = replace(held, epoch=manifest.epoch)


def row_chunk(owner: str, epoch: int, rows: pa.Table) -> Chunk:
    """The chunk that stores rows."""
    span = pc.min_max(rows["_t"]).as_py()
    return Chunk(owner, ROWS, epoch, span["min"], span["max"], rows)


def early_chunk(owner: str, epoch: int, rows: pa.Table) -> Chunk:
    """The chunk that remembers what was shown early of instants."""
    span = pc.min_max(rows["_at"]).as_py()
    return Chunk(owner, EARLY, epoch, span["min"], span["max"], rows)


@dataclass
class Shard:
    """The relational queries of one shard in one epoch; `run` gives state, results and progress.

    parts: what the map tasks sent, by store. given: revision numbers of a query (by owner); early: what it has shown
    early of instants from one on. spent: seconds by query. observed: what was seen of pipelines, by subject.
    """

    db: duckdb.DuckDBPyConnection
    pond: str
    pond_id: str
    manifest: Manifest
    catalog: Catalog
    number: int
    parts: Mapping[str, Sequence[pa.Table]]
    progress: Mapping[str, StreamProgress]
    segments: Sequence[Segment]
    given: Callable[[str], Given]
    early: Callable[[str, int], list[pa.Table]]
    state: list[Chunk]
    results: list[Chunk]
    advanced: dict[str, Any]
    failures: dict[str, str]
    spent: dict[str, float]
    counters: Counters | None = None
    observed: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """Store the epoch's rows, and answer every query."""
        manifest = self.manifest
        rows: dict[str, tuple[Run, ...]] = {}
        deltas: dict[str, pa.Table | None] = {}
        for store in self.catalog.stores.values():
            if not store.in_shard(self.number) or store.first_epoch > manifest.epoch:
                continue
            known, late = progress_of(self.catalog, store.spec, manifest.progress), late_of(self.catalog, store.spec)
            parts = [p for p in self.parts.get(store.owner, ()) if p.num_rows]
            delta = marked(store.spec, late, known, merge_rows(parts)) if parts else None
            if (taken_over := self._taken_over(store)) is not None:
                delta = taken_over if delta is None else merge_rows([delta, taken_over])
            if delta is not None and _is_kept(self.catalog, store):
                self.state.append(row_chunk(store.owner, manifest.epoch, delta))
            else:
                keep_silent(self.pond_id, manifest, store.owner, self.number)
            deltas[store.owner] = delta
        for standing in self.catalog.queries.values():
            if not standing.inputs or standing.inputs[0] not in deltas or standing.status != "live":
                continue
            if str(standing.id) not in self.failures:
                begun = clock.perf_counter()
                with at_most(self._threads(standing)):
                    self._answer(standing, deltas, rows)
                self.spent[str(standing.id)] = clock.perf_counter() - begun
        for key in [k for k in _kept if k[0] == self.pond_id and k[1] not in self.catalog.stores]:
            del _kept[key]

    def _taken_over(self, store: Store) -> pa.Table | None:
        """Rows of earlier epochs with keys that are split from now on, of which every shard needs a copy."""
        shards = self.manifest.shards
        keys = [int(k) for k in self.manifest.moved.get(store.owner, ()) if int(k) % shards != self.number]
        homes = {k % shards for k in keys}
        parts = _read_rows(self.pond, store.owner, [s.path for s in self.manifest.state if s.shard in homes])
        if not keys or not parts:
            return None
        rows = merge_rows(parts)
        hashes = query_table(self.db, f"SELECT hash({store.spread}) AS h FROM r", r=rows)["h"].to_numpy()
        wanted = np.isin(hashes, np.array(keys, np.uint64))
        for own in _read_rows(self.pond, store.owner, [s.path for s in self.segments]):
            wanted &= ~np.isin(rows["_id"].to_numpy(), own["_id"].to_numpy())
        return rows.filter(pa.array(wanted)) if wanted.any() else None

    def _answer(
        self, standing: Standing, deltas: Mapping[str, pa.Table | None], rows: dict[str, tuple[Run, ...]]
    ) -> None:
        key, manifest, options = str(standing.id), self.manifest, standing.definition.options
        before = manifest.queries.get(key, QueryProgress())
        bound = answered_until(self.catalog, standing, self.progress, manifest.clock)
        since = unanswered(manifest, standing, before)
        owners = standing.inputs
        owner, speculation = f"q{standing.id}", None
        if options.early is not None:
            streams = {s.id for s in self.catalog.streams_of(standing)}
            stirred = before.stirred or any(s.stream in streams for s in manifest.splits)
            speculation = Speculation(partial(self.early, owner), manifest.clock, stirred)
            before = replace(before, stirred=stirred)
        stirs = stirring_bound(self.catalog, standing, self.progress, manifest.clock)
        silent = all(deltas[o] is None for o in owners) and (before.pending is None or before.pending >= stirs)
        speculates = before.stirred and due(options, before, manifest.clock)
        silent = silent and not self._tables(standing).changes(before)
        silent = silent and not self._is_unsummed(standing, before, deltas, rows)
        if silent and since == manifest.epoch and options.every is None and not speculates:
            after = self._moved(standing, before) if is_paired(standing) else before
            self.advanced[key] = to_json(replace(after, closed=max(before.closed, bound), paused=None))
            return
        for _ in (1, 2):  # a query is given up when it fails an epoch twice
            try:
                result = self._advance(standing, deltas, rows, before, bound, since, self.given(owner), speculation)
                break
            except FAULTS as error:
                reason = one_line(error)
        else:
            self.failures[key] = reason
            return
        self.advanced[key] = to_json(replace(result.progress, paused=None))
        if result.answers is not None and result.answers.num_rows:
            ends = pc.min_max(result.answers["at"].cast(pa.int64())).as_py()
            kind = "backfilled" if since != manifest.epoch else "answers"
            self.results.append(Chunk(owner, kind, manifest.epoch, ends["min"], ends["max"], result.answers))
        if result.revisions is not None and result.revisions.num_rows:
            ends = pc.min_max(result.revisions["end"]).as_py()
            self.state.append(Chunk(owner, "revisions", manifest.epoch, ends["min"], ends["max"], result.revisions))
        if result.early is not None and result.early.num_rows:
            self.state.append(early_chunk(owner, manifest.epoch, result.early))
        if result.sums is not None:
            self.state.append(sums_chunk(owner, manifest.epoch, result.sums))

    def _is_unsummed(
        self,
        standing: Standing,
        before: QueryProgress,
        deltas: Mapping[str, pa.Table | None],
        rows: dict[str, tuple[Run, ...]],
    ) -> bool:
        """Whether a query that keeps sums of groups has rows here, older than itself, that are in no sum yet."""
        relation = standing.definition.query.relation
        if relation is None or relation.grouping is None or before.summed:
            return False
        self._fetch(standing.inputs, deltas, rows)
        return any(rows[owner] for owner in standing.inputs)

    def _threads(self, standing: Standing) -> int:
        """How many threads may answer a query: what is in one shard takes those of the others, which have no rows."""
        stores = [self.catalog.stores[o] for o in standing.inputs]
        apart = any(s.spread and (not are_together(s.spread) or s.owner in self.manifest.hot) for s in stores)
        return 1 if apart else self.manifest.shards

    def _fetch(
        self, owners: Sequence[str], deltas: Mapping[str, pa.Table | None], rows: dict[str, tuple[Run, ...]]
    ) -> None:
        """Have the rows of stores at hand."""

        def fetch(owner: str, db: duckdb.DuckDBPyConnection) -> tuple[Run, ...]:
            return store_runs(
                db, self.pond, self.pond_id, self.manifest, self.catalog, self.catalog.stores[owner], self.number,
                deltas[owner], self.segments,
            )  # fmt: skip

        missing = [o for o in dict.fromkeys(owners) if o not in rows]
        rows.update(zip(missing, side_by_side(self.db, [partial(fetch, o) for o in missing]), strict=True))

    def _advance(
        self,
        standing: Standing,
        deltas: Mapping[str, pa.Table | None],
        rows: dict[str, tuple[Run, ...]],
        before: QueryProgress,
        bound: int,
        since: int,
        given: Given,
        speculation: Speculation | None,
    ) -> Advanced:
        query, options = standing.definition.query, standing.definition.options
        assert query.relation is not None
        inputs = []
        known = high_of(self.catalog, specs_of(self.catalog, standing), self.manifest.progress)
        horizon = horizon_of(self.catalog, standing, before, known)
        lows = lows_of(self.catalog, standing, before, horizon)
        held = zip(query.relation.inputs, standing.inputs, strict=True)
        self._fetch([owner for item, owner in held if query.relation.probe(item.alias) is None], deltas, rows)
        for item, owner, low in zip(query.relation.inputs, standing.inputs, lows, strict=True):
            store = self.catalog.stores[owner]
            high = progress_of(self.catalog, store.spec, self.progress).high
            if query.relation.probe(item.alias) is not None:
                delta = deltas[owner]
                fresh = empty_rows(self.db, item.columns) if delta is None else delta
                stream = self.catalog.streams[store.spec.stream]
                inputs.append(Input(fresh, stream.options.late, high, self._past(store, stream)))
                continue
            runs, late = rows[owner], late_of(self.catalog, store.spec)
            if is_paired(standing):
                there = all_rows(runs) if runs else empty_rows(self.db, item.columns)
                # A new row may be alone, however far it is behind the other stream.
                new = pc.greater_equal(there["_epoch"], since)
                inputs.append(Input(there.filter(pc.or_(new, pc.greater_equal(there["_t"], low))), late, high))
                continue
            if low is not None and low > NEVER:
                runs = tuple(r for r in runs if r.times[-1] >= low)
            there = all_rows(runs) if runs else empty_rows(self.db, item.columns)
            below = int(np.searchsorted(runs[0].times, low)) if runs and low is not None and low > NEVER else 0
            if query.relation.joins and not item.signed:
                counted = store.spread != EVERYWHERE or self.number == 0
                inputs.append(Input(there, late, high, runs=runs, below=below, counted=counted))
            else:
                inputs.append(Input(there.slice(below), late, high))
        self._check_size(standing, before, horizon, inputs)
        if is_paired(standing):
            reached = pair_bounds(self.catalog, standing, self.progress, self.manifest.clock)
            return advance_pairs(self.db, query, options, inputs, before, reached, since, given)
        orders = JoinOrders(standing, self.manifest.filters)
        done = advance_relation(
            self.db, query, options, inputs, self._tables(standing), before, bound, since, given, known, speculation,
            orders, partial(self._sums, standing),
        )  # fmt: skip
        self.observed |= orders.report()
        horizon = horizon_of(self.catalog, standing, done.progress, known)
        return replace(done, progress=trimmed(done.progress, horizon))

    def _sums(self, standing: Standing) -> list[pa.Table]:
        query, owner = standing.definition.query, f"q{standing.id}"
        return read_sums(self.db, self.pond, self.pond_id, self.segments, query, owner, self.number)

    def _tables(self, standing: Standing) -> TableUse:
        relation = standing.definition.query.relation
        assert relation is not None
        return TableUse(self.pond, self.catalog, relation, self.manifest.tables, self.manifest.unread)

    def _check_size(self, standing: Standing, before: QueryProgress, horizon: int, inputs: Sequence[Input]) -> None:
        """Raises: ValueError when the query's windows hold more rows than they may."""
        relation, options = standing.definition.query.relation, standing.definition.options
        assert relation is not None
        sizes = [i.rows.num_rows - i.below for i in inputs]
        if sum(sizes) <= options.held_rows:
            return
        for n, (item, each) in enumerate(zip(relation.inputs, inputs, strict=True)):
            if item.window.kind == "rows":  # some of those at hand may be needed no more
                spare = spare_of(relation, options) if revises(options, each.late) else 0
                seen = floored(each.rows, before, options, each.late)
                sizes[n] = int(kept(self.db, relation, item, seen, spare, horizon, self.manifest.epoch).sum())
        if sum(sizes) > options.held_rows:
            named = ", ".join(f"{s} of {i.stream}" for i, s in zip(relation.inputs, sizes, strict=True))
            raise ValueError(
                f"its windows hold {sum(sizes)} rows in one shard ({named}), and may hold {options.held_rows}: shorter"
                " windows, filters below them, a shorter revise_for, or WITH (held_rows=…) help"
            )

    def _moved(self, standing: Standing, before: QueryProgress) -> QueryProgress:
        """The progress of a stream of pairs after an epoch that brought it nothing."""
        relation, specs = standing.definition.query.relation, specs_of(self.catalog, standing)
        assert relation is not None
        inputs = [(late_of(self.catalog, s), progress_of(self.catalog, s, self.progress).high) for s in specs]
        reached = pair_bounds(self.catalog, standing, self.progress, self.manifest.clock)
        return moved(relation, standing.definition.options, inputs, before, reached)

    def _past(self, store: Store, stream: StreamDefinition) -> Past:
        """What earlier epochs have archived of a stream that is probed."""
        from millpond.archive.reading.scan import Counters

        manifest = self.manifest
        self.counters = Counters() if self.counters is None else self.counters
        known = manifest.progress.get(str(stream.id), StreamProgress())
        files = manifest.archive.get(str(stream.id), ())
        return Past(self.pond, stream, store.spec, files, manifest.epoch - 1, known, self.counters)


def _is_kept(catalog: Catalog, store: Store) -> bool:
    """Whether any input needs the rows of a store at hand; those that are probed are looked up in the archive."""
    for standing in catalog.users(store.owner):
        relation = standing.definition.query.relation
        if relation is None:
            continue
        for item, owner in zip(relation.inputs, standing.inputs, strict=True):
            if owner == store.owner and relation.probe(item.alias) is None:
                return True
    return False


def empty_rows(db: duckdb.DuckDBPyConnection, columns: Sequence[Any]) -> pa.Table:
    """A store without rows."""
    own = ["NULL::BIGINT AS _t", "NULL::BIGINT AS _id", "NULL::BIGINT AS _epoch", "NULL::BIGINT AS _cut"]
    fields = [*own, *(f"NULL::{c.type} AS {quote(c.name)}" for c in columns)]
    return query_table(db, f"SELECT {', '.join(fields)} LIMIT 0")


def forget_contents() -> None:
    """Drop what is kept of all stores (tests)."""
    _kept.clear()


__all__ = [
    "FAULTS",
    "ROWS",
    "Input",
    "Shard",
    "advance_relation",
    "early_chunk",
    "empty_rows",
    "forget_contents",
    "row_chunk",
]
