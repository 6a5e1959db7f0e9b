"""Unions of streams as the input of one synopsis: their rows under one set of names, their progress melded.

A union is a bag: every row of every stream counts. The panes of the synopsis are fed by all streams alike, so that what
is kept, revised, back-filled and replayed is what it is for one stream. Order between rows of equal event time: that of
the streams in the union, then of their intake.

Late rows revise. Where a stream says late='drop', the rows that are late in it do not enter the union.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Catalog
from millpond.engine.retention import is_cut
from millpond.progress import StreamProgress, meld
from millpond.synopses import PanesSpec
from millpond.types import WEIGHT, BoundQuery, Feed, StreamDefinition

#: Bits of a row's id that say its place in its stream; the place of the stream in the union stands above.
PLACE = 58


def streams_of(catalog: Catalog, spec: PanesSpec) -> list[StreamDefinition]:
    """The streams that feed a synopsis, in the order of the union."""
    return [catalog.streams[s] for s in spec.streams]


def progress_of(catalog: Catalog, spec: PanesSpec, progress: Mapping[str, StreamProgress]) -> StreamProgress:
    """The progress of what feeds a synopsis: of its stream, or melded of those of a union."""
    states = [progress.get(str(s), StreamProgress()) for s in spec.streams]
    if not spec.feeds:
        return states[0]
    by = [s.options.marks_by for s in streams_of(catalog, spec)]
    places = {f.columns.index(b) for f, b in zip(spec.feeds, by, strict=True) if b is not None}
    # Groups are those of the first stream's column; others may only say of the same one.
    return meld(states, groups=by[0] is not None and len(places) == 1)


def late_of(catalog: Catalog, spec: PanesSpec) -> str:
    """What late rows do to the queries of a synopsis: 'revise' or 'drop'."""
    return "revise" if spec.feeds else catalog.streams[spec.stream].options.late


def entering(rows: pa.Table, spec: PanesSpec, stream: int, schema: pa.Schema) -> pa.Table:
    """Rows of one of the streams as the synopsis takes them.

    Arguments:
        schema: of the rows of the union's first stream (see `row_schema`).
    """
    if not spec.feeds:
        return rows
    place = spec.streams.index(stream)
    feed = spec.feeds[place]
    if feed.on_time:
        rows = rows.filter(pc.is_null(rows["_bound"]))
    columns, fields = [], []
    narrowed = dict(spec.narrowed)  # these the synopsis casts itself, row by row
    # The first stream may have got further columns since.
    names = (*spec.feeds[0].columns, "_id", "_epoch", "_bound")
    for ours, theirs in zip(names, (*feed.columns, "_id", "_epoch", "_bound"), strict=True):
        if theirs not in rows.column_names:
            continue
        field = schema.field(ours)
        column = rows[theirs]
        if theirs == "_id":
            column = pc.add(column, pa.scalar(place << PLACE, pa.int64()))
        if column.type != field.type and f'"{ours}"' not in narrowed:
            column = column.cast(field.type)
        columns.append(column)
        fields.append(field.with_type(column.type))
    if WEIGHT in rows.column_names:
        columns.append(rows[WEIGHT])
        fields.append(pa.field(WEIGHT, pa.float64()))
    return pa.table(columns, schema=pa.schema(fields))


def read_columns(spec: PanesSpec, stream: StreamDefinition, first: StreamDefinition) -> Sequence[str]:
    """The columns of a stream of the union that a synopsis reads."""
    if not spec.feeds:
        return spec.columns_of(stream)
    wanted, feed = set(spec.columns_of(first)), _feed(spec, stream.id)
    return [b for a, b in zip(spec.feeds[0].columns, feed.columns, strict=True) if a in wanted]


def _feed(spec: PanesSpec, stream: int) -> Feed:
    return next(f for f in spec.feeds if f.stream == stream)


def is_retained(catalog: Catalog, query: BoundQuery) -> bool:
    """Whether a stream that a query reads has a retention, so that windows can be cut by it."""
    names = [f.name for f in query.feeds] or [query.stream]
    return any((s := catalog.stream(n)) is not None and is_cut(s) for n in names)
