"""INVOKE: the answer of a standing query for the window that ends now, exact to the row, open panes included."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.adhoc import last_windows, open_sessions, whole
from millpond.answers.archive_jobs import Asked, streams_read
from millpond.answers.expired_history import check_reach
from millpond.answers.fidelity import answered, scan_for, told_by
from millpond.answers.relation_answers import invoke_relation
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scans import Scan
from millpond.archive.retention import is_retained
from millpond.catalog import Standing
from millpond.catalog.unions import progress_of
from millpond.engine.core import Core
from millpond.manifests.records import published_path, read_published
from millpond.operators.windowed.coverage import COVERAGE, with_coverage
from millpond.operators.windowed.lookup_versions import seen_by
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.progress import now as latest
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, query_table
from millpond.synopses.finish import empty_answers
from millpond.synopses.pane_partials import window_behind
from millpond.synopses.partials.dispatch import Spec
from millpond.types import (
    EXACT,
    NUMBER,
    Aggregate,
    CalendarWindow,
    Column,
    CountWindow,
    Expression,
    KindWindow,
    LandmarkWindow,
    RelationalQuery,
    RowWindow,
    RowWindowQuery,
    SessionQuery,
    SpanWindow,
    StreamDefinition,
    TimeWindow,
    Window,
    WindowedQuery,
    WindowQuery,
    composed,
)
from millpond.types.as_of import AsOf
from millpond.windows.calendar_panes import back_from
from millpond.windows.landmark_windows import BEGINNING, last_before
from millpond.windows.registered import axis_of


def invoke(core: Core, standing: Standing, as_of: AsOf = None) -> pa.Table:
    """One row per group for the window of the query that ends at NOW: window_start, window_end, select list, final.

    On a stream with a retention also `covered_from`, as answers have it.

    Arguments:
        as_of: None: NOW is the largest event time admitted, and the window is closed at both ends. 'watermark': NOW is
            the watermark, which no answer can go beyond, and the window is open at its end. ('timestamp', t):
            NOW is t, with all that is known today. ('epoch', n): as it was known when epoch n was published.

    A window of the last n rows ends with the last row up to NOW, of each partition.
    """
    definition = standing.definition
    query = definition.query
    if isinstance(query, RelationalQuery):
        return invoke_relation(core, standing, as_of)
    stream = core.catalog.stream_of(standing)
    published, spec = core.published, core.catalog.synopses[standing.synopsis].spec
    progress = replace(progress_of(core.catalog, spec, published.progress), high=_now(spec, published.progress))
    epoch: int | None = published.epoch
    now, closed = progress.high, True
    if as_of == "watermark":
        now, closed = (progress.high, True) if progress.bound >= FOREVER else (progress.bound, False)
    elif as_of is not None:
        kind, value = as_of
        if kind == "timestamp":
            now = value
        else:
            if value > core.published.epoch or not (value == 0 or os.path.exists(published_path(core.path, value))):
                raise QueryError(f"epoch {value} is not kept; the last one is {core.published.epoch}")
            then = read_published(core.path, value).progress if value else {}
            now, epoch = _now(spec, then), value
    scan = scan_for(query, now, standing.first_epoch)
    final = progress.bound > now or as_of == "watermark"
    asked = _Asked(core, standing, stream, now, closed, epoch, final)
    if now <= NEVER:
        return asked.nothing(scan)
    return answered(core, stream, query, scan, asked.answer)


@dataclass(frozen=True)
class _Asked:
    """An invocation of a query over windows.

    now, closed: where its window ends, and whether it holds its end. epoch: rows of later ones are not seen.
    final: whether no further row can change the answer.
    """

    core: Core
    standing: Standing
    stream: StreamDefinition
    now: int
    closed: bool
    epoch: int | None
    final: bool

    def nothing(self, scan: Scan) -> pa.Table:
        """The answer without rows."""
        query = self.standing.windowed
        columns = [
            Column("window_start", "TIMESTAMP"),
            Column("window_end", "TIMESTAMP"),
            *(Column(o.name, o.type) for o in query.select),
            Column("final", "BOOLEAN"),
            *((COVERAGE,) if is_retained(self.core.catalog, query) else ()),
            *((Column(EXACT, "BOOLEAN"),) if scan.reduced else ()),
        ]
        return empty_answers(connection(), columns)

    def answer(self, scan: Scan) -> pa.Table:
        """The answer, read by a scan."""
        core, now = self.core, self.now
        known = core.published.lookups.get(self.standing.synopsis, ())
        query = seen_by(core.tables, core.catalog, core.now(), self.standing.windowed, known)
        before = now + 1 if self.closed else now
        if isinstance(query, SessionQuery):
            return self.sessions(query, before, scan)
        number = ""
        if isinstance(query, RowWindowQuery) and isinstance(query.window, CountWindow):
            last = Asked(self.stream, query, Range(None, before, self.epoch))
            found, removed = last_windows(self.core, last, scan)
            ends, number = "window_start, window_end", ", window_number"
        else:
            # A window that ends with a row is open at its start.
            opened = isinstance(query, RowWindowQuery)
            start = _start_of(query.window, now, before)
            if start >= before:  # no landmark has come yet
                return self.nothing(scan)
            begin = None if start <= BEGINNING else start + opened
            streams = streams_read(self.core, query, self.stream)
            check_reach(self.core, streams, begin, before - 1, scan.reduced, files=True)
            wanted = Range(start + opened, before, self.epoch)
            bounded = Asked(self.stream, _bounded(query, start, now, before), wanted, strict=False)
            found, removed = whole(self.core, bounded, scan)
            ends = f"{_moment(start)} AS window_start, make_timestamp({now}) AS window_end"
        if found is None or not found.num_rows:
            return self.nothing(scan)
        shown = ", ".join(quote(o.name) for o in query.select)
        sql = f"SELECT {ends}{number}, {shown}, {str(self.final).lower()} AS final FROM a"
        table = query_table(connection(), sql, a=found)
        if is_retained(self.core.catalog, query):
            table = with_coverage(table, removed, query.window)
        table = told_by(table, query, scan, self.closed)
        return table.drop_columns([NUMBER.name]) if number else table

    def sessions(self, query: SessionQuery, before: int, scan: Scan) -> pa.Table:
        """The sessions that a row at NOW would be in, made of the rows before an instant."""
        found, removed = open_sessions(self.core, Asked(self.stream, query, Range(None, before, self.epoch)), scan)
        if found is not None:
            ends = found["window_end"].cast(pa.timestamp("us")).cast(pa.int64())
            found = found.filter(pc.greater_equal(ends, self.now))
        if found is None or not found.num_rows:
            return self.nothing(scan)
        shown = ", ".join(quote(o.name) for o in query.select)
        sql = f"SELECT window_start, window_end, {shown}, {str(self.final).lower()} AS final FROM a"
        table = query_table(connection(), sql, a=found)
        if is_retained(self.core.catalog, query):
            table = with_coverage(table, removed, query.window)
        return table


def _now(spec: Spec, progress: dict[str, StreamProgress]) -> int:
    return latest([progress.get(str(s), StreamProgress()) for s in spec.streams])


def _start_of(window: Window | RowWindow, now: int, until: int) -> int:
    """Where the window begins that reaches up to `until`, exclusive."""
    match window:
        case SpanWindow() | TimeWindow():
            return now - window.range
        case KindWindow():  # of the windows that hold NOW, the one that ends first
            axis = axis_of(window.kind)
            held = axis.held((until - 1) // axis.grid * axis.grid)
            return axis.start_of(held.start) if len(held) else until
        case CalendarWindow():
            return back_from(window, now, until)
        case LandmarkWindow():
            since = [int(last_before(mark, np.array([until]))[0]) for mark in window.landmarks]
            return min(since + ([now - window.range] if window.range else []))
        case CountWindow():
            raise TypeError("how far back so many rows lie is not a matter of time")
        case _:
            assert_never(window)


def _moment(time: int) -> str:
    """DuckDB SQL of an instant; NULL for the start of the stream."""
    return "NULL::TIMESTAMP" if time <= BEGINNING else f"make_timestamp({time})"


def _narrowed(aggregate: Aggregate, query: WindowedQuery, end: int, until: int) -> Aggregate:
    """An aggregate with a window of its own, as one over the query's window with a filter."""
    if not isinstance(query, WindowQuery) or (aggregate.range is None and aggregate.since is None):
        return aggregate
    start = _start_of(window_behind(query, aggregate), end, until)
    inside = f"epoch_us({quote(query.window.attribute)}) >= {start}"
    given = [] if aggregate.filter is None else [aggregate.filter]
    both = composed(f"({aggregate.filter}) AND {inside}" if given else inside, given, [query.window.attribute])
    return replace(aggregate, range=None, since=None, filter=both)


def _bounded(query: WindowedQuery, start: int, end: int, until: int) -> WindowedQuery:
    """The query with window_start and window_end standing for the invoked window, which holds rows before `until`."""
    ends = f"(SELECT {_moment(start)} AS window_start, make_timestamp({end}) AS window_end)"

    def put(value: Expression) -> Expression:
        if not {"window_start", "window_end"}.intersection(value.columns):
            return value
        return value.within("(SELECT ", f" FROM {ends})")

    return replace(
        query,
        aggregates=tuple(_narrowed(a, query, end, until) for a in query.aggregates),
        select=tuple(replace(o, expression=put(o.expression)) for o in query.select),
        having=put(query.having) if query.having else None,
        order_by=tuple(replace(t, expression=put(t.expression)) for t in query.order_by),
    )
