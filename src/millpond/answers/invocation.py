"""INVOKE: the answer of a standing query for the window that ends now, exact to the row, open panes included."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.adhoc import each_window, whole
from millpond.answers.archive_jobs import Asked, streams_read
from millpond.answers.expired_history import check_reach
from millpond.answers.fidelity import answered, scan_for, told_by
from millpond.answers.relation_answers import invoke_relation
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scans import Scan
from millpond.archive.retention import is_retained
from millpond.catalog import Standing
from millpond.catalog.unions import progress_of
from millpond.engine.pond_view import PondView
from millpond.manifests.records import published_path, read_published
from millpond.operators.registry import windows_over
from millpond.operators.windowed.coverage import COVERAGE, with_coverage
from millpond.operators.windowed.lookup_versions import seen_by
from millpond.operators.windowed.past_windows import EachWindow, OneWindow
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.progress import now as latest
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, query_table
from millpond.synopses.finish import empty_answers
from millpond.synopses.last_window import moment_sql
from millpond.synopses.partials.dispatch import Spec
from millpond.types import (
    EXACT,
    NUMBER,
    Column,
    StreamDefinition,
)
from millpond.types.as_of import AsOf
from millpond.windows.landmark_windows import BEGINNING


def invoke(pond: PondView, standing: Standing, as_of: AsOf = None) -> pa.Table:
    """One row per group for the window of the query that ends at NOW: window_start, window_end, select list, final.

    On a stream with a retention also `covered_from`, as answers have it.

    Arguments:
        as_of: None: NOW is the largest event time admitted, and the window is closed at both ends. 'watermark': NOW is
            the watermark, which no answer can go beyond, and the window is open at its end. ('timestamp', t):
            NOW is t, with all that is known today. ('epoch', n): as it was known when epoch n was published.

    A window of the last n rows ends with the last row up to NOW, of each partition.
    """
    if standing.definition.query.of_instants:
        return invoke_relation(pond, standing, as_of)
    query = standing.windowed
    stream = pond.catalog.stream_of(standing)
    published, spec = pond.published, pond.catalog.synopses[standing.synopsis].spec
    progress = replace(progress_of(pond.catalog, spec, published.progress), high=_now(spec, published.progress))
    epoch: int | None = published.epoch
    now, closed = progress.high, True
    if as_of == "watermark":
        now, closed = (progress.high, True) if progress.bound >= FOREVER else (progress.bound, False)
    elif as_of is not None:
        kind, value = as_of
        if kind == "timestamp":
            now = value
        else:
            if value > pond.published.epoch or not (value == 0 or os.path.exists(published_path(pond.path, value))):
                raise QueryError(f"epoch {value} is not kept; the last one is {pond.published.epoch}")
            then = read_published(pond.path, value).progress if value else {}
            now, epoch = _now(spec, then), value
    scan = scan_for(query, now, standing.first_epoch)
    final = progress.bound > now or as_of == "watermark"
    asked = _Asked(pond, standing, stream, now, closed, epoch, final)
    if now <= NEVER:
        return asked.nothing(scan)
    return answered(pond.streams[stream.id].archive, query, scan, asked.answer)


@dataclass(frozen=True)
class _Asked:
    """An invocation of a query over windows.

    now, closed: where its window ends, and whether it holds its end. epoch: rows of later ones are not seen.
    final: whether no further row can change the answer.
    """

    pond: PondView
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
            *((COVERAGE,) if is_retained(self.pond.catalog, query) else ()),
            *((Column(EXACT, "BOOLEAN"),) if scan.reduced else ()),
        ]
        return empty_answers(connection(), columns)

    def answer(self, scan: Scan) -> pa.Table:
        """The answer, read by a scan."""
        pond, now = self.pond, self.now
        known = pond.published.lookups.get(self.standing.synopsis, ())
        query = seen_by(pond.tables, pond.catalog, pond.now(), self.standing.windowed, known)
        before = now + 1 if self.closed else now
        spec = pond.catalog.synopses[self.standing.synopsis].spec
        streams = streams_read(pond.catalog, query, self.stream)
        match windows_over(spec).window_at(query, now, before):
            case None:
                return self.nothing(scan)
            case EachWindow(last, since):
                check_reach(pond.archives, streams, None, before - 1, scan.reduced)
                every = Asked(self.stream, query, Range(None, before, self.epoch))
                found, removed = each_window(pond, every, last, scan)
                if found is not None and since > NEVER:
                    ends = found[query.end_column].cast(pa.timestamp("us")).cast(pa.int64())
                    found = found.filter(pc.greater_equal(ends, since))
                ends_sql = ", ".join(c.name for c in query.time_columns)
            case OneWindow(start, low, over):
                begin = None if start <= BEGINNING else low
                check_reach(pond.archives, streams, begin, before - 1, scan.reduced)
                asked = Asked(self.stream, over, Range(low, before, self.epoch), strict=False)
                found, removed = whole(pond, asked, scan)
                ends_sql = f"{moment_sql(start)} AS window_start, make_timestamp({now}) AS window_end"
        if found is None or not found.num_rows:
            return self.nothing(scan)
        shown = ", ".join(quote(o.name) for o in query.select)
        sql = f"SELECT {ends_sql}, {shown}, {str(self.final).lower()} AS final FROM a"
        table = query_table(connection(), sql, a=found)
        if is_retained(pond.catalog, query):
            table = with_coverage(table, removed, query.window)
        table = told_by(table, query, scan, self.closed)
        return table.drop_columns([NUMBER.name]) if NUMBER.name in table.column_names else table


def _now(spec: Spec, progress: dict[str, StreamProgress]) -> int:
    return latest([progress.get(str(s), StreamProgress()) for s in spec.streams])
