"""What the operators of windows have in common: the epoch's rows go into state, and every query is answered from it."""

from __future__ import annotations

import os
import time as clock
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Protocol, Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.design.exactness import LeftOut, with_exactness
from millpond.catalog import Catalog, Standing, Synopsis
from millpond.catalog.unions import late_of, progress_of
from millpond.manifests.adoptions import Adoption
from millpond.manifests.owed import Owed
from millpond.manifests.places import query_owner, state_folder
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest
from millpond.operators.announcing import announced
from millpond.operators.contract import (
    ONLY_RSTREAM,
    Answering,
    CompactTask,
    Kept,
    Mapper,
    MapTask,
    MergeTask,
    Past,
    Retold,
    Step,
)
from millpond.operators.filters.order_facts import order_facts
from millpond.operators.plan_facts import PlanFacts, used_by, work_facts
from millpond.operators.windowed.advance import Advanced, horizon_of, without_replaced
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.coverage import with_coverage, without_missed
from millpond.operators.windowed.early import EARLY, Speculation, due, latest_shown, opens, with_early
from millpond.operators.windowed.evaluation import Shown
from millpond.operators.windowed.group_bounds import group_bounds, released_by_groups
from millpond.operators.windowed.mapper import SynopsisMapper
from millpond.operators.windowed.needs import keep_since, needed_since, summary_since
from millpond.operators.windowed.numbers import REVISIONS, differing, numbers_in, put_numbers_together
from millpond.operators.windowed.ordering import in_order
from millpond.operators.windowed.past_windows import WindowKind, answer_past, retell_past
from millpond.operators.windowed.window_plans import window_plan
from millpond.operators.windowed.window_progress import Windowed, WindowProgress, answered
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.support.errors import Refusal
from millpond.synopses import spec_of
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.partials.shards import single_shard
from millpond.tables import Chunk, read_chunks
from millpond.types import Query, QueryDefinition, QueryOptions, StreamDefinition, WindowedQuery
from millpond.types.plan_nodes import Fact, PlanNode


def check_marks(query: WindowedQuery, streams: Sequence[StreamDefinition], kind: str) -> None:
    """Raises: Refusal where windows cannot be over a stream whose groups have bounds of their own, which drops rows."""
    dropped = [s.name for s in streams if s.options.marks_by is not None and s.options.late == "drop"]
    if dropped and not query.feeds:
        raise Refusal(
            f"{kind} are not available over a stream with marks_by and late='drop'",
            words=(dropped[0],),
            expected="a stream with late='revise'",
        )


class WindowState(Shown, Protocol):
    """A state that is kept from epoch to epoch."""

    def parts(self) -> list[pa.Table]:
        """What was stored since the query answered last, with its late exclusions."""
        ...

    def keep(self, low: int, rewritten: bool) -> None:
        """Keep it in memory for the next epoch."""
        ...


class WindowOperator(Answering, WindowKind):
    """Windows over the state of one synopsis, which all its queries share.

    spec_kind: of such synopses. mapper_kind: makes partials of rows for one. state_kind: their state in a shard.
    state_word: what SHOW SYNOPSES calls them. plan_word: what plans call them.
    """

    spec_kind: ClassVar[type]
    query_kind: ClassVar[type[WindowedQuery]]
    mapper_kind: ClassVar[type[SynopsisMapper]]
    state_kind: ClassVar[type[Any]]
    state_word: ClassVar[str]
    plan_word: ClassVar[str]
    refuses: ClassVar[Mapping[str, str]] = {"every": ONLY_RSTREAM}
    progress_kind: type[WindowProgress] = WindowProgress

    def __init__(self, catalog: Catalog, synopsis: Synopsis) -> None:
        self.catalog, self.synopsis, self.owner = catalog, synopsis, synopsis.owner
        self.spec: Spec = synopsis.spec
        self.first_epoch = synopsis.first_epoch

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[Self]:
        """See `Operator`."""
        synopses = [s for s in catalog.synopses.values() if isinstance(s.spec, cls.spec_kind)]
        return [cls(catalog, s) for s in synopses if catalog.is_of_use(s.owner)]

    def mapper(self, task: MapTask) -> Mapper | None:
        """See `Operator`."""
        fed = task.stream.id in self.spec.streams and self.first_epoch <= task.manifest.epoch
        return self.mapper_kind(task, self.synopsis) if fed else None

    # -- what each kind has its own of

    @abstractmethod
    def take(self, task: MergeTask, parts: Sequence[pa.Table]) -> tuple[WindowState, list[Chunk], pa.Table, int]:
        """The state with the epoch's rows, chunks to store, the rows as they are stored, and how many come too late."""

    @classmethod
    @abstractmethod
    def own_facts(cls, facts: PlanFacts, query: Any, standing: Standing | None, spec: Any) -> Sequence[Fact]:
        """What EXPLAIN says of the windows of a query.

        Args:
            standing: the query as it is registered; None: nobody has. spec: of its synopsis.
        """

    @staticmethod
    @abstractmethod
    def advance(
        db: duckdb.DuckDBPyConnection, spec: Any, state: Any, closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """Close windows, and revise those that rows of the epoch change."""

    @abstractmethod
    def owed(self, db: duckdb.DuckDBPyConnection, rows: pa.Table, closing: Closing[Any]) -> Windowed:
        """The progress before an epoch, with what it owes for its rows of windows that state does not cover."""

    @staticmethod
    @abstractmethod
    def catch_up(
        db: duckdb.DuckDBPyConnection, spec: Any, state: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """Answer what the query missed, as if it had answered all the time.

        Args:
            state: what was there when it answered last. parts: what came since.
        """

    @abstractmethod
    def open_now(
        self, db: duckdb.DuckDBPyConnection, state: Any, standing: Standing, high: int, progress: Windowed
    ) -> pa.Table | None:
        """What windows that are open would answer now."""

    def smooth(
        self, task: MergeTask, state: Any, closing: Closing[Any], result: Advanced[WindowProgress], owner: str
    ) -> Advanced[WindowProgress]:
        """The answers that go out in this epoch where a query, stored as `owner`, spreads them."""
        return result

    def waiting(
        self, db: duckdb.DuckDBPyConnection, query: WindowedQuery, answers: pa.Table, progress: Windowed
    ) -> npt.NDArray[np.bool_]:
        """Which of some answers of windows that progress has passed have not gone out, when a query is so far."""
        return np.zeros(answers.num_rows, bool)

    @abstractmethod
    def low_of(self, standing: Standing, answered: int) -> int:
        """From where on state is kept in memory for a query that has answered so far."""

    @abstractmethod
    def settle(self, task: MergeTask, state: Any) -> None:
        """Tell the state what no window can change any more."""

    @abstractmethod
    def compact_state(self, task: CompactTask, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Chunks of the synopsis as fewer, without what no query needs."""

    @abstractmethod
    def closes(self, standing: Standing, known: QueryProgress, reached: int, high: int) -> bool:
        """Whether a window closes when progress is `reached`. high: of the stream."""

    # -- what they share

    @classmethod
    def explain_query(cls, facts: PlanFacts, query: Query, standing: Standing | None) -> PlanNode | None:
        """See `Operator`."""
        if not isinstance(query, cls.query_kind):
            return None
        own = partial(cls.own_facts, facts, query, standing)
        return window_plan(cls.plan_word, facts, query, standing, own, cls.covered)

    def state(self, task: MergeTask, delta: pa.Table, since: int | None = None) -> Any:
        """The state in a shard, before and after the rows of the epoch; since: as of that epoch."""
        return self.state_kind(task.version, task.segments, task.shard, self.owner, self.spec, delta, since)

    def bound(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """See `Answering`."""
        return progress_of(self.catalog, self.spec, progress).bound

    def answered_until(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """See `Answering`."""
        return announced(standing.definition.options, self.bound(standing, progress, clock))

    def due(self, standing: Standing, known: QueryProgress, progress: Mapping[str, StreamProgress], clock: int) -> bool:
        """See `Answering`."""
        state = progress_of(self.catalog, self.spec, progress)
        reached = announced(standing.definition.options, state.bound)
        return state.high > NEVER and reached > known.closed and self.closes(standing, known, reached, state.high)

    def due_by_clock(self, standing: Standing, known: QueryProgress, clock: int) -> bool:
        """See `Answering`."""
        own = known.read(self.progress_kind).own
        return own.stirred and due(standing.definition.options, own.early_at, clock)

    @classmethod
    def answered(cls, known: QueryProgress) -> int:
        """See `Answering`."""
        return answered(known.read(cls.progress_kind))

    @classmethod
    def qualified(cls, definition: QueryDefinition, known: QueryProgress, answers: pa.Table) -> pa.Table:
        """See `Answering`: what its back-fill did not find, or left out, is missing in later windows, too."""
        query = definition.query
        assert isinstance(query, WindowedQuery)
        if definition.retained:
            answers = with_coverage(answers, cls.covered(known), query.window)
            answers = without_missed(answers, known.missed)
        return with_exactness(answers, query, cls.left_out(known)) if query.estimated else answers

    @classmethod
    def left_out(cls, known: QueryProgress) -> LeftOut:
        """See `Answering`."""
        own = known.read(cls.progress_kind).own
        return LeftOut(own.reduced, own.dropped, own.coarse, own.scanned)

    @classmethod
    def answered_groups(cls, query: Any, known: QueryProgress) -> Mapping[str, int]:
        """See `Answering`."""
        return known.read(cls.progress_kind).own.groups

    @classmethod
    def marked_columns(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> tuple[str, ...]:
        """See `Answering`."""
        stream = streams[0]
        if not released_by_groups(query, options, stream, spec_of(query, stream)):
            return ()
        keys = {key.name: key.expression.column for key in query.keys}
        return stream.options.marked_as({keys.get(o.expression.column or ""): o.name for o in query.select})

    @classmethod
    def covered(cls, known: QueryProgress) -> int:
        """See `Answering`."""
        return known.read(cls.progress_kind).own.covered

    @property
    def owners(self) -> frozenset[str]:
        """See `Operator`: its own, and its queries' for revision numbers and early answers."""
        return frozenset((self.owner, *(query_owner(q.id) for q in self.users())))

    def users(self) -> Sequence[Standing]:
        """See `Operator`."""
        return self.catalog.served(self.owner)

    def in_shard(self, shard: int, shards: int) -> bool:
        """See `Operator`."""
        return single_shard(self.spec, self.owner, shards) in (None, shard)

    def merge(self, task: MergeTask, parts: Sequence[pa.Table]) -> Step:
        """See `Operator`."""
        step, begun = Step(), clock.perf_counter()
        state, chunks, stored, too_late = self.take(task, parts)
        step.merged = clock.perf_counter() - begun
        step.state += chunks
        lowest: list[int] = []
        for standing in self.users():
            if standing.status == "live" and task.failures.reason(standing) is None:
                answering = partial(self._answer, task, standing, state, stored, too_late)
                if (answered := task.failures.attempt(query_owner(standing.id), answering)) is not None:
                    step.add(answered[0])
                    lowest.append(answered[1])
            elif standing.status == "paused" and str(standing.id) in task.manifest.queries:
                owing = partial(self._owing, task, standing, state)
                step.progress |= task.failures.attempt(query_owner(standing.id), owing) or {}
        # Without what a back-fill is going to bring, a kept table would not be the whole state.
        if lowest and not any("backfilling" in (q.status, q.reason) for q in self.users()):
            adopting = any(str(q.id) in task.manifest.adopt for q in self.users())
            self.settle(task, state)
            state.keep(min(lowest), adopting or str(task.shard) in task.manifest.compact)
        return step

    def _owing(self, task: MergeTask, standing: Standing, state: WindowState) -> dict[str, QueryProgress]:
        """The progress of a query that is paused, where more is owed to it: what is kept for it goes less far back."""
        manifest, spec, options = task.manifest, self.spec, standing.definition.options
        before = manifest.queries[str(standing.id)].read(self.progress_kind)
        known = progress_of(self.catalog, spec, manifest.progress)
        late = "drop" if options.delay else late_of(self.catalog, spec)
        closing = Closing(
            standing.windowed, options, late, before, before.closed, known.high, known.high, epoch=manifest.epoch
        )
        after = self.owed(task.db, state.delta, closing) if closing.owes and state.delta.num_rows else before
        return {str(standing.id): after} if after != before else {}

    def _answer(
        self, task: MergeTask, standing: Standing, state: WindowState, stored: pa.Table, too_late: int
    ) -> tuple[Step, int]:
        """What one query gives, and from where on its state is kept in memory."""
        step, key, manifest, begun = Step(), str(standing.id), task.manifest, clock.perf_counter()
        options, before = standing.definition.options, self.progress(manifest.queries, standing)
        known = progress_of(self.catalog, self.spec, manifest.progress)
        since = self.unanswered_since(manifest, standing)
        result = self._result(task, standing, before, state, stored, since)
        lost = result.progress.too_late + too_late
        step.progress[key] = replace(result.progress, paused=None, too_late=lost)
        step.spent[key] = clock.perf_counter() - begun
        late = since is not None or before.closed < announced(options, known.bound)
        owner, epoch = query_owner(standing.id), manifest.epoch
        for into, kind, table in (
            (step.answers, "backfilled" if late else "answers", result.answers),
            (step.state, REVISIONS, result.revisions),
            (step.state, EARLY, result.early),
        ):
            if table is not None and table.num_rows:
                ends = table["end"] if kind == REVISIONS else table["window_end"].cast(pa.int64())
                span = pc.min_max(ends).as_py()
                into.append(Chunk(owner, kind, epoch, span["min"], span["max"], in_order(task.db, table)))
        return step, self.low_of(standing, answered(result.progress))

    def _result(
        self,
        task: MergeTask,
        standing: Standing,
        before: Windowed,
        state: WindowState,
        stored: pa.Table,
        since: int | None,
    ) -> Advanced[WindowProgress]:
        manifest, spec, options = task.manifest, self.spec, standing.definition.options
        query, owner = standing.windowed, query_owner(standing.id)
        known, reached = (progress_of(self.catalog, spec, p) for p in (manifest.progress, task.progress))
        until = announced(options, reached.bound)
        late = "drop" if options.delay else late_of(self.catalog, spec)
        stream = self.catalog.streams[spec.stream]
        groups = None if options.delay else group_bounds(stream, query, spec, reached.groups)
        spread = options.flush != "at once"
        # Windows that close are answered by and by where the query says so: at first nothing but revisions.
        closing = Closing(
            query, options, late, before, before.closed if spread else until, known.high, reached.high, groups,
            partial(_given, task, owner), manifest.epoch,
        )  # fmt: skip
        if since is None:
            result = self.advance(task.db, self.spec, state, closing)
        else:
            missed = self.state(task, state.delta, since)
            result = self.catch_up(task.db, self.spec, missed, [*missed.parts(), stored], closing)
        if spread:
            result = self.smooth(task, state, replace(closing, until=until), result, owner)
        if options.early is not None:
            stirred = any(s.stream in spec.streams for s in manifest.splits)
            speculation = Speculation(
                query,
                options,
                partial(shown_early, task, owner),
                partial(self.open_now, task.db, state, standing, reached.high),
                manifest.clock,
                stirred,
                partial(self.waiting, task.db, query),
            )
            result = with_early(task.db, speculation, before, result)
        return result

    def final_until(
        self, standing: Standing, known: QueryProgress, progress: Mapping[str, StreamProgress], ended: bool
    ) -> int:
        """See `Answering`."""
        if known.closed <= NEVER:
            return NEVER
        state = progress_of(self.catalog, self.spec, progress)
        behind, until = self.open_end(known), self.answered(known)
        if late_of(self.catalog, self.spec) == "drop" or (state.bound >= FOREVER and ended):
            return until - behind
        if state.high <= NEVER:
            return NEVER
        horizon = horizon_of(standing.windowed, standing.definition.options, known, state.high)
        return min(until, horizon) - behind

    def open_end(self, known: QueryProgress) -> int:
        """How far behind progress windows are closed for certain (microseconds)."""
        return 0

    def progress(self, queries: Mapping[str, QueryProgress], standing: Standing) -> Windowed:
        """The progress of one of its queries, of those of all."""
        return queries.get(str(standing.id), QueryProgress()).read(self.progress_kind)

    def unanswered_since(self, manifest: Manifest, standing: Standing) -> int | None:
        """The first epoch whose rows a query has not answered, since it was paused or back-filled; else None."""
        key = str(standing.id)
        paused = manifest.queries.get(key, QueryProgress()).paused
        return self.synopsis.first_epoch if paused is None and key in manifest.adopt else paused

    def waits(self, manifest: Manifest, standing: Standing) -> bool:
        """Whether a query answers the rows of this epoch later, or with those of others."""
        return standing.status in ("paused", "backfilling") or self.unanswered_since(manifest, standing) is not None

    def history(self, past: Past) -> Adoption | None:
        """See `Operator`."""
        return answer_past(type(self), self.synopsis, past)

    def logged(self, answers: Chunk) -> Chunk:
        """See `Operator`: without those that others replace, which are for streams that take rows back."""
        paired = self.catalog.queries[int(answers.owner[1:])].definition.options.pairs
        return replace(answers, table=without_replaced(answers.table)) if paired else answers

    def retell(self, past: Past, owed: Mapping[int, Sequence[Owed]]) -> Retold:
        """See `Answering`."""
        return retell_past(type(self), self.synopsis, past, owed)

    def differing(
        self, db: duckdb.DuckDBPyConnection, standing: Standing, reported: pa.Table, told: pa.Table
    ) -> pa.Table | None:
        """See `Answering`."""
        return differing(db, standing.windowed, reported, told, standing.definition.options.pairs)

    def compact(self, task: CompactTask, owner: str, kind: str, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """See `Operator`."""
        if owner == self.owner:
            return self.compact_state(task, chunks)
        standing = self.catalog.queries[int(owner[1:])]
        if kind == REVISIONS:
            return [put_numbers_together(task.db, owner, chunks)]
        query = standing.windowed
        until = answered(self.progress(task.manifest.queries, standing))
        shown = latest_shown(task.db, query, [c.table for c in chunks], opens(query, until))
        if shown is None:
            return []
        ends = pc.min_max(shown["window_end"].cast(pa.int64())).as_py()
        return [Chunk(owner, kind, max(c.epoch for c in chunks), ends["min"], ends["max"], shown)]

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`."""
        summaries = ["a summary of the stream"] if self.catalog.kept_by(self.owner) else []
        title = f"synopsis {self.owner}{used_by(self.catalog, self.owner, asker, summaries)}"
        found = [*order_facts(facts, self.owner, asker), *work_facts(facts, self.owner)]
        return PlanNode("synopsis", title, tuple(found))

    def explain_stream(self, facts: PlanFacts, stream: StreamDefinition) -> PlanNode | None:
        """See `Operator`."""
        return self.explain(facts) if stream.id in self.spec.streams else None

    def kept(self, split: Mapping[str, str]) -> Kept:
        """See `Operator`."""
        spec, streams = self.spec, tuple(self.catalog.streams[n].label for n in self.spec.streams)
        keys = ", ".join(map(str, spec.keys))
        return Kept(self.state_word, streams, self.pane_text(), spec.where, keys, len(spec.components), spec.form)

    @abstractmethod
    def pane_text(self) -> str:
        """What a synopsis keeps of each group."""

    def needed_since(self, task: CompactTask | MergeTask) -> int:
        """The event time from which any query may still need state."""
        return needed_since(task.manifest, self.catalog, self.synopsis, self.answered, task.failures)

    def needs(
        self, progress: Mapping[str, StreamProgress], queries: Mapping[str, QueryProgress], failures: Failures
    ) -> int | None:
        """See `Operator`."""
        known = progress_of(self.catalog, self.spec, progress)
        stream = self.catalog.streams[self.spec.stream]
        needs = [summary_since(self.synopsis, known.bound, known.high)] if self.catalog.kept_by(self.owner) else []

        def since(query: Standing) -> int:
            until = answered(self.progress(queries, query))
            return keep_since(self.synopsis, query, stream, until, known.high)

        needs += failures.each(self.users(), since, otherwise=NEVER)
        return min(needs, default=None)


def _given(task: MergeTask, owner: str, low: int, high: int) -> pa.Table | None:
    files = [s.path for s in task.segments if s.high >= low and s.low <= high]
    return numbers_in(task.db, task.pond, files, owner, low, high)


def shown_early(task: MergeTask, owner: str, since: int) -> list[pa.Table]:
    """What was shown early of windows of a query that end from `since` on."""
    paths = [os.path.join(state_folder(task.pond), s.path) for s in task.segments if s.high >= since]
    chunks = read_chunks(paths, {owner}, lambda _o, kind, _e, _l, high: kind == EARLY and high >= since)
    return [c.table for c in chunks]
