"""Windows over windows, asked once: answers of the inner windows are rows in memory, which the outer ones are over."""

from __future__ import annotations

import pyarrow as pa

from millpond.answers.adhoc import in_order, select_stream, shown
from millpond.archive.archive_files import row_schema
from millpond.catalog.unions import Union, progress_of
from millpond.engine.core import Core
from millpond.language.rewrite.unnamed_streams import stream_of
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.registry import windows_over
from millpond.operators.windowed.closing import Closing
from millpond.progress import StreamProgress, now
from millpond.support.sql import quote
from millpond.synopses import connection, partial, query_ordered, spec_of
from millpond.types import Column, QueryOptions, Staged, StreamDefinition, WindowedQuery

#: The rows of a stream in memory, and until when all of them are there (microseconds).
Rows = tuple[StreamDefinition, pa.Table, int]


def select_nested(core: Core, staged: Staged) -> pa.Table:
    """The answer of windows over windows: those that end until now, as a standing query would give them."""
    known: dict[str, Rows] = {}
    for each in staged.inner:
        assert not each.query.of_instants
        answers, until = _answers(core, each.query, known)
        stream = stream_of(each)
        known[each.name] = stream, _as_rows(stream, answers), until
    assert not staged.query.of_instants
    return _answers(core, staged.query, known)[0]


def _answers(core: Core, query: WindowedQuery, known: dict[str, Rows]) -> tuple[pa.Table, int]:
    """The answers of windows over a stream that is kept, or over rows in memory; and until when windows have ended."""
    if query.stream in known:
        stream, rows, until = known[query.stream]
        return _folded(query, stream, rows, until), until
    kept = core.catalog.stream(query.stream)
    assert kept is not None
    progress, streams = core.published.progress, [f.stream for f in query.feeds] or [kept.id]
    high = now([progress.get(str(s), StreamProgress()) for s in streams])
    bound = progress_of(core.catalog, Union(kept.id, query.feeds), progress).bound
    return select_stream(core, query), max(bound, high + query.holds_end)


def _folded(query: WindowedQuery, stream: StreamDefinition, rows: pa.Table, until: int) -> pa.Table:
    db, query = connection(), in_order(query)
    spec = spec_of(query, stream)
    kind = windows_over(spec)
    start = QueryProgress(own=kind.progress_kind())
    closing = Closing(query, QueryOptions(since="start"), "drop", start, until, until, until)
    parts = [part for part in [partial(db, spec, rows)] if part.num_rows]
    answers = kind.close_past(db, spec, parts, closing).answers if parts else None
    return shown(query, answers, [*query.time_columns, *(Column(o.name, o.type) for o in query.select)])


def _as_rows(stream: StreamDefinition, answers: pa.Table) -> pa.Table:
    """Answers as rows of the stream that they are, none of which is ever taken back."""
    columns = [
        "'+' AS op" if stream.takes_back and c.name == "op" else f"{quote(c.name)}::{c.type} AS {quote(c.name)}"
        for c in stream.all_columns
    ]
    sql = f"SELECT {', '.join(columns)}, row_number() OVER () - 1 AS _id FROM a"
    rows, schema = query_ordered(connection(), sql, a=answers), row_schema(stream)
    return rows.cast(pa.schema([schema.field(f.name) if f.name in schema.names else f for f in rows.schema]))


__all__ = ["select_nested"]
