"""Ad hoc SELECTs over a stream: archive and live data up to now, as one job of map tasks over the archive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, assert_never

import numpy as np
import pyarrow as pa

from millpond.answers.archive_jobs import ANSWER_ROWS, Asked, Ends, grouped, plain_rows, streams_read
from millpond.answers.fidelity import answered, scan_for, told_by
from millpond.answers.row_queries.moments import now_of
from millpond.archive.design.exactness import on_intervals
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scans import Scan
from millpond.archive.retention import floors_of, is_retained, retained_from
from millpond.catalog.unions import Union, progress_of
from millpond.engine.pond_view import PondView
from millpond.language.plan.event_time_bounds import event_times
from millpond.operators.windowed.coverage import with_coverage
from millpond.operators.windowed.evaluation import no_panes
from millpond.progress import FOREVER, NEVER, StreamProgress, now
from millpond.support.sql import quote
from millpond.synopses import PanesSpec, connection, finish_windows, query_ordered
from millpond.synopses.finish import empty_answers, fold_pairs, unnamed
from millpond.synopses.pane_partials import over_all_time, panes_spec
from millpond.types import (
    Aggregation,
    Column,
    GroupScan,
    RowScan,
    RowWindowQuery,
    ScanQuery,
    SessionQuery,
    StreamDefinition,
    StreamQuery,
    WindowedQuery,
    WindowQuery,
)


def select_stream(pond: PondView, query: WindowedQuery | ScanQuery) -> pa.Table:
    """The answer of an ad hoc query over one stream.

    With a window: one row per group and window that ends until now (the high watermark, or progress if that is
    further). Without: groups over all rows that are retained, or the rows themselves in the stream's total order.

    With REDUCE the answer is made of part of the rows, and says so; its schema's metadata have what was read
    (`archive.planning.scans.description`).
    """
    stream = pond.catalog.stream(query.stream)
    assert stream is not None
    published = pond.published
    progress = published.progress.get(str(stream.id), StreamProgress())
    if query.feeds:
        progress = progress_of(pond.catalog, Union(stream.id, query.feeds), published.progress)
        states = [published.progress.get(str(f.stream), StreamProgress()) for f in query.feeds]
        progress = replace(progress, high=now(states))
    make: Callable[[Scan], pa.Table]
    match query:
        case GroupScan() | RowScan():
            make = partial(_retained, pond, stream, query)
        case WindowQuery() | RowWindowQuery() | SessionQuery():
            make = partial(_windows, pond, stream, query, progress)
        case _:
            assert_never(query)
    return answered(pond.streams[stream.id].archive, query, scan_for(query, progress.high), make)


def _retained(pond: PondView, stream: StreamDefinition, query: ScanQuery, scan: Scan) -> pa.Table:
    """Groups over all rows that are retained, or the rows themselves."""
    # As row queries see it: whether upkeep has removed the files yet makes no difference.
    published = pond.published
    streams = streams_read(pond.catalog, query, stream)
    latest = now_of(published, [streams]) if query.feeds else None
    # The streams of a union have event times of their own.
    first, beyond = (None, None) if query.feeds else event_times(query.where, stream.options.time)
    highs = [each for each in (None if latest is None else latest + 1, beyond) if each is not None]
    wanted = Range(epoch=published.epoch, low=first, high=min(highs, default=None))
    lows = [max(retained_from(s, published), NEVER if first is None else first) for s in streams]
    if scan.reduced:  # copies may be kept for longer than the rows: each is seen as long as its own retention says
        ranges = [wanted] * len(streams)
        scan.floors = {s.id: floors_of(s, low) for s, low in zip(streams, lows, strict=True)}
    else:
        ranges = [replace(wanted, low=low if low > NEVER else None) for low in lows]
    if query.of_groups:
        return told_by(whole(pond, Asked(stream, query, ranges), scan)[0], query, scan)
    return plain_rows(pond.archives, Asked(stream, query, ranges), scan)


def _windows(
    pond: PondView, stream: StreamDefinition, query: WindowedQuery, progress: StreamProgress, scan: Scan
) -> pa.Table:
    """One row per group and window that ends until now."""
    until = max(progress.bound, progress.high + query.ends_now)
    wanted = Range(epoch=pond.published.epoch)
    answers, removed = grouped(pond, Asked(stream, in_order(query), wanted), Ends(until, high=progress.high), scan)
    columns = [*query.time_columns, *(Column(o.name, o.type) for o in query.select)]
    found = shown(query, answers, columns)
    found = with_coverage(found, removed, query.window) if is_retained(pond.catalog, query) else found
    if query.reduce is not None and query.reduce.function == "interval":
        return on_intervals(found, query.reduce.spans[0])
    return told_by(found, query, scan, moved=True)


def each_window(
    pond: PondView, asked: Asked[WindowedQuery], last: bool, scan: Scan
) -> tuple[pa.Table | None, int | None]:
    """As `grouped`: all windows of the rows in the range, those that are not over included.

    Args:
        last: of windows that end with rows, of every partition the one that ends with its last row.
    """
    every = Asked(asked.stream, in_order(asked.query), asked.wanted, strict=False)
    return grouped(pond, every, Ends(FOREVER, last=last), scan)


def whole(pond: PondView, asked: Asked[Aggregation], scan: Scan) -> tuple[pa.Table, int | None]:
    """Groups over all rows of a range at once: a window that holds all of time.

    Args:
        scan: what it decides and reads is written into it.
    Returns: the answer, and the event time below which retention had removed rows (None: it had not).
    """
    stream, query = asked.stream, asked.query
    everything = in_order(unnamed(over_all_time(query, stream.options.time)))
    asked_whole = Asked(stream, everything, asked.wanted, asked.strict)
    answers, removed = grouped(pond, asked_whole, Ends(FOREVER), scan)
    if answers is None and not query.keys:
        answers = _empty_group(everything, panes_spec(everything, stream), stream)
    found = shown(query, answers, [Column(o.name, o.type) for o in everything.select])
    return found.rename_columns([o.name for o in query.select]), removed


Q = TypeVar("Q", bound=StreamQuery)


def in_order(query: Q) -> Q:
    """A query with ORDER BY is finished in one place, which numbers its rows."""
    return replace(query, limit=ANSWER_ROWS) if query.order_by and query.limit is None else query


def shown(query: StreamQuery, answers: pa.Table | None, columns: Sequence[Column]) -> pa.Table:
    """The columns of an answer that are shown, in order."""
    if answers is None:
        return empty_answers(connection(), columns)
    names = [quote(c.name) for c in columns]
    order = "" if query.order_by else f" ORDER BY {', '.join(names)}"
    return query_ordered(connection(), f"SELECT {', '.join(names)} FROM a{order}", a=answers)


def _empty_group(query: WindowQuery, spec: PanesSpec, stream: StreamDefinition) -> pa.Table | None:
    """SQL's answer of an ungrouped aggregate over no rows: one row."""
    db = connection()
    pairs = (np.zeros(1, np.int64), np.ones(1, np.int64))
    folded = fold_pairs(db, spec, query, no_panes(), np.empty(0, np.int64), pairs, empty=True)
    answers = finish_windows(db, query, stream.options.time, folded)
    return answers if answers.num_rows else None


__all__ = ["each_window", "in_order", "select_stream", "shown", "whole"]
