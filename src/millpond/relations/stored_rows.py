"""Stores: the rows of a stream that relational queries need, kept in one shard and shared between queries.

A store (a shared synopsis in the sense of Babu 2005, 2.4) holds rows that pass a filter, with the columns that its
users need and what gives each row its place: `_t` event time, `_id`, `_epoch` in which it came, `_cut` the progress
that a late row was behind (NULL: it was on time).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.relations.spans import FOR_EVER, left_of, spans_of
from millpond.support.distinct import is_among
from millpond.synopses import query_table
from millpond.synopses.blocks import event_times
from millpond.synopses.partials.specs import as_declared, casts_of, weighed
from millpond.types import (
    HOLDS,
    WEIGHT,
    Expression,
    Feed,
    QueryOptions,
    Reduction,
    Relational,
    RelationInput,
    StreamDefinition,
    columns_read,
    to_json,
)

Mask = npt.NDArray[np.bool_]

#: However far behind progress, that of a stream that has ended included (microseconds).
UNLIMITED = FOR_EVER + FOR_EVER // 2

#: Columns of a store beside those of its stream.
OWN = ("_t", "_id", "_epoch", "_cut")


@dataclass(frozen=True)
class Rows:
    """What a store keeps: the definition of the rows.

    stream: id of the stream; time: its event-time column; where, columns, checks, mark: as of `RelationInput`; casts:
    (quoted name, type) of columns that must be cast to what they were declared. reduce: how much of the past was left
    out. narrowed: (quoted name, type) of columns that were widened since; rows are taken with this type, or fail.
    feeds: the streams of a union, of which `stream` is the first; empty: there is only `stream`.
    """

    stream: int
    time: str
    columns: tuple[str, ...]
    where: Expression | None = None
    checks: tuple[Expression, ...] = ()
    casts: tuple[tuple[str, str], ...] = ()
    reduce: Reduction | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    feeds: tuple[Feed, ...] = ()
    mark: Expression | None = None

    @property
    def condition(self) -> Expression | None:
        """What is asked of each row: `where`, or `mark`."""
        return self.where if self.mark is None else self.mark

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it keeps or asks about."""
        return columns_read(self.where, self.mark, *self.checks).union(self.columns)

    @property
    def streams(self) -> tuple[int, ...]:
        """The ids of the streams whose rows it takes."""
        return tuple(f.stream for f in self.feeds) or (self.stream,)

    @property
    def key(self) -> str:
        """A text that is equal for equal definitions."""
        more = [] if self.reduce is None else [to_json(self.reduce)]
        more += [[astuple(f) for f in self.feeds]] if self.feeds else []
        more += [] if self.mark is None else [{"mark": self.mark.sql}]
        asked = None if self.where is None else self.where.sql, [each.sql for each in self.checks]
        text = json.dumps([self.stream, self.time, *asked, self.columns, *more])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def serves(self, wanted: Rows) -> bool:
        """Whether it keeps every row and column of `wanted`, and no other rows."""
        if self.reduce is not None or wanted.reduce is not None:  # other samples, other rows
            return self is wanted
        mine, theirs = ((s.stream, s.where, s.checks, s.narrowed, s.feeds, s.mark) for s in (self, wanted))
        return mine == theirs and set(wanted.columns) <= set(self.columns)

    def with_columns(self, wanted: Rows) -> Rows:
        """The same rows with the columns of both."""
        columns = (*self.columns, *(c for c in wanted.columns if c not in self.columns))
        casts = tuple((dict(self.casts) | dict(wanted.casts)).items())
        return replace(self, columns=columns, casts=casts)


def rows_needed(item: RelationInput, stream: StreamDefinition) -> Rows:
    """The rows that an input needs."""
    casts = casts_of(stream) if item.where or item.checks or item.mark else ()
    names = tuple(c.name for c in item.columns)
    return Rows(
        stream.id, stream.options.time, names, item.where, item.checks, casts, item.reduce, item.narrowed, item.feeds,
        item.mark,
    )  # fmt: skip


def rows_of(db: duckdb.DuckDBPyConnection, spec: Rows, segment: pa.Table) -> pa.Table:
    """The rows of a segment that a store keeps.

    Arguments:
        segment: rows of the stream with `_id`, `_epoch` and `_bound`.
    """
    for name, kind in spec.narrowed:
        plain = name[1:-1].replace('""', '"')
        if plain in segment.column_names:
            known = query_table(db, f"SELECT CAST({name} AS {kind}) AS c FROM rows", rows=segment.select([plain]))["c"]
            segment = segment.set_column(segment.column_names.index(plain), plain, known)
    segment = weighed(segment) if WEIGHT in spec.columns else segment
    own = [segment["_id"], segment["_epoch"], segment["_bound"]]
    times = pa.array(event_times(segment, spec.time))
    found = pa.table([times, *own], names=list(OWN))
    holds = None
    if spec.where is not None or spec.checks or spec.mark is not None:
        tests = segment.drop_columns([n for n in ("_id", "_epoch", "_bound") if n in segment.column_names])
        tests = tests.append_column("_row", pa.array(np.arange(segment.num_rows)))
        source = as_declared("tests", spec.casts, tests.column_names)
        where = f" WHERE ({spec.where})" if spec.where is not None else ""
        checked = "".join(f", ({sql}) AS _c{n}" for n, sql in enumerate(spec.checks))
        checked += "" if spec.mark is None else f", coalesce(({spec.mark}), false) AS _m"
        passed = query_table(db, f"SELECT _row{checked} FROM {source}{where}", tests=tests)
        rows, order = passed["_row"], np.argsort(passed["_row"].to_numpy())
        holds = None if spec.mark is None else passed["_m"].take(pa.array(order))
        rows = rows.take(pa.array(order))
        found, segment = found.take(rows), segment.take(rows)
    for name in spec.columns:
        found = found.append_column(name, holds if holds is not None and name == HOLDS else segment[name])
    return found


def sight_of(relation: Relational, options: QueryOptions) -> int:
    """How far behind progress a late row is seen at its own time (microseconds): however far, but where answers leave
    out rows that are later than `revise_for`."""
    return relation.revised_for(options) if options.limited else UNLIMITED


def kept(
    db: duckdb.DuckDBPyConnection,
    relation: Relational,
    item: RelationInput,
    rows: pa.Table,
    spare: int,
    horizon: int,
    since: int | None = None,
    whole: bool = True,
) -> Mask:
    """Which rows of a store an input can still need, when only instants from `horizon` on will be looked at again.

    A row that was pushed out of a window before that never comes back, whatever late rows follow; and of rows that
    never leave, ISTREAM of a plain selection needs none that it has reported. A row that leaves in the instant in which
    it came is in the window at no instant, but it is kept until the horizon has passed: it was in the window before the
    one came that pushed it out, and what that changes can only be told from what was there; and if that one is taken
    back, it is in the window again.

    Arguments:
        since: rows of epochs from there on have not been answered yet: of those that take others back, both are needed.
        whole: these are all rows of the store. Among some of them it is not known which one a row takes back: that may
            be an older one elsewhere. So each is needed, as long as its time is.
    """
    held = rows
    if item.signed and not whole and item.window.pushes:
        return np.ones(rows.num_rows, bool)
    if item.signed and whole and rows.num_rows:
        held = left_of(db, rows.sort_by([("_t", "ascending"), ("_id", "ascending")]), spare, since)
    held, begin, end = spans_of(db, replace(item, signed=False), held, spare)
    needed = end >= horizon
    if relation.forgets and not item.window.leaves:
        needed &= begin >= horizon
    mask: Mask = is_among(rows["_id"].to_numpy(), held["_id"].to_numpy()[needed])
    if item.signed and since is not None:
        mask |= rows["_epoch"].to_numpy() >= since
    return mask


def merge_rows(parts: Sequence[pa.Table]) -> pa.Table:
    """Rows of a store from several parts, in total order."""
    table = pa.concat_tables(parts, promote_options="permissive")
    return table.sort_by([("_t", "ascending"), ("_id", "ascending")])
