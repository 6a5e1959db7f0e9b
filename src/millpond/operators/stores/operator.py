"""Stores: the rows of a stream that relational queries need, for relations and for streams of pairs to read."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from millpond.archive.archive_files import row_schema
from millpond.archive.dead_letters import failed_letters
from millpond.catalog import Catalog, Standing, Store
from millpond.catalog.unions import entering, late_of, progress_of
from millpond.manifests.task_reports import Frequent, Operated
from millpond.operators.contract import (
    CompactTask,
    Kept,
    Mapped,
    Mapper,
    MapTask,
    MergeTask,
    Operator,
    Piece,
    Step,
    Taken,
)
from millpond.operators.filters.order_facts import order_facts
from millpond.operators.plan_facts import PlanFacts, used_by, work_facts
from millpond.operators.relational.placing import placed
from millpond.operators.relational.probing import marked
from millpond.operators.stores.state import Asking, keep_silent, read_rows, row_chunk, store_runs
from millpond.relations import Run, merge_rows, rows_of
from millpond.synopses import connection, query_table
from millpond.synopses.tolerance import tolerant
from millpond.tables import Chunk
from millpond.tables.chunks import pack
from millpond.types import HOLDS, Expression, StreamDefinition
from millpond.types.plan_nodes import Fact, PlanNode
from millpond.types.relation_queries import EVERYWHERE, are_together


class StoreMapper(Mapper):
    """Picks the rows of a store out of those of a map task."""

    whole = True

    def __init__(self, task: MapTask, store: Store) -> None:
        self.task, self.store = task, store

    def finish(self, taken: Taken) -> Mapped:
        """See `Mapper`."""
        mapped, owner, begun = Mapped(), self.store.owner, clock.perf_counter()
        counting = taken.whole.counting
        if not counting.num_rows:
            return mapped
        table, failed = self._rows(taken.whole)
        manifest, catalog = self.task.manifest, self.task.catalog
        if failed is not None:
            names = ", ".join(catalog.called(catalog.served(owner)))
            mapped.dead.append(failed_letters(failed, names, manifest.epoch))
        mapped.operators[owner] = Operated(counting.num_rows, table.num_rows, clock.perf_counter() - begun)
        there = placed(connection(), self.store, table, manifest.shards, manifest.hot.get(owner, ()))
        packed = {id(t): pack(t) for t in {id(t): t for t in there.shards.values()}.values()}  # the same one for all
        mapped.parcels += [(owner, shard, packed[id(rows)]) for shard, rows in there.shards.items()]
        if self.store.salting.splits:
            mapped.frequent[owner] = Frequent(there.rows, there.frequent)
        return mapped

    def _rows(self, piece: Piece) -> tuple[pa.Table, pa.Table | None]:
        """The rows of the store, and those on which an expression fails, with `_reason`."""
        spec, stream = self.store.spec, self.task.stream
        first = row_schema(self.task.catalog.streams[spec.stream]) if spec.feeds else piece.rows.schema
        entered, failing = entering(piece.counting, spec, stream.id, first), None
        screen = None if spec.narrowed else self.task.screens.of(self.store.owner, spec.condition, spec.casts)
        if screen is not None:
            screened = screen.screen(entered, mark=spec.mark is not None)
            entered, failing, spec = screened.rows, screened.failed, replace(spec, where=None)
            if screened.marked is not None:
                entered, spec = screened.marked, replace(spec, mark=Expression.column_of(HOLDS))
        table, failed = tolerant(lambda rows: rows_of(connection(), spec, rows), entered)
        both = [t for t in (failing, failed) if t is not None]
        return table, pa.concat_tables(both) if both else None


@dataclass
class StoreView:
    """What a store shows to those that read it. delta: the epoch's rows; None: it brought none."""

    task: MergeTask
    store: Store
    delta: pa.Table | None
    readers: Sequence[Operator]
    _runs: tuple[Run, ...] | None = None

    def runs(self, db: duckdb.DuckDBPyConnection) -> tuple[Run, ...]:
        """All rows with those of the epoch, in total order; fetched once."""
        if self._runs is None:
            self._runs = store_runs(self.task, self.store, self.delta, self.readers)
        return self._runs


class StoreOperator(Operator):
    """The rows of one store."""

    def __init__(self, catalog: Catalog, store: Store) -> None:
        self.catalog, self.store, self.owner = catalog, store, store.owner
        self.first_epoch = store.first_epoch

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[StoreOperator]:
        """See `Operator`."""
        return [cls(catalog, store) for store in catalog.stores.values() if catalog.is_of_use(store.owner)]

    def users(self) -> Sequence[Standing]:
        """See `Operator`."""
        return self.catalog.served(self.owner)

    def mapper(self, task: MapTask) -> Mapper | None:
        """See `Operator`."""
        fed = task.stream.id in self.store.spec.streams and self.store.first_epoch <= task.manifest.epoch
        return StoreMapper(task, self.store) if fed else None

    def in_shard(self, shard: int, shards: int) -> bool:
        """See `Operator`."""
        return self.store.in_shard(shard)

    def merge(self, task: MergeTask, parts: Sequence[pa.Table]) -> Step:
        """See `Operator`. Nothing is answered: who reads the store finds its view."""
        step, spec, manifest = Step(), self.store.spec, task.manifest
        known, late = progress_of(self.catalog, spec, manifest.progress), late_of(self.catalog, spec)
        parts = [p for p in parts if p.num_rows]
        delta = marked(spec, late, known, merge_rows(parts)) if parts else None
        if (taken_over := self._taken_over(task)) is not None:
            delta = taken_over if delta is None else merge_rows([delta, taken_over])
        kept = [task.failures.attempt(r.owner, partial(r.keeps, self.owner)) for r in self.readers]
        if delta is not None and any(each is not False for each in kept):
            step.state.append(row_chunk(self.owner, manifest.epoch, delta))
        else:
            keep_silent(task, self.owner)
        task.views[self.owner] = StoreView(task, self.store, delta, self.readers)
        return step

    def _taken_over(self, task: MergeTask) -> pa.Table | None:
        """Rows of earlier epochs with keys that are split from now on, of which every shard needs a copy."""
        manifest, spread = task.manifest, self.store.spread
        keys = [int(k) for k in manifest.moved.get(self.owner, ()) if int(k) % manifest.shards != task.shard]
        homes = {k % manifest.shards for k in keys}
        parts = read_rows(task.pond, self.owner, [s.path for s in manifest.state if s.shard in homes])
        if not keys or not parts:
            return None
        rows = merge_rows(parts)
        hashes = query_table(task.db, f"SELECT hash({spread}) AS h FROM r", r=rows)["h"].to_numpy()
        wanted = np.isin(hashes, np.array(keys, np.uint64))
        for own in read_rows(task.pond, self.owner, [s.path for s in task.segments]):
            wanted &= ~np.isin(rows["_id"].to_numpy(), own["_id"].to_numpy())
        return rows.filter(pa.array(wanted)) if wanted.any() else None

    def compact(self, task: CompactTask, owner: str, kind: str, chunks: Sequence[Chunk]) -> Iterable[Chunk]:
        """See `Operator`."""
        rows = merge_rows([c.table for c in chunks])
        asking = Asking(task.manifest, owner, rows, task.whole)
        left = rows.filter(pa.array(asking.needed_by(self.readers, task.failures)))
        return [row_chunk(owner, max(c.epoch for c in chunks), left)] if left.num_rows else []

    def kept(self, split: Mapping[str, str]) -> Kept:
        """See `Operator`."""
        spec, streams = self.store.spec, tuple(self.catalog.streams[n].name for n in self.store.spec.streams)
        return Kept("rows", streams, "rows", spec.where, self._placing(split), len(spec.columns), "rows")

    def _placing(self, split: Mapping[str, str]) -> str:
        """By what its rows are spread over the shards, and which keys are split."""
        spread = f"spread by {self.store.spread}" if self.store.spread else ""
        spread = "in every shard" if self.store.spread == EVERYWHERE else spread
        return spread + (f", split: {', '.join(sorted(split.values()))}" if split else "")

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`."""
        title = f"store {self.owner}{used_by(self.catalog, self.owner, asker)}"
        found = [*self._split(facts), *order_facts(facts, self.owner, asker), *work_facts(facts, self.owner)]
        return PlanNode("store", title, tuple(found))

    def explain_stream(self, facts: PlanFacts, stream: StreamDefinition) -> PlanNode | None:
        """See `Operator`."""
        return self.explain(facts) if stream.id in self.store.spec.streams else None

    def _split(self, facts: PlanFacts) -> list[Fact]:
        """What is done with keys that are frequent."""
        store, keys = self.store, facts.published.hot.get(self.owner)
        if not keys:
            return []
        name = self.catalog.streams[store.spec.stream].name
        if are_together(store.spread):
            return [Fact("exchange", f"of {name}, {store.salting}")]
        return [
            Fact("skew", f"of {name}, {store.spread} = {', '.join(sorted(keys.values()))} is frequent; {store.salting}")
        ]
