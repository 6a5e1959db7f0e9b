"""Pane partials: one row per (pane, group) with the components queries need; made per segment, merged per shard."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.language.duck import quote
from millpond.synopses.aggregates import components_of
from millpond.synopses.blocks import event_times
from millpond.synopses.codes import codes_by_join
from millpond.synopses.entries import shrink
from millpond.synopses.enums import query_ordered
from millpond.synopses.folds import fold_columns
from millpond.synopses.kernel import query_table
from millpond.synopses.rows import RowsKept, kept_for, partial_rows, together
from millpond.synopses.splits import ENTRIES, Component
from millpond.synopses.taken_back import SIGN
from millpond.types import (
    WEIGHT,
    Aggregate,
    BoundQuery,
    Feed,
    Landmark,
    Lookup,
    QueryOptions,
    Reduction,
    StreamDefinition,
    Window,
    to_json,
)
from millpond.windows import Panes, Rows
from millpond.windows.registered import axis_of


@dataclass(frozen=True)
class PanesSpec:
    """What a pane synopsis keeps. Two queries whose filter and keys agree can share one (`serves`).

    single: all groups live in one shard, for queries whose answers need all groups of a window at once.
    casts: (quoted column, declared type) of columns whose type Arrow does not carry.
    rows: it keeps rows instead of panes, for windows that end with rows; see `rows`.
    feeds: the streams of a union, of which `stream` is the first; empty: there is only `stream`.
    form: how panes are kept: as partials, as tuples, or as what is smaller. carried: the columns of a kept tuple.
    landmark: of the windows it serves, which grow; what lies before the windows that are open is kept in one row then.
    beside, tail: further landmarks, and the last microseconds before an end that have windows of their own.
    signed: rows with `op = '-'` take others back, and count -1 in `n`; groups with none left have no answer.
    direct: without panes: a row is put into each window of this RANGE (microseconds) that holds it; panes are windows.
    reduce: how much of the past was left out when it was filled: its rows have weights.
    interval: rows are seen at the start of their interval (REDUCE BY INTERVAL, microseconds); None: at their own time.
    narrowed: (quoted column, type) of columns that were widened since; rows are taken with this type, or fail.
    lookup: tables that its rows are joined with first; what is evaluated is over the joined rows.
    """

    stream: int
    time: str
    where: str | None
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    panes: Panes
    components: tuple[Component, ...]
    single: bool = False
    casts: tuple[tuple[str, str], ...] = ()
    rows: RowsKept | None = None
    feeds: tuple[Feed, ...] = ()
    form: Literal["eager", "lazy", "adaptive"] = "eager"
    carried: tuple[str, ...] = ()
    landmark: Landmark | None = None
    direct: int | None = None
    signed: bool = False
    reduce: Reduction | None = None
    interval: int | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    lookup: Lookup | None = None
    beside: tuple[Landmark, ...] = ()
    tail: int = 0

    @property
    def landmarks(self) -> tuple[Landmark, ...]:
        """All landmarks since which windows grow that it serves."""
        return () if self.landmark is None else (self.landmark, *self.beside)

    def window_of(self, query: BoundQuery) -> Window:
        """The query's windows as they lie over its panes; without panes each is one of its own."""
        assert query.window is not None
        return query.window if self.direct is None else replace(query.window, range=query.window.slide)

    @property
    def paned(self) -> tuple[str, str]:
        """The FROM item with its WHERE over a segment, and the pane of each of its rows, as DuckDB SQL."""
        where = f" WHERE ({self.where})" if self.where else ""
        time = f'epoch_us("{self.time}")'
        if self.panes.kind is not None:  # see `bucketed`
            return f"{self.source}{where}", "_pane"
        if self.interval is not None:
            time = f"({Panes(self.interval).sql(time)} * {self.interval})"
        if self.direct is None:
            return f"{self.source}{where}", self.panes.sql(time)
        held = f"range({self.panes.sql(time)}, {self.panes.sql(f'({time} + {self.direct})')})"
        return f"(SELECT *, unnest({held}) AS _pane FROM {self.source}{where})", "_pane"

    @property
    def streams(self) -> tuple[int, ...]:
        """The ids of the streams whose rows it takes."""
        return tuple(f.stream for f in self.feeds) or (self.stream,)

    @property
    def source(self) -> str:
        """The FROM item over a segment: columns that Arrow carries as another type get their declared one back."""
        wanted = dict(self.casts) | dict(self.narrowed)
        return as_declared("segment", wanted.items())

    @property
    def weighted(self) -> bool:
        """Whether its components are over rows that stand for others."""
        return self.reduce is not None and self.reduce.samples

    @property
    def texts(self) -> str:
        """The expressions that it evaluates over rows, together."""
        return " ".join([self.where or "", *self.keys, *(sql for c in self.components for _, sql in c.columns)])

    def columns_of(self, stream: StreamDefinition) -> list[str]:
        """The stream's columns that the synopsis reads."""
        own = {self.time, *(["op"] if self.signed else []), *(self.lookup.needs if self.lookup is not None else ())}
        return [c.name for c in stream.all_columns if quote(c.name) in self.texts or c.name in own]

    @property
    def key_names(self) -> tuple[str, ...]:
        """k0, k1, …: the columns of the grouping keys in its tables."""
        return tuple(f"k{i}" for i in range(len(self.keys)))

    @property
    def key(self) -> str:
        """A stable text that is equal for equal definitions; state is stored under it."""
        parts = (self.stream, self.time, self.where, self.keys, self.panes.width, self.panes.phase, self.single)
        own = [] if self.panes.kind is None else [self.panes.kind]
        marks = [to_json(mark) for mark in self.landmarks]
        marks += [str(self.tail)] if self.tail else []
        rows = [] if self.rows is None else [astuple(self.rows)[:-1]]  # of a union the feeds say it
        union = [[astuple(f) for f in self.feeds]] if self.feeds else []
        kept = [] if self.form == "eager" else [self.form]
        kept += [] if self.reduce is None else [to_json(self.reduce)]
        own += [] if self.lookup is None else [to_json(replace(self.lookup, seen=()))]
        text = json.dumps([parts, [c.name for c in self.components], *marks, *rows, *union, *kept, *own])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def _sharable(self) -> tuple[object, ...]:
        """What must be the same for two queries to share a synopsis."""
        shape = (self.stream, self.time, self.where, self.keys, self.single, self.feeds, self.panes.kind)
        return (*shape, self.form, self.landmarks, self.tail, self.reduce, self.narrowed, self.lookup)

    def serves(self, needed: PanesSpec, query: BoundQuery) -> bool:
        """Whether a query that needs `needed` can be answered from this synopsis."""
        return (
            self._sharable == needed._sharable
            and (self.rows is None) == (needed.rows is None)
            and (self.rows is None or needed.rows is None or self.rows.serves(needed.rows))
            and (needed.rows is not None or all(self.panes.serves(w) for w in windows_of(query)))
            and {c.name for c in needed.components} <= {c.name for c in self.components}
            and self.agrees(needed)
        )

    def agrees(self, needed: PanesSpec) -> bool:
        """Whether both fail on the same rows; see `Component.safe`."""
        return {c.name for c in needed.components if not c.safe} == {c.name for c in self.components if not c.safe}


def window_behind(query: BoundQuery, aggregate: Aggregate) -> Window:
    """The window of an aggregate: the one behind it where it has its own, else that of the query."""
    assert query.window is not None
    if aggregate.since is not None:
        return replace(query.window, range=0, landmark=aggregate.since, beside=())
    if aggregate.range is not None:
        return replace(query.window, range=aggregate.range, landmark=None, beside=())
    return query.window


def windows_of(query: BoundQuery) -> list[Window]:
    """The windows of a query: its own, which holds all the others; then those behind aggregates, the longest first."""
    assert query.window is not None
    behind = dict.fromkeys(window_behind(query, a) for a in query.aggregates)
    others = [w for w in behind if w != query.window]
    return [query.window, *sorted(others, key=lambda w: (w.landmark is None, -w.range))]


def by_interval(spec: PanesSpec) -> PanesSpec:
    """The same for the past of a query that says REDUCE BY INTERVAL: rows are seen at the start of their interval."""
    if spec.reduce is None or spec.reduce.function != "interval":
        return spec
    return replace(spec, interval=spec.reduce.spans[0])


def without_panes(spec: PanesSpec, query: BoundQuery) -> PanesSpec:
    """The same partials made without panes (Li 2008, 6.1: WID): one per group and window that a row is in.

    For queries with one window that slides, answered once: the state of a standing query is kept by panes, which others
    share.
    """
    window = query.window
    assert window is not None and window.landmark is None and len(windows_of(query)) == 1
    return replace(spec, panes=Panes(window.slide, window.origin % window.slide), direct=window.range)


def spec_of(query: BoundQuery, stream: StreamDefinition, options: QueryOptions | None = None) -> PanesSpec:
    """The synopsis that a window query needs, with the coarsest panes that compose its windows.

    Arguments:
        options: of the query. Its panes are kept as it asks (`state`) where aggregates are of bare columns that Arrow
            carries, and as partials otherwise.
    """
    assert query.window is not None or query.row_window is not None
    stream = joined_stream(stream, query.lookup)
    components: dict[str, Component] = {}
    for aggregate in query.aggregates:
        components.update({c.name: c for c in components_of(aggregate, stream.options.time).components})
    spec = PanesSpec(
        stream.id,
        stream.options.time,
        query.where,
        tuple(k.expression for k in query.keys),
        tuple(k.type for k in query.keys),
        Panes(1) if query.window is None else Panes.of(query.window, *(w.range for w in windows_of(query))),
        tuple(components.values()),
        single=query.window is not None and _needs_all_groups(query),
        rows=None if query.row_window is None else kept_for(query, stream.options.late, options or QueryOptions()),
        feeds=query.feeds,
        landmark=None if query.window is None else query.window.landmark,
        beside=() if query.window is None else query.window.beside,
        tail=query.window.range if query.window is not None and query.window.landmark is not None else 0,
        reduce=query.reduce,
        signed=query.signed,
        lookup=query.lookup,
    )
    used = {quote(name) for name in spec.columns_of(stream)}
    spec = replace(
        spec,
        casts=tuple(c for c in casts_of(stream) if c[0] in used),
        narrowed=tuple(c for c in query.narrowed if c[0] in used),
    )
    carried = carried_by(spec, stream)
    form = "eager" if options is None else options.state
    if spec.signed or form == "eager" or carried is None or query.window is None or query.window.landmark is not None:
        return spec
    return replace(spec, form=form, carried=carried)


def joined_stream(stream: StreamDefinition, lookup: Lookup | None) -> StreamDefinition:
    """A stream as its rows are when they have been joined with tables."""
    return stream if lookup is None else replace(stream, columns=(*stream.all_columns, *lookup.columns))


def carried_by(spec: PanesSpec, stream: StreamDefinition) -> tuple[str, ...] | None:
    """The columns (quoted) that a tuple needs for the components; None where it cannot stand for a partial.

    Computing a component from a kept tuple must not fail, since that would come too late for a dead letter.
    """
    texts = " ".join(sql for c in spec.components for _, sql in c.columns)
    names = tuple(quote(c.name) for c in stream.all_columns if quote(c.name) in texts)
    if any(not c.safe or c.kind in ENTRIES for c in spec.components) or {n for n, _ in spec.casts} & set(names):
        return None
    if spec.weighted:  # a kept tuple would need its weight
        return None
    return (*names, "_id") if re.search(r"\b_id\b", texts) and '"_id"' not in names else names


def _needs_all_groups(query: BoundQuery) -> bool:
    return bool(query.keys) and (query.limit is not None or query.distinct or bool(query.offset))


#: Types that reach DuckDB from Arrow as declared; all others (UUID, ENUM, HUGEINT, nested, …) are cast back.
_EXACT = {"BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP", "INTERVAL"}
_EXACT |= {"TIMESTAMP WITH TIME ZONE", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
_EXACT |= {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}


def casts_of(stream: StreamDefinition) -> tuple[tuple[str, str], ...]:
    """(quoted name, declared type) of the columns that need a cast."""
    return tuple(
        (quote(c.name), c.type)
        for c in stream.all_columns
        if c.type.upper() not in _EXACT and not c.type.upper().startswith("DECIMAL(")
    )


def as_declared(table: str, casts: Iterable[tuple[str, str]], names: Iterable[str] | None = None) -> str:
    """The FROM item over an Arrow table in which its columns have their declared types.

    Arguments:
        table: what the Arrow table is called. casts: as of `casts_of`.
        names: the columns that are read of the table, others are not cast; None: all that `casts` names.

    >>> as_declared("rows", [('"u"', "UUID"), ('"h"', "HUGEINT")], ["n", "u"])
    '(SELECT * REPLACE (CAST("u" AS UUID) AS "u") FROM rows)'
    >>> as_declared("rows", [('"u"', "UUID")], ["n"])
    'rows'
    """
    there = None if names is None else {quote(name) for name in names}
    chosen = [(name, kind) for name, kind in casts if there is None or name in there]
    found = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in chosen)
    return f"(SELECT * REPLACE ({found}) FROM {table})" if found else table


def partial(db: duckdb.DuckDBPyConnection, spec: PanesSpec, segment: pa.Table, extra: str = "") -> pa.Table:
    """The pane partials of a segment: columns pane, k*, n (rows), and the components' columns.

    Arguments:
        segment: rows with the stream's columns and `_id`.
        extra: a further grouping expression `… AS name`, used by back-fill.
    """
    segment = weighed(segment) if spec.weighted else segment
    if spec.rows is not None:
        return partial_rows(db, spec, segment, extra)
    if spec.panes.kind is not None:
        segment = bucketed(spec, spec.panes.kind, segment)
    source, pane = spec.paned
    columns = [f"({pane})::BIGINT AS pane", *(f"({e}) AS k{i}" for i, e in enumerate(spec.keys))]
    if extra:
        columns.append(extra)
    columns.append(f"sum({SIGN})::BIGINT AS n" if spec.signed else "count(*)::BIGINT AS n")
    columns += [f"({sql}) AS {c.name}{suffix}" for c in spec.components for suffix, sql in c.columns]
    made = query_table(db, f"SELECT {', '.join(columns)} FROM {source} GROUP BY ALL", segment=segment)
    return shrink(db, spec.components, made)


def weighed(segment: pa.Table) -> pa.Table:
    """Rows with their weight: 1 for those that a scan did not give one, such as live rows."""
    if WEIGHT in segment.column_names:
        return segment
    return segment.append_column(WEIGHT, pa.array(np.ones(segment.num_rows)))


def bucketed(spec: PanesSpec, kind: str, segment: pa.Table) -> pa.Table:
    """The rows of a segment once for each window of a registered kind that holds them, told by column `_pane`."""
    times = event_times(segment, spec.time)
    if spec.interval is not None:
        times = times // spec.interval * spec.interval
    rows, windows = axis_of(kind).bucket(times)
    return segment.take(pa.array(rows)).append_column("_pane", pa.array(windows))


def merge_partials(db: duckdb.DuckDBPyConnection, spec: PanesSpec, parts: list[pa.Table]) -> pa.Table:
    """One row per (pane, group) from partial tables in which panes may recur.

    Panes that only one part has are passed through; on streams that arrive roughly in order that is most of them.
    """
    parts = [p for p in parts if p.num_rows]
    if spec.rows is not None:
        return together(parts)
    if len(parts) <= 1:
        return parts[0] if parts else pa.table({})
    bounds = [pc.min_max(p["pane"]).as_py() for p in parts]
    shared = [
        (max(a["min"], b["min"]), min(a["max"], b["max"]))
        for i, a in enumerate(bounds)
        for b in bounds[i + 1 :]
        if max(a["min"], b["min"]) <= min(a["max"], b["max"])
    ]
    if not shared:
        return pa.concat_tables(parts, promote_options="permissive")
    alone, mixed = [], []
    for part in parts:
        pane = part["pane"].to_numpy()
        mask = np.zeros(len(pane), bool)
        for low, high in shared:
            mask |= (pane >= low) & (pane <= high)
        if mask.all():
            mixed.append(part)
        elif not mask.any():
            alone.append(part)
        else:
            mixed.append(part.filter(pa.array(mask)))
            alone.append(part.filter(pa.array(~mask)))
    merged = regroup(db, spec, pa.concat_tables(mixed, promote_options="permissive"))
    return pa.concat_tables([*alone, merged], promote_options="permissive")


def regroup(db: duckdb.DuckDBPyConnection, spec: PanesSpec, table: pa.Table) -> pa.Table:
    """One row per (pane, group) from one table in which they may recur."""
    if any(c.kind in ("moments", "comoments") for c in spec.components):
        return _regroup_by_fold(db, spec, table)
    columns = ["pane", *spec.key_names, "sum(n)::BIGINT AS n"]
    for c in spec.components:
        name = c.name
        kind = table.schema.field(name).type
        if c.kind == "add":
            call = f"fsum({name})" if pa.types.is_floating(kind) else f"sum({name})"
            cast = (
                "BIGINT"
                if pa.types.is_integer(kind)
                else f"DECIMAL(38,{kind.scale})"
                if pa.types.is_decimal(kind)
                else "DOUBLE"
            )
            columns.append(f"{call}::{cast} AS {name}")
        elif c.kind == "set":
            values = f"flatten(list({name}))"  # list_distinct drops NULL, which is a value of list(DISTINCT …)
            null = f"CASE WHEN list_count({values}) < len({values}) THEN [NULL] ELSE [] END"
            columns.append(f"list_concat(list_distinct({values}), {null}) AS {name}")
        elif c.kind == "list" or c.kind in ENTRIES:
            columns.append(f"flatten(list({name}) FILTER (WHERE {name} IS NOT NULL)) AS {name}")
            columns += [f"sum({each})::BIGINT AS {each}" for each in c.names[1:]]
        else:
            columns.append(f"{c.kind}({name}) AS {name}")
    merged = query_ordered(db, f"SELECT {', '.join(columns)} FROM parts GROUP BY ALL", parts=table)
    merged = merged.cast(table.schema) if merged.schema != table.schema else merged
    return shrink(db, spec.components, merged)


def _regroup_by_fold(db: duckdb.DuckDBPyConnection, spec: PanesSpec, table: pa.Table) -> pa.Table:
    group = group_codes(db, spec, table)
    pane = table["pane"].to_numpy()
    _, order = Rows.sort(group, pane)
    table, group, pane = table.take(pa.array(order)), group[order], pane[order]
    starts = np.flatnonzero(np.r_[True, (group[1:] != group[:-1]) | (pane[1:] != pane[:-1])])
    folded = fold_columns(db, spec.components, table, starts, np.r_[starts[1:], len(pane)])
    first = table.select(["pane", *spec.key_names]).take(pa.array(starts))
    for name, column in folded.items():
        first = first.append_column(name, column)
    return shrink(db, spec.components, first.select(table.column_names))


def group_codes(
    db: duckdb.DuckDBPyConnection, spec: PanesSpec, table: pa.Table
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number for the group of each row, from 0; equal exactly for equal keys, NULL being equal to NULL."""
    if not spec.keys:
        return np.zeros(table.num_rows, np.int64)
    if len(spec.keys) == 1:
        column = table["k0"]
        if pa.types.is_integer(column.type) and not column.null_count:
            return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)
    return codes_by_join(db, table, spec.key_names)
