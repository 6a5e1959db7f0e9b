"""Queries that read stores: relations and streams of pairs have this in common."""

from __future__ import annotations

import time as clock
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Catalog, Standing
from millpond.catalog.unions import late_of
from millpond.manifests.places import query_owner
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import P, QueryProgress
from millpond.manifests.records import Manifest
from millpond.operators.contract import Answering, MergeTask, Step
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.relational.bounds import high_of, least_bound
from millpond.operators.relational.probing import Probed, probed_streams
from millpond.operators.relational.relational_plans import input_text
from millpond.operators.relational.relational_progress import R, Reading
from millpond.operators.relational.visibility import revises
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.numbers import REVISIONS, numbers_in
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.relations import Rows, Run, net_changes
from millpond.support.errors import SourceError
from millpond.synopses import query_table, tolerance
from millpond.synopses.parallel import at_most, side_by_side
from millpond.tables import Chunk
from millpond.types import QueryOptions, Relational, RelationInput, projected
from millpond.types.plan_nodes import PlanNode
from millpond.types.relation_queries import are_together

#: What a question about a relation can raise by its own data.
FAULTS = (*tolerance.FAULTS, SourceError)

#: Reads the tables of a query, by alias.
Constants = Callable[[], Mapping[str, pa.Table]]

#: (low, high) -> revision numbers given so far to instants in that range, both included: columns end, revision.
Given = Callable[[int, int], pa.Table | None]


@dataclass(frozen=True)
class Input:
    """What an epoch has for one input of a query.

    rows: of its store, this epoch's included; of one that is probed this epoch's only. late: what late ones do.
    high: the high watermark after the epoch. past: of one that is probed, where the rows of earlier epochs are.
    runs: the rows in runs, where the query has use for them. below: how many of the first rows it cannot need.
    counted: late ones are counted here; of rows that every shard has one shard counts them.
    """

    rows: pa.Table
    late: str
    high: int
    past: Probed | None = None
    runs: tuple[Run, ...] = ()
    below: int = 0
    counted: bool = True


@dataclass(frozen=True)
class Replayed:
    """A stretch of the past that is answered at once.

    pond: its folder. progress, clock: of the streams, and of the epoch, before the query's first live one.
    bound: until when to answer. high: the least watermark of streams that have rows. tables, unread: as of `Manifest`.
    sums: what is known of groups.
    """

    pond: str
    progress: Mapping[str, StreamProgress]
    clock: int
    bound: int
    high: int
    tables: Mapping[str, int]
    unread: Mapping[str, str]
    sums: Sequence[pa.Table] = ()


@dataclass(frozen=True)
class Asked(Generic[P]):
    """What one epoch asks of a query. bound: until when it answers. since: the first epoch that it has not answered."""

    before: QueryProgress[P]
    bound: int
    since: int


class RowReader(Answering, Generic[R]):
    """An operator of one query that reads the rows of stores.

    in_pieces: whether its past can be answered stretch by stretch of event time.
    """

    in_pieces = True
    refuses: ClassVar[Mapping[str, str]] = {
        "empty": "empty='report' is for windows with SLIDE; a relation is defined at every instant",
        "state": "state='{value}' is for windows of time with a SLIDE",
        "flush": "flush='{value}' is for windows that end at instants",
    }
    progress_kind: type[R]

    @property
    def behind(self) -> int:
        """How far behind an instant rows can have a say in what is reported of it (microseconds)."""
        return 0

    @property
    def reaches_back(self) -> int | None:
        """How far before an instant rows can have a say in what is reported of it (microseconds); None: ever so far."""
        reaches = [item.window.reach for item in self.relation.inputs]
        return None if None in reaches else max(r for r in reaches if r is not None)

    def __init__(self, catalog: Catalog, standing: Standing) -> None:
        self.catalog, self.standing = catalog, standing
        self.owner, self.inputs = query_owner(standing.id), standing.inputs
        self.first_epoch = standing.first_epoch
        self.relation: Relational = standing.relational
        self.options = standing.definition.options

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[Self]:
        """See `Operator`: of each query of its kind that reads stores, but for those that are quarantined."""
        reading = (q for q in catalog.running() if q.inputs)
        return [cls(catalog, q) for q in reading if isinstance(q.definition.query, cls.query_kind)]

    # -- what each kind has its own of

    def stirring_bound(self, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """What it has reason to report when it lies before (`RelationalProgress.pending`); as `answered_until`."""
        return self.answered_until(self.standing, progress, clock)

    @abstractmethod
    def horizon(self, known: QueryProgress[R], high: int) -> int:
        """Instants before it are final: nothing looks at them again. high: of its streams, the least watermark."""

    @abstractmethod
    def lows(self, known: QueryProgress[R], horizon: int) -> Sequence[int | None]:
        """The event time from which each input's rows can still matter; None: whenever they were."""

    @abstractmethod
    def needed_of(
        self, db: duckdb.DuckDBPyConnection, owner: str, rows: pa.Table, known: QueryProgress[R], needed: Needed
    ) -> npt.NDArray[np.bool_]:
        """Which rows of a store it can still need, when its progress is `known`."""

    @abstractmethod
    def moved(self, task: MergeTask, before: QueryProgress[R]) -> QueryProgress[R]:
        """Its progress after an epoch that brought it nothing."""

    @abstractmethod
    def answer(self, task: MergeTask, asked: Asked[R], step: Step) -> Advanced[R]:
        """Answer, with the rows that its inputs show."""

    @abstractmethod
    def owing(self, task: MergeTask, after: QueryProgress[R], asked: Asked[R]) -> QueryProgress[R]:
        """Its progress with what is owed for the rows that came, of what state does not cover.

        Args:
            after: its progress but for that. asked: of which only what was before, and since when rows count, matters.
        """

    def keeps(self, owner: str) -> bool:
        """Whether it needs the rows of a store at hand; those that are probed are looked up in the archive."""
        items = zip(self.relation.inputs, self.inputs, strict=True)
        return any(o == owner and self.relation.probe(item.alias) is None for item, o in items)

    # -- and of the past, for who asks: `reader` is an `InputReader`, `tables` reads what does not change, by alias

    @staticmethod
    @abstractmethod
    def reach(query: Any, item: RelationInput, now: int) -> int | None:
        """The event time from which on rows of an input have a say at `now`; None: from the start on."""

    @staticmethod
    @abstractmethod
    def past_at(reader: Any, query: Any, now: int, tables: Constants, options: QueryOptions | None = None) -> pa.Table:
        """What holds at an instant: columns `_at`, c0, c1, …

        Args:
            options: late rows count as they do for a standing query; None: like all others.
        """

    @staticmethod
    @abstractmethod
    def past_changes(
        reader: Any, query: Any, now: int | None, bounds: Sequence[int], tables: Constants
    ) -> pa.Table | None:
        """All changes up to now, as `relations.answers` gives them; None: there can be none.

        Args:
            now: the largest event time that all inputs have reached; None: one has no rows. bounds: of each input.
        """

    # -- what they share

    @classmethod
    def view(cls, standing: Standing, owner: str) -> str:
        """See `Answering`."""
        inputs = zip(standing.inputs, standing.relational.inputs, strict=True)
        return " and ".join(input_text(item) for each, item in inputs if each == owner)

    @classmethod
    def lasting(cls, known: int) -> str:
        """See `Answering`."""
        return "the rows that a longer 'revise_for' would need are gone; of a relation it can only become shorter"

    def users(self) -> Sequence[Standing]:
        """See `Operator`."""
        return (self.standing,)

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`: how its query is answered."""
        node = self.explain_query(facts, self.standing.definition.query, self.standing)
        assert node is not None
        return node

    @property
    def specs(self) -> list[Rows]:
        """What its inputs are fed by: a stream each, or a union."""
        return [self.catalog.stores[owner].spec for owner in self.inputs]

    @property
    def lates(self) -> list[str]:
        """What late rows of each input do."""
        return [late_of(self.catalog, spec) for spec in self.specs]

    def bound(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """See `Answering`: the least of its inputs that are not idle."""
        return least_bound(self.catalog, self.specs, progress, clock)

    def due(self, standing: Standing, known: QueryProgress, progress: Mapping[str, StreamProgress], clock: int) -> bool:
        """See `Answering`."""
        return standing.status == "live" and moves(
            known.read(self.progress_kind), self.options, self.stirring_bound(progress, clock)
        )

    def uses(self, standing: Standing, known: QueryProgress | None, before: int, bound: int, high: int) -> bool:
        """See `Answering`."""
        return known is None or moves(known.read(self.progress_kind), self.options, bound)

    def looks_up(
        self, standing: Standing, known: QueryProgress, progress: Mapping[str, StreamProgress]
    ) -> Mapping[int, int]:
        """See `Answering`: those that are probed, as far back as windows of instants reach that are not final."""
        if not self.relation.probes:
            return {}
        horizon = self.horizon(known.read(self.progress_kind), high_of(self.catalog, self.specs, progress))
        reaches = probed_streams(self.relation, self.catalog.streams_of(standing))
        return {s: NEVER if r is None else max(NEVER, horizon - 1 - r) for s, r in reaches.items()}

    def final_until(
        self, standing: Standing, known: QueryProgress, progress: Mapping[str, StreamProgress], ended: bool
    ) -> int:
        """See `Answering`."""
        if known.closed <= NEVER:
            return NEVER
        states = [progress.get(str(s.id), StreamProgress()) for s in self.catalog.streams_of(standing)]
        complete = known.closed >= FOREVER and all(s.bound >= FOREVER for s in states)
        if not any(revises(self.options, late) for late in self.lates) or (complete and ended):
            return known.closed - 1
        # What the next epoch measures late rows by is this epoch's watermark, if that is further.
        return self.horizon(known.read(self.progress_kind), high_of(self.catalog, self.specs, progress)) - 1

    def unanswered(self, manifest: Manifest, before: QueryProgress) -> int:
        """The first epoch whose rows it has not answered: this one, or one of its pause or its back-fill."""
        if before.paused is not None:
            return before.paused
        return self.standing.first_epoch if str(self.standing.id) in manifest.adopt else manifest.epoch

    @abstractmethod
    def replay(
        self, db: duckdb.DuckDBPyConnection, inputs: Sequence[Input], before: QueryProgress[R], past: Replayed
    ) -> Advanced[R]:
        """Answer a stretch of the past as if every row had come in order, in one epoch."""

    @abstractmethod
    def kept_of(
        self, db: duckdb.DuckDBPyConnection, place: int, each: Input, known: QueryProgress[R], horizon: int
    ) -> npt.NDArray[np.bool_]:
        """Which rows of one of its inputs it needs where instants from `horizon` on are looked at.

        Args:
            place: of the input. each: the input. known: its progress.
        """

    def differing(
        self, db: duckdb.DuckDBPyConnection, standing: Standing, reported: pa.Table, told: pa.Table
    ) -> pa.Table | None:
        """See `Answering`."""
        return net_changes(db, standing.relational, reported, told)

    def summed(self, db: duckdb.DuckDBPyConnection, sums: Sequence[pa.Table]) -> pa.Table:
        """What is known of groups, put together."""
        return pa.concat_tables(sums)

    def sums_by_shard(
        self, db: duckdb.DuckDBPyConnection, sums: pa.Table, epoch: int, shards: int
    ) -> Mapping[int, Chunk]:
        """What is known of groups as chunks, by the shard that keeps them."""
        return {}

    def in_shard(self, shard: int, shards: int) -> bool:
        """See `Operator`."""
        return self.catalog.stores[self.inputs[0]].in_shard(shard)

    def merge(self, task: MergeTask, parts: Sequence[pa.Table]) -> Step:
        """See `Operator`."""
        step, key = Step(), str(self.standing.id)
        live = self.standing.status == "live" and task.failures.reason(self.standing) is None
        if live and self.inputs[0] in task.views:
            begun = clock.perf_counter()
            with at_most(self._threads(task.manifest)):
                self._answer(task, step)
            step.spent[key] = clock.perf_counter() - begun
        elif self.standing.status == "paused" and self.inputs[0] in task.views and key in task.manifest.queries:
            before = task.manifest.queries[key].read(self.progress_kind)
            after = self.owing(task, before, Asked(before, before.closed, task.manifest.epoch))
            step.progress |= {key: after} if after != before else {}
        return step

    def _answer(self, task: MergeTask, step: Step) -> None:
        key, manifest = str(self.standing.id), task.manifest
        before = manifest.queries.get(key, QueryProgress()).read(self.progress_kind)
        asked = Asked(
            self.stirred(task, before),
            self.answered_until(self.standing, task.progress, manifest.clock),
            self.unanswered(manifest, before),
        )
        if self.is_silent(task, asked):
            after = self.moved(task, asked.before)
            closed = max(asked.before.closed, asked.bound)
            step.progress[key] = replace(after, closed=closed, paused=None)
            return
        result = self.answer(task, asked, step)
        step.progress[key] = replace(result.progress, paused=None)
        self.store(manifest, step, result, asked.since != manifest.epoch)

    def stirred(self, task: MergeTask, before: QueryProgress[R]) -> QueryProgress[R]:
        """Its progress, when it is known whether the epoch took rows of its streams."""
        return before

    def is_silent(self, task: MergeTask, asked: Asked[R]) -> bool:
        """Whether nothing can have changed, so that only its progress moves on."""
        stirs, pending = self.stirring_bound(task.progress, task.manifest.clock), asked.before.own.pending
        fresh = any(task.views[o].delta is not None for o in self.inputs)
        due = pending is not None and pending < stirs
        return not fresh and not due and asked.since == task.manifest.epoch and self.options.every is None

    def store(self, manifest: Manifest, step: Step, result: Advanced[R], late: bool) -> None:
        """Add what is to be stored of a result to a step."""
        epoch = manifest.epoch
        if result.answers is not None and result.answers.num_rows:
            ends = pc.min_max(result.answers["at"].cast(pa.int64())).as_py()
            kind = "backfilled" if late else "answers"
            step.answers.append(Chunk(self.owner, kind, epoch, ends["min"], ends["max"], result.answers))
        if result.revisions is not None and result.revisions.num_rows:
            ends = pc.min_max(result.revisions["end"]).as_py()
            step.state.append(Chunk(self.owner, REVISIONS, epoch, ends["min"], ends["max"], result.revisions))

    def _threads(self, manifest: Manifest) -> int:
        """How many threads may answer: what is in one shard takes those of the others, which have no rows."""
        stores = [self.catalog.stores[o] for o in self.inputs]
        apart = any(s.spread and (not are_together(s.spread) or s.owner in manifest.hot) for s in stores)
        return 1 if apart else manifest.shards

    def given(self, task: MergeTask) -> Given:
        """Revision numbers given so far. An instant has one number, whichever shards change it."""
        files = task.manifest.state
        return lambda low, high: numbers_in(
            task.db, task.pond, [s.path for s in files if s.high >= low and s.low <= high], self.owner, low, high
        )

    def fetch(self, task: MergeTask, owners: Sequence[str]) -> dict[str, tuple[Run, ...]]:
        """The rows of some stores, fetched side by side."""
        some = list(dict.fromkeys(owners))
        found = side_by_side(task.db, [partial(_runs, task.views[o]) for o in some])
        return dict(zip(some, found, strict=True))

    def needed_rows(
        self, db: duckdb.DuckDBPyConnection, manifest: Manifest, owner: str, rows: pa.Table, whole: bool
    ) -> npt.NDArray[np.bool_]:
        """Which rows of a store it can still need.

        Args:
            rows: of the store. whole: these are all that it has, not those of some files.
        """
        before = manifest.queries.get(str(self.standing.id))
        if before is None or self.standing.status == "backfilling":
            return np.ones(rows.num_rows, bool)
        since = self.unanswered(manifest, before)
        high = high_of(self.catalog, self.specs, manifest.progress)
        return self.needed_of(
            db, owner, rows, before.read(self.progress_kind), Needed(since, manifest.epoch, high, whole)
        )

    def needs(
        self, progress: Mapping[str, StreamProgress], queries: Mapping[str, QueryProgress], failures: Failures
    ) -> int | None:
        """See `Operator`."""
        known = queries.get(str(self.standing.id), QueryProgress()).read(self.progress_kind)
        horizon = self.horizon(known, high_of(self.catalog, self.specs, progress))
        lows = zip(self.relation.inputs, self.lows(known, horizon), strict=True)
        kept_lows = [low for item, low in lows if self.relation.probe(item.alias) is None]
        return min((NEVER if low is None else max(NEVER, low) for low in kept_lows), default=NEVER)


def _runs(view: Any, db: duckdb.DuckDBPyConnection) -> tuple[Run, ...]:
    found: tuple[Run, ...] = view.runs(db)
    return found


@dataclass(frozen=True)
class Needed:
    """For when it is asked which rows are needed.

    since: the first epoch that the query has not answered; epoch: the running one. high: the least high watermark of
    its streams. whole: the rows are all that the store has.
    """

    since: int
    epoch: int
    high: int
    whole: bool


def empty_rows(db: duckdb.DuckDBPyConnection, columns: Sequence[Any]) -> pa.Table:
    """A store without rows."""
    own = ["NULL::BIGINT AS _t", "NULL::BIGINT AS _id", "NULL::BIGINT AS _epoch", "NULL::BIGINT AS _cut"]
    fields = [*own, *(projected("NULL", c.type, c.name) for c in columns)]
    return query_table(db, f"SELECT {', '.join(fields)} LIMIT 0")


def check_held(most: int, items: Sequence[RelationInput], sizes: Sequence[int]) -> None:
    """Raises: ValueError when the inputs of a query hold more than `most` rows in a shard."""
    if sum(sizes) > most:
        named = ", ".join(f"{s} of {i.stream}" for i, s in zip(items, sizes, strict=True))
        raise ValueError(
            f"its windows hold {sum(sizes)} rows in one shard ({named}), and may hold {most}: shorter"
            " windows, filters below them, a shorter revise_for, or WITH (held_rows=…) help"
        )


def moves(known: Reading, options: QueryOptions, bound: int) -> bool:
    """Whether a query has something to report when its bound becomes `bound`."""
    own = known.own
    if own.pending is not None and own.pending < bound:
        return True
    if options.every is None or own.first is None:
        return False
    return -(-max(known.closed, own.first) // options.every) * options.every < bound
