"""Jobs over what is kept of streams: groups of windows, and plain rows, for whoever asks now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa

from millpond import functions
from millpond.archive.archive_files import row_schema
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.resolving import at_hand
from millpond.archive.planning.scan_plans import plan_scan, sums_of
from millpond.archive.planning.scan_tasks import ScanPlan, ScanTask
from millpond.archive.planning.scans import Scan, settle
from millpond.archive.reading.counters import SCAN, counted_parcel, take_counters
from millpond.archive.reading.reader import ArchiveReader, AtHand, together
from millpond.catalog import Catalog
from millpond.catalog.unions import Union, entering
from millpond.engine.pond_view import PondView
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.registry import windows_over
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.history import HistoryMap
from millpond.operators.windowed.lookup_versions import seen_by
from millpond.progress import NEVER
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, query_ordered, query_table, spec_of
from millpond.synopses.finish import empty_answers
from millpond.synopses.partials.specs import as_declared, casts_of
from millpond.synopses.tolerance import FAULTS, one_line
from millpond.tables.chunks import Payload, pack, unpack
from millpond.tables.executors import Executor, InlineExecutor, MapTask, MergeTask, Parcel
from millpond.types import (
    Column,
    QueryOptions,
    RowScan,
    StreamDefinition,
    StreamQuery,
    WindowedQuery,
)
from millpond.windows import registered

#: Rows below which a history query is answered in this process, without a job.
QUICK_ROWS = 3_000_000

#: Rows that an ad hoc answer may have.
ANSWER_ROWS = 20_000_000


Q = TypeVar("Q", bound=StreamQuery, covariant=True)


class TooManyRows(QueryError):
    """An answer would have more rows than it may."""


@dataclass(frozen=True)
class Asked(Generic[Q]):
    """A question about what is kept of a stream, or of the streams of a union.

    stream: the stream, or the union's first. wanted: the rows that count, of all streams or of each. strict: a row on
    which an expression fails makes the query fail; else it is left out, as it is live.
    """

    stream: StreamDefinition
    query: Q
    wanted: Range | Sequence[Range]
    strict: bool = True

    def ranges(self, streams: Sequence[StreamDefinition]) -> list[Range]:
        """The rows that count of each stream."""
        return [self.wanted] * len(streams) if isinstance(self.wanted, Range) else list(self.wanted)


@dataclass(frozen=True)
class Ends:
    """Which windows are answered: those that end until `bound`, or the last of each partition.

    last: of windows of rows those that end with the last row of a partition, whatever its number. high: the largest
    event time of the streams, microseconds.
    """

    bound: int
    last: bool = False
    high: int = NEVER


def streams_read(catalog: Catalog, query: StreamQuery, stream: StreamDefinition) -> list[StreamDefinition]:
    """The streams of a query's union, or its only one."""
    return [catalog.streams[f.stream] for f in query.feeds] or [stream]


def grouped(pond: PondView, asked: Asked[WindowedQuery], ends: Ends, scan: Scan) -> tuple[pa.Table | None, int | None]:
    """Windows of a grouped query, hidden columns included.

    Args:
        scan: what it decides and reads is written into it.
    Returns: the answers, and the event time below which retention had removed rows (None: it had not).
    """
    query, stream = seen_by(pond.tables, pond.catalog, pond.now(), asked.query), asked.stream
    streams = streams_read(pond.catalog, query, stream)
    ranges = asked.ranges(streams)
    spec = spec_of(query, stream).by_interval()
    shards = pond.settings.shards if spec.spread else 1
    scan.sums = None if ends.last else sums_of(query, stream, asked.strict)
    with pond.pinned():
        plan = plan_scan(pond.archives, streams, ranges, scan)
        # The rows of a union are not measured, nor are weighted ones: their windows are made from panes.
        kept = [] if query.feeds else segments_in(pond.streams[stream.id].archive.segments, ranges[0])
        from_entries = any(s.entries for t in plan.tasks for s in t.splits)
        if query.reduce is None and not from_entries:
            spec = windows_over(spec).cheapest(pond.path, stream, query, spec, kept)
        job = _Grouped(HistoryMap(pond.path, tuple(streams), spec, query, "adhoc", shards, asked.strict), ends)
        outcomes = _run(pond.archives, plan, scan, job.map, job.merge, shards)
    return _together([payload for _, payload in outcomes], "a filter, coarser groups or LIMIT"), plan.removed


def _run(
    archives: Archives, plan: ScanPlan, scan: Scan, read: Callable[..., Iterator[Parcel]], merge: MergeTask, shards: int
) -> list[tuple[dict[str, Any], Payload]]:
    """Run a job over what a scan has planned: here, or where executors are when it is much."""
    started = time.perf_counter()
    executor: Executor = InlineExecutor() if plan.rows <= QUICK_ROWS else archives.executor
    here = at_hand(archives, scan) if isinstance(executor, InlineExecutor) else AtHand()
    map_task: MapTask = partial(read, plan.tasks, here)
    try:
        outcomes = executor.run(map_task, len(plan.tasks), merge, shards, background=True)
    except FAULTS as error:
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    settle(scan, [report for report, _ in outcomes])
    if scan.reduced:
        archives.load.scanned(scan.counters.bytes, time.perf_counter() - started)
    return outcomes


def _together(payloads: Sequence[Payload], way: str) -> pa.Table | None:
    """The answers of all shards; `way`: out of having too many."""
    tables = [unpack(p) for p in payloads if p]
    total = sum(t.num_rows for t in tables)
    if total > ANSWER_ROWS:
        raise TooManyRows(f"the answer has more than {ANSWER_ROWS:,} rows, which is the most; add {way}")
    return pa.concat_tables(tables, promote_options="permissive") if tables else None


@dataclass(frozen=True)
class _Grouped:
    """The tasks of `grouped`."""

    history: HistoryMap
    ends: Ends

    def map(self, tasks: Sequence[ScanTask], at_hand: AtHand, task: int) -> Iterator[Parcel]:
        registered.use(self.history.pond)
        functions.use(self.history.pond)
        return self.history.run(task, tasks[task], at_hand=at_hand)

    def merge(self, shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
        registered.use(self.history.pond)
        functions.use(self.history.pond)
        db, spec, query = connection(), self.history.spec, self.history.query
        parcels, report = take_counters(parcels)
        parts = [unpack(p.payload) for p in sorted(parcels, key=lambda p: p.task)]
        kind = windows_over(spec)
        if self.ends.last:
            answers = kind.last_of_past(db, spec, query, parts)
        else:
            bound, high = self.ends.bound, self.ends.high
            reached = bound if high is None else high
            start = QueryProgress(own=kind.progress_kind())
            closing = Closing(query, QueryOptions(since="start"), "drop", start, bound, bound, reached)
            answers = kind.close_past(db, spec, parts, closing).answers
        return {SCAN: report}, pack(answers) if answers is not None and answers.num_rows else b""


def plain_rows(archives: Archives, asked: Asked[RowScan], scan: Scan) -> pa.Table:
    """Rows that pass the filter, in total order or as ORDER BY says; of `asked` it makes no difference if it is strict.

    Args:
        scan: as of `grouped`.
    """
    query = asked.query
    streams = streams_read(archives.catalog, query, asked.stream)
    with archives.pinned():
        plan = plan_scan(archives, streams, asked.ranges(streams), scan)
        if plan.rows > ANSWER_ROWS and query.where is None and query.limit is None and not query.distinct:
            raise TooManyRows(f"the answer has {plan.rows:,} rows, at most {ANSWER_ROWS:,} are allowed; add a filter")
        job = _Plain(archives.path, tuple(streams), query, scan.reduced)
        outcomes = _run(archives, plan, scan, job.map, _forward, 1)
    table = _together([payload for _, payload in outcomes], "a filter or LIMIT")
    shown = [Column(o.name, o.type) for o in query.select]
    if table is None:
        return empty_answers(connection(), shown)
    columns = ", ".join(quote(c.name) for c in shown)
    found = "(SELECT DISTINCT * FROM rows)" if query.distinct else "rows"
    return query_ordered(
        connection(), f"SELECT {columns} FROM {found} {_tail(query, bool(query.distinct))}", rows=table
    )


def _tail(query: RowScan, distinct: bool) -> str:
    terms = [t.by(f"__o{i}") for i, t in enumerate(query.order_by)]
    if distinct:
        terms += [quote(o.name) for o in query.select]
    else:
        terms += ["_t", "_id"]
    limit = "" if query.limit is None else f" LIMIT {query.limit}"
    return f"ORDER BY {', '.join(terms)}{limit}" + (f" OFFSET {query.offset}" if query.offset else "")


@dataclass(frozen=True)
class _Plain:
    """The map tasks of `plain_rows`."""

    pond: str
    streams: tuple[StreamDefinition, ...]
    query: RowScan
    weighted: bool

    def map(self, tasks: Sequence[ScanTask], at_hand: AtHand, task: int) -> Iterator[Parcel]:
        query, scan = self.query, tasks[task]
        first, stream = self.streams[0], self.streams[scan.place]
        schema, union = row_schema(first), Union(first.id, query.feeds)
        reader = ArchiveReader(self.pond, stream, weighted=self.weighted, at_hand=at_hand)
        outputs = [o.sql for o in query.select]
        outputs += [f"({t.expression}) AS __o{i}" for i, t in enumerate(query.order_by)]
        outputs += [] if query.distinct else [f"epoch_us({quote(first.options.time)}) AS _t", "_id"]
        where = f" WHERE ({query.where})" if query.where else ""
        # Every task keeps what could be among the first LIMIT rows.
        most = replace(query, limit=None if query.limit is None else query.limit + query.offset, offset=0)
        count = 0
        for rows in together(reader.rows(scan.splits)):
            if count > ANSWER_ROWS:
                break  # there are too many already
            segment = entering(rows, union, stream.id, schema)
            source = as_declared("segment", casts_of(first), segment.column_names)
            inner = f"SELECT {'DISTINCT ' if query.distinct else ''}{', '.join(outputs)} FROM {source}{where}"
            sql = f"SELECT * FROM ({inner}) {_tail(most, bool(query.distinct))}"
            found = query_table(connection(), sql, segment=segment)
            if found.num_rows:
                count += found.num_rows
                yield Parcel(0, "", task, pack(found))
        yield counted_parcel(task, reader.counters)


def _forward(shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    parcels, report = take_counters(parcels)
    tables = [unpack(p.payload) for p in parcels]
    return {SCAN: report}, pack(pa.concat_tables(tables, promote_options="permissive")) if tables else b""
