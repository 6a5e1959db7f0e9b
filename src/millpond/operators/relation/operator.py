"""Relations of CQL: one query over the rows of its stores, at every instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.archive.reading.counters import Counters
from millpond.catalog import Catalog, Standing, Store
from millpond.catalog.unions import progress_of
from millpond.manifests.adoptions import Adoption
from millpond.manifests.owed import Owed, owed_of, owed_together
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest
from millpond.manifests.task_reports import Scanned
from millpond.operators.announcing import announced
from millpond.operators.contract import ONLY_RSTREAM, CompactTask, MergeTask, Past, Retold, Step
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.relation.advance import Advancing
from millpond.operators.relation.early import Speculation, early_chunk, shown_early
from millpond.operators.relation.group_sums import GROUPS, by_shard, put_together, read_sums, sums_chunk
from millpond.operators.relation.groups_ahead import KeptApart, bounds_of, released_by
from millpond.operators.relation.join_orders import JoinOrders
from millpond.operators.relation.relation_plans import relation_plan
from millpond.operators.relation.relation_progress import Progress, RelationProgress
from millpond.operators.relation.seen import known_of
from millpond.operators.relation.table_use import TableUse, trimmed
from millpond.operators.relational.bounds import high_of
from millpond.operators.relational.probing import Probed
from millpond.operators.relational.readers import (
    Asked,
    Constants,
    Input,
    Needed,
    Replayed,
    RowReader,
    check_held,
    empty_rows,
)
from millpond.operators.relational.relation_backfill import answer_past, retell_past
from millpond.operators.relational.relational_progress import Floor
from millpond.operators.relational.visibility import covered_from, floored, revises, with_floor
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.closing import nothing_given
from millpond.operators.windowed.early import EARLY, due
from millpond.operators.windowed.group_bounds import GroupBounds, closed_groups
from millpond.operators.windowed.numbers import put_numbers_together
from millpond.operators.windowed.operator import shown_early as shown_before
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.relations import Known, Run, all_rows, answers, kept, sight_of, snapshot
from millpond.relations.sums import total
from millpond.support.errors import Refusal
from millpond.synopses import connection
from millpond.synopses.partners import finding
from millpond.tables import Chunk
from millpond.types import (
    Grouped,
    LatestRowsWindow,
    Query,
    QueryOptions,
    RangeWindow,
    RelationInput,
    RelationQuery,
    StreamDefinition,
)
from millpond.types.plan_nodes import PlanNode
from millpond.types.relation_queries import EVERYWHERE


class RelationOperator(RowReader[RelationProgress]):
    """A relational query."""

    def __init__(self, catalog: Catalog, standing: Standing) -> None:
        super().__init__(catalog, standing)
        self._counters: Counters | None = None
        self.loads = finding.load if self.relation.joined is not None else None

    query_kind = RelationQuery
    progress_kind = RelationProgress
    relation: RelationQuery

    @classmethod
    def explain_query(cls, facts: PlanFacts, query: Query, standing: Standing | None) -> PlanNode | None:
        """See `Operator`."""
        return relation_plan(facts, query, standing) if isinstance(query, RelationQuery) else None

    @classmethod
    def check(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> None:
        """See `Answering`."""
        repeated = query.operator == "rstream"
        if repeated and options.every is None:
            raise Refusal(
                "RSTREAM reports the whole relation again and again: say how often",
                words=("RSTREAM",),
                expected="CREATE QUERY … WITH (every='1 s') AS SELECT RSTREAM(…)",
            )
        if not repeated and options.every is not None:
            raise Refusal(ONLY_RSTREAM, "every")

    def answered_until(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """See `Answering`."""
        return announced(self.options, self.bound(standing, progress, clock))

    def due_by_clock(self, standing: Standing, known: QueryProgress, clock: int) -> bool:
        """See `Answering`."""
        own = known.read(RelationProgress).own
        return own.stirred and due(self.options, own.early_at, clock)

    def horizon(self, known: Progress, high: int) -> int:
        """See `RowReader`."""
        revising = any(revises(self.options, late) for late in self.lates)
        spare = self.relation.revised_for(self.options) if revising else 0
        return max(NEVER, known.start, max(known.own.edge, min(known.closed, high)) - spare)

    def lows(self, known: Progress, horizon: int) -> Sequence[int | None]:
        """See `RowReader`."""
        return [item.window.since(horizon - 1) for item in self.relation.inputs]

    def needed_of(
        self, db: duckdb.DuckDBPyConnection, owner: str, rows: pa.Table, known: Progress, needed: Needed
    ) -> npt.NDArray[np.bool_]:
        """See `RowReader`."""
        wanted = np.zeros(rows.num_rows, bool)
        horizon = self.horizon(known, needed.high)
        # Rows that it has not answered yet may get a floor.
        mine = Floor(needed.since, needed.epoch, known.closed, max(known.own.edge, min(known.closed, needed.high)))
        floors = known if len(self.inputs) == 1 else with_floor(known, mine)
        for item, store, late in zip(self.relation.inputs, self.inputs, self.lates, strict=True):
            if store == owner and self.relation.probe(item.alias) is None:
                spare = sight_of(self.relation, self.options) if revises(self.options, late) else 0
                seen = floored(rows, floors, self.options, late)
                wanted |= kept(db, self.relation, item, seen, spare, horizon, needed.since, needed.whole)
        return wanted

    @cached_property
    def apart(self) -> KeptApart | None:
        """The groups that it reports as their own bounds allow; None: it waits for those of all rows."""
        return released_by(self.relation, self.options, [self.catalog.streams[s.stream] for s in self.specs])

    def groups(self, progress: Mapping[str, StreamProgress]) -> GroupBounds | None:
        """The bounds of these groups. progress: of the streams."""
        return bounds_of(self.apart, [progress_of(self.catalog, spec, progress) for spec in self.specs])

    def stirring_bound(self, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """See `RowReader`: that of the group that is furthest."""
        bounds, bound = self.groups(progress), self.answered_until(self.standing, progress, clock)
        return bound if bounds is None else max([bound, *bounds.further.values()])

    def moved(self, task: MergeTask, before: Progress) -> Progress:
        """See `RowReader`."""
        bound = self.answered_until(self.standing, task.progress, task.manifest.clock)
        groups = closed_groups(max(before.closed, bound), self.groups(task.progress), before.own.groups)
        return replace(before, own=replace(before.own, groups=groups))

    @classmethod
    def answered_groups(cls, query: Any, known: QueryProgress) -> Mapping[str, int]:
        """See `Answering`."""
        return known.read(RelationProgress).own.groups

    @classmethod
    def marked_columns(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> tuple[str, ...]:
        """See `Answering`."""
        apart = released_by(query, options, streams)
        return () if apart is None else tuple(query.select[place].name for place in apart.places)

    def stirred(self, task: MergeTask, before: Progress) -> Progress:
        """See `RowReader`: early answers are made of rows that came."""
        if self.options.early is None:
            return before
        streams = {s.id for s in self.catalog.streams_of(self.standing)}
        stirred = before.own.stirred or any(s.stream in streams for s in task.manifest.splits)
        return replace(before, own=replace(before.own, stirred=stirred))

    def is_silent(self, task: MergeTask, asked: Asked[RelationProgress]) -> bool:
        """See `RowReader`."""
        own = asked.before.own
        speculates = own.stirred and due(self.options, own.early_at, task.manifest.clock)
        changes = self._tables(task).changes(asked.before)
        return not speculates and not changes and super().is_silent(task, asked) and not self._is_unsummed(task, asked)

    def _is_unsummed(self, task: MergeTask, asked: Asked[RelationProgress]) -> bool:
        """Whether it keeps sums of groups and has rows here, older than itself, that are in no sum yet."""
        if not isinstance(self.relation.plan, Grouped) or asked.before.own.summed:
            return False
        return any(self.fetch(task, self.inputs).values())

    def answer(self, task: MergeTask, asked: Asked[RelationProgress], step: Step) -> Advanced[RelationProgress]:
        """See `RowReader`."""
        known = high_of(self.catalog, self.specs, task.manifest.progress)
        horizon = self.horizon(asked.before, known)
        inputs = self._inputs(task, self.lows(asked.before, horizon))
        self._check_size(task, asked.before, horizon, inputs)
        speculation = None
        if self.options.early is not None:
            shown = partial(shown_before, task, self.owner)
            speculation = Speculation(shown, task.manifest.clock, asked.before.own.stirred)
        orders = JoinOrders(self.standing, task.manifest.filters)
        advancing = Advancing(
            task.db, self.relation, self.options, self._tables(task), self.given(task),
            speculation, orders, partial(self._sums, task), self.apart, self.groups(task.progress),
        )  # fmt: skip
        done = advancing.advance(inputs, asked.before, asked.bound, asked.since, known)
        done = replace(done, progress=self.owing(task, done.progress, asked))
        step.filters = orders.report()
        if self._counters is not None:
            step.scans[self.owner] = Scanned(self._counters.groups, self._counters.bytes)
        return replace(done, progress=trimmed(done.progress, self.horizon(done.progress, known)))

    def _came(self, task: MergeTask, since: int) -> list[npt.NDArray[np.int64] | None]:
        """The event times of the rows of each input that came in the epochs from `since` on; None: there are none."""
        if since == task.manifest.epoch:
            deltas = [task.views[owner].delta for owner in self.inputs]
            return [None if d is None or not d.num_rows else d["_t"].to_numpy() for d in deltas]
        held = self.fetch(task, [o for o in self.inputs if self.keeps(o)])
        return [
            np.concatenate([run.times[run.rows["_epoch"].to_numpy() >= since] for run in held[owner]])
            if held.get(owner)
            else None
            for owner in self.inputs
        ]

    def owing(self, task: MergeTask, after: Progress, asked: Asked[RelationProgress]) -> Progress:
        """See `RowReader`: the reported instants that rows change and state does not cover."""
        high, before = high_of(self.catalog, self.specs, task.manifest.progress), asked.before
        own = before.own
        before = replace(before, own=replace(own, edge=max(own.edge, min(before.closed, high))))
        horizon, query = covered_from(self.relation, self.options, before), self.relation
        if horizon <= NEVER:
            return after
        lates = zip(query.inputs, self.lates, self._came(task, asked.since), strict=True)
        found = [(i, t) for i, late, t in lates if t is not None and len(t) and revises(self.options, late)]
        if not found:
            return after
        first = min(int(t.min()) for _, t in found)
        known = after.own.first
        after = replace(after, own=replace(after.own, first=first if known is None else min(first, known)))
        # As far as a row is in its window; nobody knows how far that is where others push it out, or for RSTREAM.
        short = query.operator != "rstream" and all(isinstance(i.window, RangeWindow) for i in query.inputs)
        lows = np.concatenate([t for _, t in found])
        highs = np.concatenate([t + (i.window.reach or 0) + 2 if short else np.full(len(t), horizon) for i, t in found])
        owed = owed_of(np.maximum(lows, before.start), np.minimum(highs, horizon), task.manifest.epoch)
        return replace(after, owed=owed_together([*after.owed, *owed]))

    def store(self, manifest: Manifest, step: Step, result: Advanced[RelationProgress], late: bool) -> None:
        """See `RowReader`."""
        super().store(manifest, step, result, late)
        if result.early is not None and result.early.num_rows:
            step.state.append(early_chunk(self.owner, manifest.epoch, result.early))
        if result.sums is not None:
            step.state.append(sums_chunk(self.owner, manifest.epoch, result.sums))

    def replay(
        self, db: duckdb.DuckDBPyConnection, inputs: Sequence[Input], before: Progress, past: Replayed
    ) -> Advanced[RelationProgress]:
        """See `RowReader`."""
        use = TableUse(past.pond, self.catalog, self.relation, past.tables, past.unread)
        advancing = Advancing(db, self.relation, self.options, use, nothing_given, stored=lambda: past.sums)
        done = advancing.advance(inputs, before, past.bound, FOREVER, past.high)
        return replace(done, progress=trimmed(done.progress, self.horizon(done.progress, past.high)))

    @staticmethod
    def reach(query: Any, item: RelationInput, now: int) -> int | None:
        """See `RowReader`."""
        return item.window.since(now)

    @staticmethod
    def past_at(reader: Any, query: Any, now: int, tables: Constants, options: QueryOptions | None = None) -> pa.Table:
        """See `RowReader`."""
        inputs = _contents(query, reader.read(now, now), options)
        found = snapshot(connection(), query, inputs, tables(), now)
        return found.append_column("_at", pa.array(np.full(found.num_rows, now)))

    @staticmethod
    def past_changes(
        reader: Any, query: Any, now: int | None, bounds: Sequence[int], tables: Constants
    ) -> pa.Table | None:
        """See `RowReader`: up to NOW, or as far as is announced where that is further."""
        if now is None:
            return None
        until = max(now + 1, min(bounds))
        inputs = reader.read(NEVER, None if until >= FOREVER else until - 1)
        return answers(connection(), query, _contents(query, inputs, None), tables(), NEVER, until)

    def summed(self, db: duckdb.DuckDBPyConnection, sums: Sequence[pa.Table]) -> pa.Table:
        """See `RowReader`."""
        assert isinstance(self.relation.plan, Grouped)  # else there are none
        return total(db, self.relation.plan.grouping, [(table, 1) for table in sums])

    def sums_by_shard(
        self, db: duckdb.DuckDBPyConnection, sums: pa.Table, epoch: int, shards: int
    ) -> Mapping[int, Chunk]:
        """See `RowReader`."""
        shard = max(0, self.catalog.stores[self.inputs[0]].shard)
        parts = by_shard(db, self.relation, sums, shards, shard)
        return {number: sums_chunk(self.owner, epoch, part) for number, part in parts.items()}

    def history(self, past: Past) -> Adoption | None:
        """See `Operator`."""
        return answer_past(self, past)

    def retell(self, past: Past, owed: Mapping[int, Sequence[Owed]]) -> Retold:
        """See `Answering`."""
        return retell_past(self, past, owed[self.standing.id])

    def kept_of(
        self, db: duckdb.DuckDBPyConnection, place: int, each: Input, known: Progress, horizon: int
    ) -> npt.NDArray[np.bool_]:
        """See `RowReader`."""
        item = self.relation.inputs[place]
        spare = sight_of(self.relation, self.options) if revises(self.options, each.late) else 0
        seen = floored(each.rows, known, self.options, each.late)
        return kept(db, self.relation, item, seen, spare, horizon)

    def _inputs(self, task: MergeTask, lows: Sequence[int | None]) -> list[Input]:
        items = list(zip(self.relation.inputs, self.inputs, lows, strict=True))
        rows = self.fetch(task, [owner for item, owner, _ in items if self.relation.probe(item.alias) is None])
        inputs = []
        for (item, owner, low), late in zip(items, self.lates, strict=True):
            store = self.catalog.stores[owner]
            high = progress_of(self.catalog, store.spec, task.progress).high
            if self.relation.probe(item.alias) is not None:
                delta = task.views[owner].delta
                fresh = empty_rows(task.db, item.columns) if delta is None else delta
                stream = self.catalog.streams[store.spec.stream]
                inputs.append(Input(fresh, stream.options.late, high, self._past(task, store, stream)))
                continue
            runs = rows[owner]
            if low is not None and low > NEVER:
                runs = tuple(r for r in runs if r.times[-1] >= low)
            there = all_rows(runs) if runs else empty_rows(task.db, item.columns)
            below = _first_from(runs, low)
            if self.relation.joined is not None and not item.signed:
                counted = store.spread != EVERYWHERE or task.shard == 0
                inputs.append(Input(there, late, high, runs=runs, below=below, counted=counted))
            else:
                inputs.append(Input(there.slice(below), late, high))
        return inputs

    def _past(self, task: MergeTask, store: Store, stream: StreamDefinition) -> Probed:
        """What earlier epochs have archived of a stream that is probed."""
        manifest = task.manifest
        self._counters = self._counters or Counters()
        known = manifest.progress.get(str(stream.id), StreamProgress())
        files = manifest.archive.get(str(stream.id), ())
        return Probed(task.pond, stream, store.spec, files, manifest.epoch - 1, known, self._counters)

    def _sums(self, task: MergeTask) -> list[pa.Table]:
        return read_sums(task.db, task.version, task.segments, self.relation, self.owner, task.shard)

    def _tables(self, task: MergeTask) -> TableUse:
        return TableUse(task.pond, self.catalog, self.relation, task.manifest.tables, task.manifest.unread)

    def _check_size(self, task: MergeTask, before: Progress, horizon: int, inputs: Sequence[Input]) -> None:
        """Raises: ValueError when its windows hold more rows than they may."""
        sizes = [i.rows.num_rows - i.below for i in inputs]
        if sum(sizes) <= self.options.held_rows:
            return
        for n, (item, each) in enumerate(zip(self.relation.inputs, inputs, strict=True)):
            if isinstance(item.window, LatestRowsWindow):  # some of those at hand may be needed no more
                spare = sight_of(self.relation, self.options) if revises(self.options, each.late) else 0
                seen = floored(each.rows, before, self.options, each.late)
                mine = kept(task.db, self.relation, item, seen, spare, horizon, task.manifest.epoch)
                sizes[n] = int(mine.sum())
        check_held(self.options.held_rows, self.relation.inputs, sizes)

    def compact(self, task: CompactTask, owner: str, kind: str, chunks: Sequence[Chunk]) -> Iterable[Chunk]:
        """See `Operator`."""
        if kind == GROUPS:
            return put_together(task.db, self.relation, owner, chunks)
        if kind != EARLY:
            return [put_numbers_together(task.db, owner, chunks)]
        known = task.manifest.queries.get(str(self.standing.id), QueryProgress())
        left = shown_early(task.db, self.relation, [c.table for c in chunks], known.closed)
        return [] if left is None else [early_chunk(owner, max(c.epoch for c in chunks), left)]


def _first_from(runs: Sequence[Run], low: int | None) -> int:
    """The first row of runs that is not older than an event time."""
    return int(np.searchsorted(runs[0].times, low)) if runs and low is not None and low > NEVER else 0


def _contents(query: RelationQuery, inputs: Sequence[Input], options: QueryOptions | None) -> list[Known]:
    """What evaluation knows of inputs of the past; options: as of `RowReader.past_at`."""
    found: list[Known] = []
    for item, each in zip(query.inputs, inputs, strict=True):
        spare = FOREVER
        if options is not None:
            spare = 0 if each.late == "drop" else sight_of(query, options)
        found.append(known_of(connection(), query, item, each, spare))
    return found
