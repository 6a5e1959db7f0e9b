"""Streams of pairs: one query over the rows of two stores, each pair as soon as it is certain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.catalog.unions import progress_of
from millpond.manifests.adoptions import Adoption
from millpond.manifests.owed import Owed, owed_together
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.announcing import announced
from millpond.operators.contract import ONLY_RSTREAM, CompactTask, Mark, MergeTask, Past, Retold, Step
from millpond.operators.pairs.advance import advance_pairs, all_pairs, moved, owed_pairs, pairs_final, pairs_needed
from millpond.operators.pairs.pair_plans import pairs_plan
from millpond.operators.pairs.pairs_progress import PairsProgress, Progress
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.relational.bounds import input_states
from millpond.operators.relational.equal_groups import groups_meet
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
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.numbers import put_numbers_together
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.relations import UNLIMITED, all_rows
from millpond.relations.bands import Reached, marks_of
from millpond.support.sql import quote
from millpond.synopses import connection
from millpond.synopses.partners import finding
from millpond.tables import Chunk
from millpond.types import PairsQuery, Query, QueryOptions, RelationInput, StreamDefinition
from millpond.types.plan_nodes import PlanNode


class PairsOperator(RowReader[PairsProgress]):
    """A stream of pairs. It does not wait for progress: this says what is late, what is kept, and who is alone."""

    in_pieces = False
    refuses: ClassVar[Mapping[str, str]] = {
        **RowReader.refuses,
        "every": ONLY_RSTREAM,
        "early": "'early' is for answers that wait for the watermark; pairs go out at once",
    }
    query_kind = PairsQuery
    progress_kind = PairsProgress
    loads = staticmethod(finding.load)
    relation: PairsQuery

    @property
    def behind(self) -> int:
        """See `RowReader`: a row is alone when nobody comes that is as far behind it as windows are long."""
        return self.relation.longest

    @classmethod
    def explain_query(cls, facts: PlanFacts, query: Query, standing: Standing | None) -> PlanNode | None:
        """See `Operator`."""
        return pairs_plan(facts, query, standing) if isinstance(query, PairsQuery) else None

    @classmethod
    def known_until(cls, query: Any, bounds: Sequence[int]) -> int:
        """See `Answering`."""
        first, second = bounds
        return marks_of(query, (first, second)).result

    def marks(self, standing: Standing, known: QueryProgress) -> Sequence[Mark]:
        """See `Answering`: individual and joint marks."""
        sides = known.read(PairsProgress).own.sides
        if len(sides) != 2:
            return ()
        by_name = {s.name: s for s in self.catalog.streams_of(standing)}
        times = [f"{i.stream}.{by_name[i.stream].options.time}" for i in self.relation.inputs]
        if times[0] == times[1]:
            times = [f"{times[0]} (first)", f"{times[1]} (second)"]
        marks = marks_of(self.relation, (sides[0], sides[1]))
        found = [Mark("side", (time,), (side,)) for time, side in zip(times, marks.sides, strict=True)]
        return [*found, *([] if marks.joint is None else [Mark("joint", tuple(times), tuple(marks.joint))])]

    def answered_until(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """See `Answering`: no result has a smaller largest event time any more."""
        first, second = self.reached(progress, clock)
        return marks_of(self.relation, (first.bound, second.bound)).result

    def starts_at(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """See `Answering`."""
        return self.answered_until(standing, progress, clock)

    def stirring_bound(self, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """See `RowReader`."""
        return max(max([r.bound, *r.groups.values()]) for r in self.reached(progress, clock))

    def reached(self, progress: Mapping[str, StreamProgress], clock: int) -> tuple[Reached, Reached]:
        """What each input brings no more of: by its own progress, an idle one by the other's."""
        states = input_states(self.catalog, self.specs, progress, clock)
        awake = [bound for bound, idle in states if not idle]
        other = min(awake) if awake else max(bound for bound, _ in states)
        found = []
        for spec, (own, idle) in zip(self.specs, states, strict=True):
            by = self.catalog.streams[spec.stream].options.marked_by
            bound = announced(self.options, max(own, other) if idle else own)
            known = progress_of(self.catalog, spec, progress).groups
            groups = {g: announced(self.options, b) for g, b in known.items()}
            further = {g: b for g, b in groups.items() if b > bound}
            found.append(Reached(bound, further, tuple(map(quote, by))))
        return found[0], found[1]

    @classmethod
    def answered_groups(cls, query: Any, known: QueryProgress) -> Mapping[str, int]:
        """See `Answering`: of a group, too, no result has a smaller largest event time any more."""
        own = known.read(PairsProgress).own
        if not own.side_groups:
            return {}
        names = sorted({group for side in own.side_groups for group in side})
        first, second = zip(own.sides, own.side_groups, strict=True)
        sides = {g: (max(first[0], first[1].get(g, NEVER)), max(second[0], second[1].get(g, NEVER))) for g in names}
        until = {g: marks_of(query, bounds).result for g, bounds in sides.items()}
        return {g: bound for g, bound in until.items() if bound > known.closed}

    @classmethod
    def marked_columns(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> tuple[str, ...]:
        """See `Answering`: where rows of one group are joined with rows of the same alone."""
        join, marked = query.join, {i.alias: s.options.marked_by for i, s in zip(query.inputs, streams, strict=True)}
        if options.delay or not all(marked.values()):
            return ()
        by = [marked[alias] for alias in join.items]
        for item, columns in enumerate(by):
            shown = {column: query.select[n].name for n, (owner, column) in enumerate(join.plain) if owner == item}
            if shown.keys() >= set(columns) and groups_meet(join, item, by):
                return tuple(shown[column] for column in columns)
        return ()

    def horizon(self, known: Progress, high: int) -> int:
        """See `RowReader`."""
        return pairs_final(self.relation, self.options, self.lates, known)

    def lows(self, known: Progress, horizon: int) -> Sequence[int | None]:
        """See `RowReader`."""
        return pairs_needed(self.relation, self.options, self.lates, known)

    def needed_of(
        self, db: duckdb.DuckDBPyConnection, owner: str, rows: pa.Table, known: Progress, needed: Needed
    ) -> npt.NDArray[np.bool_]:
        """See `RowReader`."""
        lows = pairs_needed(self.relation, self.options, self.lates, known)
        low = min(low for low, store in zip(lows, self.inputs, strict=True) if store == owner)
        wanted: npt.NDArray[np.bool_] = rows["_t"].to_numpy() >= low
        fresh: npt.NDArray[np.bool_] = rows["_epoch"].to_numpy() >= needed.since
        return wanted | fresh

    def moved(self, task: MergeTask, before: Progress) -> Progress:
        """See `RowReader`."""
        highs = [progress_of(self.catalog, s, task.progress).high for s in self.specs]
        reached = self.reached(task.progress, task.manifest.clock)
        return moved(self.relation, self.options, list(zip(self.lates, highs, strict=True)), before, reached)

    def answer(self, task: MergeTask, asked: Asked[PairsProgress], step: Step) -> Advanced[PairsProgress]:
        """See `RowReader`."""
        inputs = []
        rows = self.fetch(task, self.inputs)
        lows = self.lows(asked.before, 0)
        for item, owner, spec, low, late in zip(
            self.relation.inputs, self.inputs, self.specs, lows, self.lates, strict=True
        ):
            there = all_rows(rows[owner]) if rows[owner] else empty_rows(task.db, item.columns)
            # A new row may be alone, however far it is behind the other stream.
            new = pc.greater_equal(there["_epoch"], asked.since)
            high = progress_of(self.catalog, spec, task.progress).high
            inputs.append(Input(there.filter(pc.or_(new, pc.greater_equal(there["_t"], low))), late, high))
        check_held(self.options.held_rows, self.relation.inputs, [i.rows.num_rows for i in inputs])
        reached = self.reached(task.progress, task.manifest.clock)
        done = advance_pairs(
            task.db, self.relation, self.options, inputs, asked.before, reached, asked.since,
            self.given(task),
        )  # fmt: skip
        owed = owed_pairs(
            self.relation, self.options, inputs, asked.before, done.progress, asked.since, task.manifest.epoch
        )
        return replace(done, progress=replace(done.progress, owed=owed_together([*asked.before.owed, *owed])))

    def owing(self, task: MergeTask, after: Progress, asked: Asked[PairsProgress]) -> Progress:
        """See `RowReader`: rows that came are kept until the query has answered, which tells what it is owed."""
        return after

    def replay(
        self, db: duckdb.DuckDBPyConnection, inputs: Sequence[Input], before: Progress, past: Replayed
    ) -> Advanced[PairsProgress]:
        """See `RowReader`."""
        reached = self.reached(past.progress, past.clock)
        options = self.options if self.options.limited else replace(self.options, revise_for=UNLIMITED)
        return advance_pairs(db, self.relation, options, inputs, before, reached, 0, lambda low, high: None)

    @staticmethod
    def reach(query: Any, item: RelationInput, now: int) -> int | None:
        """See `RowReader`."""
        return _since(query, now) - (item.window.reach or 0)

    @staticmethod
    def past_at(reader: Any, query: Any, now: int, tables: Constants, options: QueryOptions | None = None) -> pa.Table:
        """See `RowReader`: the pairs of the window that ends at `now`, as they are known now.

        Whatever comes later, a row has no partner yet when there is none up to `now`.
        """
        since = _since(query, now)
        found = all_pairs(connection(), query, reader.read(since, now), (FOREVER, FOREVER))
        return found.filter(pc.and_(pc.greater_equal(found["_at"], since), pc.greater(found["_n"], 0)))

    @staticmethod
    def past_changes(
        reader: Any, query: Any, now: int | None, bounds: Sequence[int], tables: Constants
    ) -> pa.Table | None:
        """See `RowReader`: pairs do not wait for the stream that is behind."""
        first, second = bounds
        return all_pairs(connection(), query, reader.read(NEVER, None), (first, second))

    def history(self, past: Past) -> Adoption | None:
        """See `Operator`."""
        return answer_past(self, past)

    def retell(self, past: Past, owed: Mapping[int, Sequence[Owed]]) -> Retold:
        """See `Answering`."""
        return retell_past(self, past, owed[self.standing.id])

    def needs(
        self, progress: Mapping[str, StreamProgress], queries: Mapping[str, QueryProgress], failures: Failures
    ) -> int | None:
        """See `Operator`: what came while it is paused is told from what it keeps."""
        known = queries.get(str(self.standing.id), QueryProgress())
        return NEVER if known.paused is not None else super().needs(progress, queries, failures)

    def kept_of(
        self, db: duckdb.DuckDBPyConnection, place: int, each: Input, known: Progress, horizon: int
    ) -> npt.NDArray[np.bool_]:
        """See `RowReader`."""
        low = pairs_needed(self.relation, self.options, self.lates, known)[place]
        kept: npt.NDArray[np.bool_] = each.rows["_t"].to_numpy() >= low
        return kept

    def compact(self, task: CompactTask, owner: str, kind: str, chunks: Sequence[Chunk]) -> Iterable[Chunk]:
        """See `Operator`: it has nothing but revision numbers."""
        return [put_numbers_together(task.db, owner, chunks)]


def _since(relation: PairsQuery, now: int) -> int:
    """Where the window of a stream of pairs begins that ends at `now`: of its streams' windows the longer counts."""
    return max(relation.windows, key=lambda window: window.range).since(now)
