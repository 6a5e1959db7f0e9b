"""Unions of streams as the input of one synopsis: their rows under one set of names, their progress melded.

A union is a bag: every row of every stream counts. The panes of the synopsis are fed by all streams alike, so that what
is kept, revised, back-filled and replayed is what it is for one stream. Order between rows of equal event time: that of
the streams in the union, then of their intake.

Late rows revise. Where a stream says late='drop', the rows that are late in it do not enter the union.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Catalog
from millpond.progress import StreamProgress, meld
from millpond.types import PLACE, WEIGHT, Feed, StreamDefinition


class Fed(Protocol):
    """What takes the rows of a stream or of a union: a synopsis (`PanesSpec`), a store of a relation (`Rows`)."""

    @property
    def stream(self) -> int:
        """The stream by whose names it knows its columns."""

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The streams of a union; empty for one stream."""

    @property
    def streams(self) -> tuple[int, ...]:
        """The ids of all streams."""

    @property
    def narrowed(self) -> tuple[tuple[str, str], ...]:
        """(quoted name, type) of columns that it takes with the type that they had before they were widened."""


@dataclass(frozen=True)
class Union:
    """A union, or one stream where there are no feeds, that nothing is kept for (see `Fed`)."""

    stream: int
    feeds: tuple[Feed, ...] = ()
    narrowed: tuple[tuple[str, str], ...] = ()

    @property
    def streams(self) -> tuple[int, ...]:
        """See `Fed`."""
        return tuple(f.stream for f in self.feeds) or (self.stream,)


def streams_of(catalog: Catalog, spec: Fed) -> list[StreamDefinition]:
    """The streams that feed a synopsis, in the order of the union."""
    return [catalog.streams[s] for s in spec.streams]


def union_key(streams: Sequence[int]) -> str:
    """What the progress of a union is recorded under, beside that of streams, which goes by their ids.

    >>> union_key([3, 1])
    '3+1'
    """
    return "+".join(map(str, streams))


def unions_in(catalog: Catalog) -> dict[str, Fed]:
    """The unions that standing queries read, by `union_key`."""
    fed: list[Fed] = [s.spec for s in catalog.synopses.values()]
    fed += [s.spec for s in catalog.stores.values()]
    return {union_key(spec.streams): spec for spec in fed if spec.feeds}


def progress_of(catalog: Catalog, spec: Fed, progress: Mapping[str, StreamProgress]) -> StreamProgress:
    """The progress of what feeds a synopsis: of its stream, or melded of those of a union.

    What was announced of a union stays announced when a stream that was idle speaks again.
    """
    states = [progress.get(str(s), StreamProgress()) for s in spec.streams]
    if not spec.feeds:
        return states[0]
    by = [s.options.marked_by for s in streams_of(catalog, spec)]
    places = {tuple(map(f.columns.index, b)) for f, b in zip(spec.feeds, by, strict=True) if b}
    # Groups are those of the first stream's columns; others may only say of the same ones.
    melded = meld(states, groups=bool(by[0]) and len(places) == 1)
    known = progress.get(union_key(spec.streams))
    if known is None or known.bound <= melded.bound:
        return melded
    return replace(melded, bound=known.bound, groups={g: b for g, b in melded.groups.items() if b > known.bound})


def with_unions(
    catalog: Catalog, streams: Mapping[str, StreamProgress], before: Mapping[str, StreamProgress]
) -> dict[str, StreamProgress]:
    """Progress of streams with that of the unions that standing queries read.

    Arguments:
        streams: progress of the streams now. before: that of everything as it was recorded last.
    """
    found = dict(streams)
    for key, spec in unions_in(catalog).items():
        known = {key: before[key]} if key in before else {}
        state = progress_of(catalog, spec, {**streams, **known})
        found[key] = StreamProgress(state.bound, state.high, ended=state.ended)
    return found


def late_of(catalog: Catalog, spec: Fed) -> str:
    """What late rows do to the queries of a synopsis: 'revise' or 'drop'."""
    return "revise" if spec.feeds else catalog.streams[spec.stream].options.late


def entering(rows: pa.Table, spec: Fed, stream: int, schema: pa.Schema) -> pa.Table:
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


def own_names(spec: Fed, stream: StreamDefinition, columns: Sequence[str]) -> Sequence[str]:
    """What columns, named as in the union's first stream, are called in one of its streams."""
    if not spec.feeds:
        return columns
    feed = next(f for f in spec.feeds if f.stream == stream.id)
    return [b for a, b in zip(spec.feeds[0].columns, feed.columns, strict=True) if a in columns]
