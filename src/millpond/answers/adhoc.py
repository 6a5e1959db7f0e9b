"""Ad hoc SELECTs over a stream: archive and live data up to now, as one job of map tasks over archive segments."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from millpond import functions
from millpond.answers.coverage import with_coverage
from millpond.answers.fidelity import answered, on_intervals, scan_for, with_exactness
from millpond.answers.measuring import decision_for
from millpond.answers.row_queries.hot import retained_from
from millpond.answers.row_queries.moments import now_of
from millpond.archive.reading.history import (
    Range,
    batches,
    close_history,
    fed_tasks,
    map_history,
    segments_in,
    tasks_of,
)
from millpond.archive.reading.reducing import Scan, count, pace_of, reduced_tasks, resolve, settle, sums_of
from millpond.archive.reading.scan import Counters
from millpond.archive.reading.splits import (
    SCAN,
    AtHand,
    Portion,
    counted_parcel,
    map_portions,
    portion_rows,
    take_counters,
)
from millpond.archive.retention import floors_of
from millpond.archive.segments import row_schema
from millpond.catalog.unions import Union, entering, is_retained, progress_of
from millpond.engine.core import Core
from millpond.manifests.records import QueryProgress
from millpond.operators.summaries.maintenance import map_entries, served
from millpond.operators.windowed.evaluation import no_panes
from millpond.operators.windowed.lookup_versions import seen_by
from millpond.progress import FOREVER, NEVER, StreamProgress, now
from millpond.support.errors import QueryError
from millpond.synopses import (
    PanesSpec,
    connection,
    finish_windows,
    merge_partials,
    query_ordered,
    query_table,
    spec_of,
)
from millpond.synopses.finish import empty_answers, fold_windows, unnamed
from millpond.synopses.panes import as_declared, by_interval, casts_of, windows_of, without_panes
from millpond.synopses.row_answers import last_row_windows
from millpond.synopses.tolerance import FAULTS, one_line
from millpond.tables import Segment
from millpond.tables.chunks import Payload, pack, unpack
from millpond.tables.executors import Executor, InlineExecutor, Parcel
from millpond.types import (
    NUMBER,
    BoundQuery,
    Column,
    QueryOptions,
    StreamDefinition,
    Window,
    from_json,
    to_json,
)
from millpond.windows import registered
from millpond.windows.panes import WHOLE

#: Rows below which a history query is answered in this process, without a job.
QUICK_ROWS = 3_000_000

#: Rows that an ad hoc answer may have.
ANSWER_ROWS = 20_000_000


def select_stream(core: Core, query: BoundQuery) -> pa.Table:
    """The answer of an ad hoc query over one stream.

    With a window: one row per group and window that ends until now (the high watermark, or progress if that is
    further). Without: groups over all rows that are retained, or the rows themselves in the stream's total order.

    With REDUCE the answer is made of part of the rows, and says so; its schema's metadata have what was read
    (`engine.reducing.description`).
    """
    stream = core.catalog.stream(query.stream)
    assert stream is not None
    published = core.published
    progress = published.progress.get(str(stream.id), StreamProgress())
    if query.feeds:
        progress = progress_of(core.catalog, Union(stream.id, query.feeds), published.progress)
        states = [published.progress.get(str(f.stream), StreamProgress()) for f in query.feeds]
        progress = replace(progress, high=now(states))
    scan = scan_for(query, progress.high)
    if scan is None:
        return _select(core, stream, query, progress, None)
    return answered(core, stream, query, scan, partial(_select, core, stream, query, progress))


def _select(
    core: Core, stream: StreamDefinition, query: BoundQuery, progress: StreamProgress, scan: Scan | None
) -> pa.Table:
    published = core.published
    wanted = Range(epoch=published.epoch)
    windowed = query.window is not None or query.row_window is not None
    interval = by_interval(spec_of(query, stream)).interval if query.window is not None else None
    if not windowed:
        # As row queries see it: whether upkeep has removed the files yet makes no difference.
        streams = streams_read(core, query, stream)
        latest = now_of(published, [streams]) if query.feeds else None
        wanted = replace(wanted, high=None if latest is None else latest + 1)
        lows = [retained_from(s, published) for s in streams]
        if scan is None:
            ranges = [replace(wanted, low=low if low > NEVER else None) for low in lows]
        else:  # copies may be kept for longer than the rows: each is seen as long as its own retention says
            ranges = [wanted] * len(streams)
            scan.floors = {s.id: floors_of(s, low) for s, low in zip(streams, lows, strict=True)}
        if not query.grouped:
            return plain_rows(core, stream, query, ranges, scan)
        table = whole(core, stream, query, ranges, scan=scan)[0]
        return table if scan is None else with_exactness(table, query, scan.stretches, most=scan.most)
    # Windows that end with a row hold the instant of their end.
    until = max(progress.bound, progress.high + (query.row_window is not None))
    answers, removed = grouped(core, stream, _in_order(query), wanted, until, high=progress.high, scan=scan)
    columns = [Column("window_start", "TIMESTAMP"), Column("window_end", "TIMESTAMP")]
    columns += [NUMBER] if query.row_window is not None else []
    columns += [Column(o.name, o.type) for o in query.select]
    shown = _shown(query, answers, columns)
    shown = with_coverage(shown, removed, query.row_window) if is_retained(core.catalog, query) else shown
    if interval is not None:
        return on_intervals(shown, interval)
    return shown if scan is None else with_exactness(shown, query, scan.stretches, most=scan.most, coarse=scan.coarse)


def streams_read(core: Core, query: BoundQuery, stream: StreamDefinition) -> list[StreamDefinition]:
    """The streams of a query's union, or its only one."""
    return [core.catalog.streams[f.stream] for f in query.feeds] or [stream]


def last_windows(
    core: Core, stream: StreamDefinition, query: BoundQuery, wanted: Range, scan: Scan | None = None
) -> tuple[pa.Table | None, int | None]:
    """As `grouped`: for every partition the window of rows that ends with its last row in the range."""
    return grouped(core, stream, _in_order(query), wanted, FOREVER, strict=False, last=True, scan=scan)


def whole(
    core: Core,
    stream: StreamDefinition,
    query: BoundQuery,
    wanted: Range | Sequence[Range],
    strict: bool = True,
    scan: Scan | None = None,
) -> tuple[pa.Table, int | None]:
    """Groups over all rows of a range (or one for each stream of a union) at once: a window that holds all of time.

    Returns: the answer, and the event time below which retention had removed rows (None: it had not).

    strict: a row on which an expression fails makes the query fail; else it is left out, as it is live.
    scan: leaves out part of the rows; what it decides and reads is written into it.
    """
    window = Window(WHOLE, WHOLE, 0, stream.options.time)
    everything = _in_order(replace(unnamed(query), window=window, row_window=None))
    answers, removed = grouped(core, stream, everything, wanted, FOREVER, strict, scan=scan)
    if answers is None and not query.keys:
        answers = _empty_group(everything, spec_of(everything, stream), stream)
    shown = _shown(query, answers, [Column(o.name, o.type) for o in everything.select])
    return shown.rename_columns([o.name for o in query.select]), removed


def _in_order(query: BoundQuery) -> BoundQuery:
    """A query with ORDER BY is finished in one place, which numbers its rows."""
    return replace(query, limit=ANSWER_ROWS) if query.order_by and query.limit is None else query


def _shown(query: BoundQuery, answers: pa.Table | None, columns: list[Column]) -> pa.Table:
    if answers is None:
        return empty_answers(connection(), columns)
    names = [_q(c.name) for c in columns]
    order = "" if query.order_by else f" ORDER BY {', '.join(names)}"
    return query_ordered(connection(), f"SELECT {', '.join(names)} FROM a{order}", a=answers)


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _empty_group(query: BoundQuery, spec: PanesSpec, stream: StreamDefinition) -> pa.Table | None:
    """SQL's answer of an ungrouped aggregate over no rows: one row."""
    db = connection()
    pairs = (np.zeros(1, np.int64), np.ones(1, np.int64))
    folded = fold_windows(db, spec, query, no_panes(), pairs, np.empty(0, np.int64), 0, 0, reach=1)
    answers = finish_windows(db, query, stream.options.time, folded)
    return answers if answers.num_rows else None


def grouped(
    core: Core,
    stream: StreamDefinition,
    query: BoundQuery,
    wanted: Range | Sequence[Range],
    bound: int,
    strict: bool = True,
    last: bool = False,
    high: int = NEVER,
    scan: Scan | None = None,
) -> tuple[pa.Table | None, int | None]:
    """Windows of a grouped query that end until `bound`, over the rows of a range; hidden columns included.

    last: of windows of rows those that end with the last row of a partition, whatever its number.
    scan: leaves out part of the rows; what it decides and reads is written into it.

    Returns: the answers, and the event time below which retention had removed rows (None: it had not).
    """
    query = seen_by(core, query)
    shards = 1 if spec_of(query, stream).single else core.settings.shards
    streams = streams_read(core, query, stream)
    ranges = [wanted] * len(streams) if isinstance(wanted, Range) else list(wanted)
    job = to_json({"stream": to_json(stream), "query": to_json(query), "wanted": to_json(ranges), "bound": bound})
    job |= {"strict": strict, "last": last, "high": high, "pond": core.path}
    with core.pinned():
        tasks: Sequence[tuple[int, Sequence[Any]]]
        found = None
        if scan is not None:
            widest = _widest(ranges)
            scan.sums = None if last else sums_of(query, stream, strict)
            scan.steps = scan.steps or resolve(core, streams, scan, widest)
            tasks, rows, removed = reduced_tasks(core, streams, scan, widest)
        else:
            tasks, rows, removed = fed_tasks(core, streams, ranges)
            needed = by_interval(spec_of(query, stream))
            found = None if last else served(core, stream, needed, [query], ranges[0], strict=strict)
        if found is not None:
            tasks, rows, removed = (
                [(0, t) for t in tasks_of(found.left, 1)],
                sum(s.rows for s in found.left),
                found.removed,
            )
            job |= found.job
        # The rows of a union are not measured, nor are weighted ones: their windows are made from panes.
        kept = [] if query.feeds else segments_in(core.streams[stream.id].archive.segments, ranges[0])
        job["direct"] = query.reduce is None and found is None and _is_direct(core, stream, query, kept)
        job["reduced"] = scan is not None
        started = time.perf_counter()
        executor = InlineExecutor() if rows <= QUICK_ROWS else core.executor
        job["streams"] = to_json(streams)
        map_task = partial(_map, core.path, job, to_json(tasks), shards, at_hand=_at_hand(core, executor, scan))
        try:
            outcomes = executor.run(
                map_task, len(tasks) + (found is not None), partial(_merge, job), shards, background=True
            )
        except FAULTS as error:
            raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    if scan is not None:
        scan.held.forget()
        settle(scan)
        count(scan, [report for report, _ in outcomes])
        core.load.scanned(scan.counters.bytes, time.perf_counter() - started)
    tables = [unpack(payload) for _, payload in outcomes if payload]
    total = sum(t.num_rows for t in tables)
    if total > ANSWER_ROWS:
        raise QueryError(
            f"the answer has {total} rows, at most {ANSWER_ROWS} are allowed; add a filter, coarser groups or LIMIT"
        )
    return (pa.concat_tables(tables, promote_options="permissive") if tables else None), removed


def _is_direct(core: Core, stream: StreamDefinition, query: BoundQuery, segments: Sequence[Segment]) -> bool:
    """Whether windows are cheaper to make straight from rows than from panes; see `millpond.windows.costs`."""
    if query.window is None or query.window.kind is not None:  # windows of rows have no panes
        return False
    spec = spec_of(query, stream)
    # A window that is one pane is made straight from rows anyhow.
    if query.window.range in (WHOLE, spec.panes.width) or len(windows_of(query)) > 1:
        return False
    decision = decision_for(core, stream, query, spec, segments)
    return decision is not None and decision.plan == "direct"


def _spec(job: Any, query: BoundQuery, stream: StreamDefinition) -> PanesSpec:
    spec = by_interval(spec_of(query, stream))
    return without_panes(spec, query) if job["direct"] else spec


def _at_hand(core: Core, executor: Executor, scan: Scan | None) -> AtHand | None:
    """What a scan has at hand: in this process the rows that a function has looked at, and the load as it changes."""
    if scan is None or not isinstance(executor, InlineExecutor):
        return None
    scan.pace = pace_of(core, scan)
    return AtHand(scan.held, scan.pace)


def _map(
    pond: str, job: Any, tasks: list[tuple[int, list[Any]]], shards: int, task: int, at_hand: AtHand | None = None
) -> Iterator[Parcel]:
    registered.use(pond)
    functions.use(pond)
    first, query = from_json(StreamDefinition, job["stream"]), from_json(BoundQuery, job["query"])
    if task == len(tasks):
        yield from map_entries(pond, job, _spec(job, query, first), "adhoc", shards, task)
        return
    place, listed = tasks[task]
    stream, wanted = from_json(StreamDefinition, job["streams"][place]), from_json(Range, job["wanted"][place])
    spec, strict = _spec(job, query, first), job["strict"]
    if not job["reduced"]:
        segments = [from_json(Segment, s) for s in listed]
        yield from map_history(pond, stream, segments, wanted, spec, "adhoc", shards, task, strict, first)
        return
    portions = [from_json(Portion, p) for p in listed]
    yield from map_portions(
        pond, stream, portions, wanted, spec, query, "adhoc", shards, task, first, strict, at_hand=at_hand
    )


def _merge(job: Any, shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    registered.use(job["pond"])
    functions.use(job["pond"])
    stream, query = from_json(StreamDefinition, job["stream"]), from_json(BoundQuery, job["query"])
    parcels, report = take_counters(parcels)
    parts = [unpack(p.payload) for p in sorted(parcels, key=lambda p: p.task)]
    db, spec = connection(), _spec(job, query, stream)
    if job["last"]:
        folded = last_row_windows(db, spec, query, merge_partials(db, spec, parts))
        answers = None if folded is None else finish_windows(db, query, spec.time, folded)
    else:
        options, since = QueryOptions(since="start"), QueryProgress()
        answers, _ = close_history(db, spec, query, options, parts, since, job["bound"], None, job["high"])
    return {SCAN: report}, pack(answers) if answers is not None and answers.num_rows else b""


def _widest(ranges: Sequence[Range]) -> Range:
    """The range that holds the ranges of all streams of a union."""
    lows = [r.low for r in ranges]
    return replace(ranges[0], low=None if None in lows else min(low for low in lows if low is not None))


def plain_rows(
    core: Core,
    stream: StreamDefinition,
    query: BoundQuery,
    wanted: Range | Sequence[Range],
    scan: Scan | None = None,
) -> pa.Table:
    """Rows of the streams that pass the filter, in total order or as ORDER BY says."""
    streams = streams_read(core, query, stream)
    ranges = [wanted] * len(streams) if isinstance(wanted, Range) else list(wanted)
    job = {"query": to_json(query), "wanted": to_json(ranges), "streams": to_json(streams), "reduced": scan is not None}
    with core.pinned():
        tasks: Sequence[tuple[int, Sequence[Any]]]
        if scan is not None:
            widest = _widest(ranges)
            scan.steps = scan.steps or resolve(core, streams, scan, widest)
            tasks, rows, _ = reduced_tasks(core, streams, scan, widest)
        else:
            tasks, rows, _ = fed_tasks(core, streams, ranges)
        executor = InlineExecutor() if rows <= QUICK_ROWS else core.executor
        map_task = partial(_map_plain, core.path, job, to_json(tasks), at_hand=_at_hand(core, executor, scan))
        try:
            outcomes = executor.run(map_task, len(tasks), _forward, 1, background=True)
        except FAULTS as error:
            raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    if scan is not None:
        scan.held.forget()
        settle(scan)
        count(scan, [report for report, _ in outcomes])
    tables = [unpack(payload) for _, payload in outcomes if payload]
    shown = [Column(o.name, o.type) for o in query.select]
    if not tables:
        return empty_answers(connection(), shown)
    table = pa.concat_tables(tables, promote_options="permissive")
    if table.num_rows > ANSWER_ROWS:
        raise QueryError(
            f"the answer has {table.num_rows} rows, at most {ANSWER_ROWS} are allowed; add a filter or LIMIT"
        )
    columns = ", ".join(_q(c.name) for c in shown)
    found = "(SELECT DISTINCT * FROM rows)" if query.distinct else "rows"
    return query_ordered(
        connection(), f"SELECT {columns} FROM {found} {_tail(query, bool(query.distinct))}", rows=table
    )


def _tail(query: BoundQuery, distinct: bool) -> str:
    terms = [replace(t, expression=f"_o{i}").sql for i, t in enumerate(query.order_by)]
    if distinct:
        terms += [_q(o.name) for o in query.select]
    else:
        terms += ["_t", "_id"]
    limit = "" if query.limit is None else f" LIMIT {query.limit}"
    return f"ORDER BY {', '.join(terms)}{limit}" + (f" OFFSET {query.offset}" if query.offset else "")


def _map_plain(
    pond: str, job: Any, tasks: list[tuple[int, list[Any]]], task: int, at_hand: AtHand | None = None
) -> Iterator[Parcel]:
    stream, query = from_json(StreamDefinition, job["streams"][0]), from_json(BoundQuery, job["query"])
    counters = Counters()
    place, listed = tasks[task]
    own, schema = from_json(StreamDefinition, job["streams"][place]), row_schema(stream)
    union = Union(stream.id, query.feeds)
    if job["reduced"]:
        read = portion_rows(pond, own, [from_json(Portion, p) for p in listed], None, counters, at_hand)
    else:
        read = batches(pond, own, [from_json(Segment, s) for s in listed], from_json(Range, job["wanted"][place]))
    outputs = [f"({o.expression})::{o.type} AS {_q(o.name)}" for o in query.select]
    outputs += [f"({t.expression}) AS _o{i}" for i, t in enumerate(query.order_by)]
    outputs += [] if query.distinct else [f"epoch_us({_q(stream.options.time)}) AS _t", "_id"]
    where = f" WHERE ({query.where})" if query.where else ""
    # Every task keeps what could be among the first LIMIT rows.
    most = replace(query, limit=None if query.limit is None else query.limit + query.offset, offset=0)
    for rows in read:
        segment = entering(rows, union, own.id, schema)
        source = as_declared("segment", casts_of(stream), segment.column_names)
        inner = f"SELECT {'DISTINCT ' if query.distinct else ''}{', '.join(outputs)} FROM {source}{where}"
        sql = f"SELECT * FROM ({inner}) {_tail(most, bool(query.distinct))}"
        found = query_table(connection(), sql, segment=segment)
        if found.num_rows:
            yield Parcel(0, "", task, pack(found))
    if job["reduced"]:
        yield counted_parcel(task, counters)


def _forward(shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    parcels, report = take_counters(parcels)
    tables = [unpack(p.payload) for p in parcels]
    return {SCAN: report}, pack(pa.concat_tables(tables, promote_options="permissive")) if tables else b""
