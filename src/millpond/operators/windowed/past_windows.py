"""The past of windows, whichever kind they are of: what back-fills, ad hoc SELECTs and INVOKE answer with.

A back-fill is a job over the archive with the map and merge steps of epochs: it answers the windows closed by then, and
leaves state for the open ones.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond import functions
from millpond.archive.design.narrowing import Narrowing, interval_columns, needed_fraction
from millpond.archive.design.reductions import sample_steps
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_plans import plan_scan, sums_of
from millpond.archive.planning.scan_tasks import ScanPlan, ScanTask
from millpond.archive.planning.scans import Scan, settle
from millpond.archive.reading.counters import SCAN, Counters, take_counters
from millpond.archive.summed.serving import Sums
from millpond.catalog import Catalog, Standing, Synopsis
from millpond.catalog.unions import progress_of, streams_of
from millpond.manifests.adoptions import Adoption
from millpond.manifests.owed import Owed, scanned_together
from millpond.manifests.places import query_owner, results_folder, state_folder
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import start_of
from millpond.operators.announcing import announced
from millpond.operators.contract import Past, Retold
from millpond.operators.past_letters import LETTERS, letters_of, letters_parcel, take_letters, write_letters
from millpond.operators.windowed.advance import Advanced, ahead_of
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.group_bounds import group_bounds
from millpond.operators.windowed.history import HistoryMap, merge_history
from millpond.operators.windowed.lookup_versions import seen_by
from millpond.operators.windowed.needs import keep_since, read_since
from millpond.operators.windowed.window_progress import WindowProgress
from millpond.progress import NEVER, StreamProgress
from millpond.support.errors import EngineError, QueryError
from millpond.support.file_cache import FileCache
from millpond.synopses import Spec, connection
from millpond.synopses.partials.dispatch import still_needed
from millpond.synopses.partials.shards import single_shard
from millpond.tables import Chunk, Segment, read_json, write_chunks, write_json
from millpond.tables.chunks import Payload, unpack
from millpond.tables.executors import Parcel
from millpond.types import StreamDefinition, TimeWindow, from_json, to_json
from millpond.windows import registered

#: Owner of the parcels that tell what failed.
FAILED = "failed"


@dataclass
class HistoryState:
    """A state that holds nothing but its delta (see `evaluation.State`). whole: rows, of which all have a say."""

    delta: pa.Table = field(default_factory=lambda: pa.table({}))
    whole: bool = False

    def show(self, delta: pa.Table) -> None:
        """Exchange the delta."""
        self.delta = delta

    def before(self, low: int) -> pa.Table:
        """Nothing was there before."""
        return pa.table({})

    def after(self, low: int) -> pa.Table:
        """Pane rows from pane `low` on."""
        if self.whole:
            return self.delta
        return self.delta.filter(pc.greater_equal(self.delta["pane"], low)) if self.delta.num_rows else self.delta


@dataclass(frozen=True)
class OneWindow:
    """The window that ends at an instant is made of rows by their event time alone.

    start: where it begins. low: the event time of the first rows that it can hold (microseconds).
    query: the query over just its rows, with the window's edges in the place of window_start and window_end.
    """

    start: int
    low: int
    query: Any


@dataclass(frozen=True)
class EachWindow:
    """The window that ends at an instant is found among those that all rows up to it make.

    last: it is the one that ends with the last row, of each partition. since: it is one of those that end from then on.
    """

    last: bool = False
    since: int = NEVER


class WindowKind(ABC):
    """What each kind of windows knows of its past: a class of operators.

    progress_kind: as of `Answering`.
    ends_open: 1 where a window is closed when progress is beyond its end, 0 where it is when progress is at it.
    """

    progress_kind: type[WindowProgress] = WindowProgress
    ends_open: ClassVar[int] = 0

    @staticmethod
    @abstractmethod
    def close_past(
        db: duckdb.DuckDBPyConnection, spec: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """Answers of the windows that end after what `closing` says was answered, and until its bound.

        A late row of a stream with late='drop' (its `cut` is the progress it was behind) counts only in windows that
        were open then, exactly as it did live. Under 'revise' all rows count.

        Args:
            parts: partials of all rows. closing: with 'drop' as what late rows do, since none comes any more.
        """

    @staticmethod
    @abstractmethod
    def last_of_past(
        db: duckdb.DuckDBPyConnection, spec: Any, query: Any, parts: Sequence[pa.Table]
    ) -> pa.Table | None:
        """Of every partition the window that ends with its last row, whatever its number."""

    @staticmethod
    @abstractmethod
    def window_at(query: Any, now: int, before: int) -> OneWindow | EachWindow | None:
        """How a query is answered for the window that ends at `now` (INVOKE); None: there is none.

        Args:
            before: the window holds rows before it: `now`, or the instant behind it (microseconds).
        """

    @staticmethod
    def cheapest(pond: str, stream: StreamDefinition, query: Any, spec: Any, segments: Sequence[Segment]) -> Spec:
        """The spec by which windows of rows in some files are made for who asks once (`millpond.windows.costs`)."""
        made: Spec = spec  # as live
        return made

    @staticmethod
    @abstractmethod
    def chunk_of(owner: str, spec: Any, epoch: int, rows: pa.Table) -> Chunk:
        """The chunk that stores state of a synopsis."""


def answer_past(kind: type[WindowKind], synopsis: Synopsis, past: Past) -> Adoption | None:
    """Answer the epochs before a synopsis's first live one, for all of its queries that do not fail.

    Raises: QueryError when all do.
    """
    made = _Past.of(kind, synopsis, past)
    made = replace(made, users=tuple(made.readable()))
    return _adoption(made) if made.users else None


def retell_past(kind: type[WindowKind], synopsis: Synopsis, past: Past, owed: Mapping[int, Sequence[Owed]]) -> Retold:
    """See `Answering.retell`: stretches close to each other are one scan, for all queries."""
    made, results, removed = _Past.of(kind, synopsis, past), list[Segment](), list[int]()
    for stretch in scanned_together(each for mine in owed.values() for each in mine):
        own = {q: [o for o in mine if stretch.low <= o.low < stretch.high] for q, mine in owed.items()}
        users = tuple(u for u in made.users if own.get(u.id))
        task = replace(made, stretch=stretch, owed={q: mine for q, mine in own.items() if mine}, users=users)
        task = replace(task, users=tuple(task.readable()))
        if not task.users:
            continue
        _, reports = task.run(past.plan)
        os.unlink(past.plan)
        for failed, reason in (each for report in reports for each in report["failures"].items()):
            past.failures.add(failed, reason)
        results += [from_json(Segment, s) for r in reports for s in r["results"]]
    for stream in made.streams:
        snapshot = past.archives.streams[stream.id].archive.snapshot
        removed += [] if snapshot[1] is None else [snapshot[1]]
    if not removed:
        return Retold(tuple(results))
    reach = max((q.windowed.window.range for q in made.users if isinstance(q.windowed.window, TimeWindow)), default=0)
    return Retold(tuple(results), max(removed), max(removed) + reach)


def _adoption(past: _Past) -> Adoption | None:
    owner, path, failures = past.synopsis.owner, past.past.plan, past.past.failures
    starts, reports = past.run(path)
    os.unlink(path)
    for failed, reason in (each for report in reports for each in report["failures"].items()):
        failures.add(failed, reason)
    if owner in failures:
        raise QueryError(failures.reasons[owner])
    good = [str(q.id) for q in past.users if failures.reason(q) is None]
    own = past.kind.progress_kind
    shards = {
        q: [from_json(QueryProgress, r["progress"][q]).read(own) for r in reports if q in r["progress"]] for q in good
    }
    adoption = Adoption(
        owner,
        tuple(int(q) for q in good),
        {q: starts[q].read(own).after(shards[q]) for q in good},
        tuple(from_json(Segment, s) for r in reports for s in r["state"]),
        tuple(from_json(Segment, s) for r in reports for s in r["results"]),
        letters_of(reports),
    )
    return adoption if good else None


@dataclass(frozen=True)
class _Past:
    """The back-fill of a synopsis: what it is made of, and for whom.

    state: the progress of its streams before its first live epoch. stretch: windows that are told anew, within which
    lies what is `owed` of each query; None: it is a back-fill.
    """

    past: Past
    kind: type[WindowKind]
    synopsis: Synopsis
    users: tuple[Standing, ...]
    streams: tuple[StreamDefinition, ...]
    state: StreamProgress
    stretch: Owed | None = None
    owed: Mapping[int, Sequence[Owed]] = field(default_factory=dict)

    @staticmethod
    def of(kind: type[WindowKind], synopsis: Synopsis, past: Past) -> _Past:
        """The back-fill of a synopsis that has not begun."""
        catalog = past.catalog
        users = tuple(catalog.served(synopsis.owner))
        known = past.archives.published.lookups.get(synopsis.owner, ())
        lookup = seen_by(past.tables, catalog, past.clock, users[0].windowed, known).lookup
        synopsis = replace(synopsis, spec=replace(synopsis.spec, lookup=lookup))
        state = progress_of(catalog, synopsis.spec, past.known.progress)
        return _Past(past, kind, synopsis, users, tuple(streams_of(catalog, synopsis.spec)), state)

    def readable(self) -> list[Standing]:
        """The queries of which it can be told which rows they need."""
        failures = self.past.failures
        failures.each(self.users, self._since, otherwise=NEVER)
        return [q for q in self.users if failures.reason(q) is None]

    def _since(self, query: Standing) -> int:
        if self.stretch is not None:
            return read_since(query, self.stretch.low - 1, self.state.high)
        return read_since(query, start_of(query.definition.options, self.state.bound), self.state.high)

    @property
    def wanted(self) -> Range:
        """The rows that are read."""
        low = min(map(self._since, self.users))
        since = low if low > NEVER else None
        if self.stretch is not None:
            behind = max(ahead_of(q.windowed, q.definition.options) for q in self.users)
            return Range(since, self.stretch.high + behind, self.past.known.epoch)
        return Range(since, None, self.synopsis.first_epoch - 1)

    def run(self, path: str) -> tuple[dict[str, QueryProgress], list[dict[str, Any]]]:
        """Run the job, its plan written to `path`.

        Returns: the progress from which each query starts, and the reports of the merge tasks.

        Under `error` the job is repeated over more of the rows until the answers are good enough.
        """
        archives, spec = self.past.archives, self.synopsis.spec
        reduction = spec.reduce if spec.weighted and self.stretch is None else None
        error = reduction is not None and reduction.function == "error"
        total = sum(s.rows for f in self.streams for s in archives.streams[f.id].archive.segments)
        narrowing = Narrowing(reduction.error if reduction is not None else 0.0, total)
        counters = Counters()
        while True:
            counters.full_groups = counters.full_bytes = 0  # a full scan would be one
            scan = Scan(reduction, self.state.high, counters=counters, sums=self.sums(), as_of=self.past.known)
            scan.steps = sample_steps(narrowing.drop) if error else ()
            if self.stretch is not None:  # what was counted stays so: only rows that are gone cannot be told anew
                scan.floors = {s.id: None for s in self.streams}
            plan = plan_scan(archives, self.streams, self.wanted, scan)
            starts = self.starts(scan, plan)
            write_json(path, self.job(starts, plan, narrowing.fraction if error else None))
            reports = self.reports(path, len(plan.tasks))
            settle(scan, reports)
            # A shard without answers says nothing, unless none has any.
            needed = [r["needed"] for r in reports if r["needed"] is not None] or [1.0]
            if not error or narrowing.done(max(needed)):
                return starts, reports

    def reports(self, path: str, tasks: int) -> list[dict[str, Any]]:
        """Run the job of a plan; what its merge tasks report. They tell what queries are to blame for."""
        try:
            job = partial(_map, self.past.path, path)
            merge = partial(_merge, self.past.path, path, self.kind)
            executor, shards = self.past.archives.executor, self.past.shards
            return [r for r, _ in executor.run(job, tasks, merge, shards, background=True)]
        except Exception as error:
            raise EngineError(f"a back-fill failed: {error}") from error

    def sums(self) -> Sums | None:
        """What may stand in for rows."""
        queries, spec = tuple(q.windowed for q in self.users), self.synopsis.spec
        if not spec.weighted:
            return Sums(spec.by_interval(), queries, hard=False)
        return sums_of(queries[0], self.streams[0]) if len(queries) == 1 else None

    def starts(self, scan: Scan, plan: ScanPlan) -> dict[str, QueryProgress]:
        """The progress from which each query starts, by id."""
        covered = NEVER if plan.removed is None else plan.removed
        found: dict[str, QueryProgress] = {}
        if self.stretch is not None:
            so_far = self.past.known.queries
            return {str(q.id): so_far.get(str(q.id), QueryProgress()) for q in self.users}
        for query in self.users:
            start = start_of(query.definition.options, self.state.bound)
            own = self.kind.progress_kind(covered=covered)
            if scan.reduced:
                own = replace(
                    own, reduced=scan.stretches, dropped=scan.most, scanned=scan.summary(), coarse=scan.coarse
                )
            found[str(query.id)] = QueryProgress(closed=start, start=start, own=own)
        return found

    def job(self, starts: dict[str, QueryProgress], plan: ScanPlan, fraction: float | None) -> dict[str, Any]:
        """What the tasks have to know, JSON-ready.

        Args:
            fraction: of the rows that is read, where it is asked how good the answers are.
        """
        return {
            "streams": to_json(self.streams),
            "since": self.wanted.low,
            "bound": self.state.bound,
            "high": self.state.high,
            "groups": self.state.groups,
            "users": to_json(self.users),
            "starts": to_json(starts),
            "synopsis": to_json(self.synopsis),
            "shards": self.past.shards,
            "tasks": to_json(plan.tasks),
            "fraction": fraction,
            "name": f"b{self.synopsis.owner}" if self.stretch is None else self.name,
            "epoch": self.synopsis.first_epoch - 1 if self.stretch is None else self.past.known.epoch,
            "owed": {str(q): to_json(tuple(owed)) for q, owed in self.owed.items()},
        }

    @property
    def name(self) -> str:
        """What the files of answers that are told anew begin with."""
        assert self.stretch is not None
        return f"t{self.synopsis.owner}-{self.past.known.epoch}-{self.stretch.low}"


#: A repeated back-fill has a new plan under the same name.
_plans: FileCache[Any] = FileCache(1)


def _plan(path: str) -> Any:
    return _plans.get(path, lambda: read_json(path))


def _failures(plan: Any, where: str) -> Failures:
    """What fails in a task of a back-fill: the synopsis, or some of its queries."""
    standings = [from_json(Standing, value) for value in plan["users"]]
    return Failures(Catalog(queries={q.id: q for q in standings}), where)


def _map(pond: str, path: str, task: int) -> Iterator[Parcel]:
    registered.use(pond)
    functions.use(pond)
    plan = _plan(path)
    failures, parcels = _failures(plan, f"back-fill, map task {task}"), _mapped(pond, plan, task)
    while True:
        # What it has given already is not looked at when it fails.
        parcel = failures.attempt(plan["synopsis"]["owner"], partial(next, parcels, None), attempts=1)
        if parcel is None:
            break
        yield parcel
    if failures.reasons:
        yield Parcel(0, FAILED, task, json.dumps(failures.reasons).encode())


def _mapped(pond: str, plan: Any, task: int) -> Iterator[Parcel]:
    """What a map task sends."""
    synopsis, scan = from_json(Synopsis, plan["synopsis"]), from_json(ScanTask, plan["tasks"][task])
    spec, streams = synopsis.spec, tuple(from_json(StreamDefinition, s) for s in plan["streams"])
    users = [from_json(Standing, user) for user in plan["users"]]
    history = HistoryMap(pond, streams, spec.by_interval(), users[0].windowed, synopsis.owner, plan["shards"])
    failed: list[pa.Table] = []
    yield from history.run(task, scan, failed)
    if plan["owed"]:
        return  # what fails was written when it came
    names = ", ".join(sorted(user.definition.name for user in users))
    segments = None if spec.weighted else [s for split in scan.splits for s in split.segments]
    stream = streams[scan.place]
    written = write_letters(pond, stream, synopsis.owner, task, failed, names, synopsis.first_epoch - 1, segments)
    if written is not None:
        yield letters_parcel(task, stream, written)


@dataclass(frozen=True)
class _Closed:
    """What a query gets of the past.

    needed: the fraction of the rows that its answers needed. keep: the event time from which it needs pane rows.
    """

    progress: QueryProgress
    needed: float | None
    keep: int
    answers: list[Chunk]


def _merge(
    pond: str, path: str, kind: type[WindowKind], shard: int, parcels: Sequence[Parcel]
) -> tuple[dict[str, Any], Payload]:
    registered.use(pond)
    functions.use(pond)
    plan = _plan(path)
    owner, failures = plan["synopsis"]["owner"], _failures(plan, f"back-fill, shard {shard}")
    for parcel in (p for p in parcels if p.owner == FAILED):
        failures.reasons |= json.loads(bytes(parcel.payload))
    parcels, read = take_counters([p for p in parcels if p.owner != FAILED])
    parcels, dead = take_letters(parcels)
    written: dict[str, Any] = {"progress": {}, "state": [], "results": [], "needed": None, SCAN: read, LETTERS: dead}
    if owner not in failures:
        written |= failures.attempt(owner, partial(_written, pond, plan, kind, shard, parcels, failures)) or {}
    return written | {"failures": failures.reasons}, b""


def _written(
    pond: str, plan: Any, kind: type[WindowKind], shard: int, parcels: Sequence[Parcel], failures: Failures
) -> dict[str, Any]:
    """Answers and state of a shard, as far as they are to be told."""
    synopsis, epoch = from_json(Synopsis, plan["synopsis"]), plan["epoch"]
    if single_shard(synopsis.spec, synopsis.owner, plan["shards"]) not in (None, shard):
        return {}
    parts = [unpack(p.payload) for p in sorted(parcels, key=lambda p: p.task)]
    closed: dict[int, _Closed] = {}
    for standing in failures.catalog.queries.values():
        closing = partial(_close, plan, kind, synopsis, standing, parts)
        if (found := failures.attempt(query_owner(standing.id), closing)) is not None:
            closed[standing.id] = found
    results = [chunk for each in closed.values() for chunk in each.answers]
    state, db = [], connection()
    panes = pa.table({}) if plan["owed"] else merge_history(db, synopsis.spec, parts)
    if panes.num_rows and closed:
        low = synopsis.spec.panes.pane(min(each.keep for each in closed.values()))
        kept = still_needed(db, synopsis.spec, panes, low)
        if kept.num_rows:
            state = [kind.chunk_of(synopsis.owner, synopsis.spec, epoch, kept)]
    name = f"{plan['name']}-{shard:04d}.parquet"
    return {
        "progress": {str(number): to_json(each.progress) for number, each in closed.items()},
        "state": [to_json(write_chunks(state_folder(pond), name, state, shard))] if state else [],
        "results": [to_json(write_chunks(results_folder(pond), name, results, shard))] if results else [],
        "needed": max((each.needed for each in closed.values() if each.needed is not None), default=None),
    }


def _close(plan: Any, kind: type[WindowKind], synopsis: Synopsis, standing: Standing, parts: list[pa.Table]) -> _Closed:
    """Answer the windows of a query that closed before its first live epoch."""
    stream = from_json(StreamDefinition, plan["streams"][0])
    query, options = standing.windowed, standing.definition.options
    if plan["owed"]:
        return _told(plan, kind, synopsis, standing, parts)
    start = from_json(QueryProgress, plan["starts"][str(standing.id)]).read(kind.progress_kind)
    groups = None if options.delay else group_bounds(stream, query, synopsis.spec, plan["groups"])
    bound = announced(options, plan["bound"])
    closing = Closing(query, options, "drop", start, bound, bound, plan["high"], groups)
    closed = kind.close_past(connection(), synopsis.spec, parts, closing)
    answers, after = closed.answers, closed.progress
    keep = keep_since(synopsis, standing, stream, after.closed, plan["high"])
    if answers is None or not answers.num_rows:
        return _Closed(after, None, keep, [])
    needed = None
    if plan.get("fraction") is not None and query.reduce is not None:
        needed = needed_fraction(answers, interval_columns(query), query.reduce.error, plan["fraction"])
    return _Closed(after, needed, keep, [_chunk(plan, standing, answers)])


def _told(plan: Any, kind: type[WindowKind], synopsis: Synopsis, standing: Standing, parts: list[pa.Table]) -> _Closed:
    """Answer the windows that are owed of a query, of each stretch by itself."""
    query, options = standing.windowed, standing.definition.options
    known, chunks = from_json(QueryProgress, plan["starts"][str(standing.id)]).read(kind.progress_kind), []
    for each in (from_json(Owed, value) for value in plan["owed"].get(str(standing.id), [])):
        low, high = each.low - 1 + kind.ends_open, each.high - 1 + kind.ends_open
        start = replace(known, closed=low, start=low, own=replace(known.own, groups={}, held=()))
        until = max(high, min(high + ahead_of(query, options), known.closed))
        closing = Closing(query, options, "drop", start, until, until, until)
        answers = kind.close_past(connection(), synopsis.spec, parts, closing).answers
        if answers is not None and until > high:  # windows behind the stretch were answered to fill those in it
            answers = answers.filter(pc.less_equal(answers["window_end"].cast("int64"), high))
        chunks += [_chunk(plan, standing, answers)] if answers is not None and answers.num_rows else []
    return _Closed(known, None, NEVER, chunks)


def _chunk(plan: Any, standing: Standing, answers: pa.Table) -> Chunk:
    """The chunk that stores answers of the past."""
    span = pc.min_max(answers["window_end"].cast("int64")).as_py()
    return Chunk(query_owner(standing.id), "backfilled", plan["epoch"], span["min"], span["max"], answers)


__all__ = ["EachWindow", "HistoryState", "OneWindow", "WindowKind", "answer_past", "retell_past"]
