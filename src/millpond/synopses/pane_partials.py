"""Pane partials: one row per (pane, group) with the components queries need; made per segment, merged per shard."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar, assert_never

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.support.sql import quote
from millpond.synopses.aggregates.entries import shrink
from millpond.synopses.aggregates.splits import ENTRIES
from millpond.synopses.aggregates.taken_back import SIGN
from millpond.synopses.blocks import event_times
from millpond.synopses.codes import codes_by_join
from millpond.synopses.enums import query_ordered
from millpond.synopses.folds import fold_columns
from millpond.synopses.kernel import query_table
from millpond.synopses.partials.specs import SynopsisSpec, common_parts, joined_stream, weighed
from millpond.types import (
    Aggregate,
    Aggregation,
    Landmark,
    LandmarkWindow,
    QueryOptions,
    StreamDefinition,
    StreamQuery,
    TimeWindow,
    Window,
    WindowQuery,
    columns_read,
    to_json,
)
from millpond.windows import PaneCut, Panes, Rows, panes_of
from millpond.windows.cuts import TOLD
from millpond.windows.pane_layout import WHOLE


@dataclass(frozen=True, kw_only=True)
class PanesSpec(SynopsisSpec):
    """What a pane synopsis keeps. Two queries whose filter and keys agree can share one (`serves`).

    single: all groups live in one shard, for queries whose answers need all groups of a window at once.
    form: how panes are kept: as partials, as tuples, or as what is smaller. carried: the columns of a kept tuple.
    landmarks: of the windows it serves, which grow; what lies before the windows that are open is kept in one row then.
    tail: the last microseconds before an end that have windows of their own.
    direct: without panes: a row is put into each window of this RANGE (microseconds) that holds it; panes are windows.
    interval: rows are seen at the start of their interval (REDUCE BY INTERVAL, microseconds); None: at their own time.
    """

    panes: PaneCut
    single: bool = False
    form: Literal["eager", "lazy", "adaptive"] = "eager"
    carried: tuple[str, ...] = ()
    landmarks: tuple[Landmark, ...] = ()
    tail: int = 0
    direct: int | None = None
    interval: int | None = None

    @property
    def spread(self) -> tuple[str, ...]:
        """The columns of the keys by which its groups are spread over shards; empty: they are in one."""
        return () if self.single else self.key_names

    def window_of(self, query: WindowQuery) -> Window:
        """The query's windows as they lie over its panes; without panes each is one of its own."""
        if self.direct is None or not isinstance(query.window, TimeWindow):
            return query.window
        return replace(query.window, range=query.window.slide)

    @property
    def paned(self) -> tuple[str, str]:
        """The FROM item with its WHERE over a segment, and the pane of each of its rows, as DuckDB SQL."""
        where = f" WHERE ({self.where})" if self.where else ""
        time = f'epoch_us("{self.time}")'
        if self.panes.is_told:  # see `bucketed`
            return f"{self.source}{where}", TOLD
        if self.interval is not None:
            time = f"({Panes(self.interval).sql(time)} * {self.interval})"
        if self.direct is None:
            return f"{self.source}{where}", self.panes.sql(time)
        held = f"range({self.panes.sql(time)}, {self.panes.sql(f'({time} + {self.direct})')})"
        return f"(SELECT *, unnest({held}) AS {TOLD} FROM {self.source}{where})", TOLD

    @property
    def key(self) -> str:
        """A stable text that is equal for equal definitions; state is stored under it."""
        marks = [_key_of(mark) for mark in self.landmarks]
        marks += [str(self.tail)] if self.tail else []
        marks += [f"sets {self.sets}"] if self.sets else []
        form = [] if self.form == "eager" else [self.form]
        return self.digest((self.panes.width, self.panes.phase, self.single), marks, form, self.panes.named)

    @property
    def _sharable(self) -> tuple[object, ...]:
        """What must be the same for two queries to share a synopsis."""
        shape = (self.stream, self.time, self.where, self.keys, self.single, self.feeds, type(self.panes))
        return (*shape, self.sets, self.form, self.landmarks, self.tail, self.reduce, self.narrowed, self.lookup)

    def serves(self, needed: SynopsisSpec, query: StreamQuery) -> bool:
        """Whether a query that needs `needed` can be answered from this synopsis."""
        return (
            isinstance(needed, PanesSpec)
            and isinstance(query, WindowQuery)
            and self._sharable == needed._sharable
            and all(self.panes.serves(w) for w in windows_of(query))
            and self.covers(needed)
        )


def _key_of(mark: Landmark) -> Any:
    """A landmark as it stands in keys: state of windows that there have been for long keeps its own."""
    written = to_json(mark)
    return {name: value for name, value in written.items() if value or name not in ("months", "always")}


def over_all_time(query: Aggregation, time: str) -> WindowQuery:
    """A query with one window instead of its own, which holds all of time. time: the stream's event time."""
    mine = {f.name: getattr(query, f.name) for f in fields(Aggregation)}
    return WindowQuery(**mine, window=TimeWindow(WHOLE, WHOLE, 0, time))


def window_behind(query: WindowQuery, aggregate: Aggregate) -> Window:
    """The window of an aggregate: the one behind it where it has its own, else that of the query."""
    window = query.window
    if aggregate.since is not None:
        return LandmarkWindow(window.slide, aggregate.since, window.origin, window.attribute)
    if aggregate.range is not None:
        return TimeWindow(aggregate.range, window.slide, window.origin, window.attribute)
    return window


def windows_of(query: WindowQuery) -> list[Window]:
    """The windows of a query: its own, which holds all the others; then those behind aggregates, the longest first."""
    behind = dict.fromkeys(window_behind(query, a) for a in query.aggregates)
    others = [w for w in behind if w != query.window]
    return [query.window, *sorted(others, key=lambda w: (not w.landmarks, -w.range))]


S = TypeVar("S", bound=SynopsisSpec)


def at_intervals(spec: S, interval: int) -> S:
    """The same where rows are seen at the start of their interval (microseconds); 0: at their own time.

    Rows that are kept as they are have no intervals.
    """
    return replace(spec, interval=interval) if interval and isinstance(spec, PanesSpec) else spec


def by_interval(spec: S) -> S:
    """The same for the past of a query that says REDUCE BY INTERVAL: rows are seen at the start of their interval."""
    if spec.reduce is None or spec.reduce.function != "interval":
        return spec
    return at_intervals(spec, spec.reduce.spans[0])


def without_panes(spec: PanesSpec, window: TimeWindow) -> PanesSpec:
    """The same partials made without panes (Li 2008, 6.1: WID): one per group and window that a row is in.

    For queries with one window that slides, answered once: the state of a standing query is kept by panes, which others
    share.
    """
    return replace(spec, panes=Panes(window.slide, window.origin % window.slide), direct=window.range)


def panes_spec(query: WindowQuery, stream: StreamDefinition, options: QueryOptions | None = None) -> PanesSpec:
    """The synopsis that a query over windows that end at instants needs, with the coarsest panes that compose these.

    Arguments:
        options: of the query. Its panes are kept as it asks (`state`) where aggregates are of bare columns that Arrow
            carries, and as partials otherwise.
    """
    stream = joined_stream(stream, query.lookup)
    window = query.window
    spec = PanesSpec(
        **common_parts(query, stream),
        panes=panes_of(window, *(w.range for w in windows_of(query))),
        single=_needs_all_groups(query),
        landmarks=window.landmarks,
        tail=window.range if window.landmarks else 0,
    )
    carried = carried_by(spec, stream)
    form = "eager" if options is None else options.state
    if spec.signed or form == "eager" or carried is None or window.landmarks:
        return spec
    return replace(spec, form=form, carried=carried)


def carried_by(spec: PanesSpec, stream: StreamDefinition) -> tuple[str, ...] | None:
    """The columns (quoted) that a tuple needs for the components; None where it cannot stand for a partial.

    Computing a component from a kept tuple must not fail, since that would come too late for a dead letter.
    """
    read = columns_read(*(each for c in spec.components for _, each in c.columns))
    names = tuple(quote(c.name) for c in stream.all_columns if c.name in read)
    if any(not c.safe or c.kind in ENTRIES for c in spec.components) or {n for n, _ in spec.casts} & set(names):
        return None
    if spec.weighted:  # a kept tuple would need its weight
        return None
    return (*names, "_id") if "_id" in read and '"_id"' not in names else names


def _needs_all_groups(query: WindowQuery) -> bool:
    return bool(query.keys) and (query.limit is not None or query.distinct or bool(query.offset))


def partial_panes(db: duckdb.DuckDBPyConnection, spec: PanesSpec, segment: pa.Table, extra: str = "") -> pa.Table:
    """The pane partials of a segment: columns pane, k*, n (rows), and the components' columns.

    Arguments:
        segment: rows with the stream's columns and `_id`.
        extra: a further grouping expression `… AS name`, used by back-fill.
    """
    segment = weighed(segment) if spec.weighted else segment
    segment = bucketed(spec, segment)
    source, pane = spec.paned
    columns = [f"({pane})::BIGINT AS pane", *(f"({e}) AS k{i}" for i, e in enumerate(spec.keys))]
    if extra:
        columns.append(extra)
    columns.append(f"sum({SIGN})::BIGINT AS n" if spec.signed else "count(*)::BIGINT AS n")
    columns += spec.listed
    made = query_table(db, f"SELECT {', '.join(columns)} FROM {source} GROUP BY ALL", segment=segment)
    return shrink(db, spec.components, made)


def bucketed(spec: PanesSpec, segment: pa.Table) -> pa.Table:
    """The rows of a segment with column `TOLD` where SQL cannot say their panes, once for each pane."""
    if not spec.panes.is_told:
        return segment
    times = event_times(segment, spec.time)
    if spec.interval is not None:
        times = times // spec.interval * spec.interval
    rows, panes = spec.panes.told(times)
    segment = segment if rows is None else segment.take(pa.array(rows))
    return segment.append_column(TOLD, pa.array(panes))


def merge_panes(db: duckdb.DuckDBPyConnection, spec: PanesSpec, parts: list[pa.Table]) -> pa.Table:
    """One row per (pane, group) from partial tables in which panes may recur.

    Panes that only one part has are passed through; on streams that arrive roughly in order that is most of them.
    """
    parts = [p for p in parts if p.num_rows]
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


def regroup(db: duckdb.DuckDBPyConnection, spec: SynopsisSpec, table: pa.Table) -> pa.Table:
    """One row per (pane, group) from one table in which they may recur."""
    if any(c.kind in ("moments", "comoments") for c in spec.components):
        return _regroup_by_fold(db, spec, table)
    columns = ["pane", *spec.key_names, "sum(n)::BIGINT AS n"]
    for c in spec.components:
        name, stored = c.name, table.schema.field(c.name).type
        match c.kind:
            case "add":
                if pa.types.is_floating(stored):
                    columns.append(f"fsum({name})::DOUBLE AS {name}")
                else:
                    cast = f"DECIMAL(38,{stored.scale})" if pa.types.is_decimal(stored) else "BIGINT"
                    columns.append(f"sum({name})::{cast} AS {name}")
            case "set":
                values = f"flatten(list({name}))"  # list_distinct drops NULL, which is a value of list(DISTINCT …)
                null = f"CASE WHEN list_count({values}) < len({values}) THEN [NULL] ELSE [] END"
                columns.append(f"list_concat(list_distinct({values}), {null}) AS {name}")
            case "list" | "counts" | "frequent" | "quantiles" | "distinct" | "steps" | "states":
                columns.append(f"flatten(list({name}) FILTER (WHERE {name} IS NOT NULL)) AS {name}")
                columns += [f"sum({each})::BIGINT AS {each}" for each in c.names[1:]]
            case "min" | "max" | "bit_and" | "bit_or" | "bit_xor" | "product":
                columns.append(f"{c.kind}({name}) AS {name}")
            case "moments" | "comoments":
                raise AssertionError  # these are put together by `_regroup_by_fold`
            case _:
                assert_never(c.kind)
    merged = query_ordered(db, f"SELECT {', '.join(columns)} FROM parts GROUP BY ALL", parts=table)
    merged = merged.cast(table.schema) if merged.schema != table.schema else merged
    return shrink(db, spec.components, merged)


def _regroup_by_fold(db: duckdb.DuckDBPyConnection, spec: SynopsisSpec, table: pa.Table) -> pa.Table:
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
    db: duckdb.DuckDBPyConnection, spec: SynopsisSpec, table: pa.Table
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number for the group of each row, from 0; equal exactly for equal keys, NULL being equal to NULL."""
    if not spec.keys:
        return np.zeros(table.num_rows, np.int64)
    if len(spec.keys) == 1:
        column = table["k0"]
        if pa.types.is_integer(column.type) and not column.null_count:
            return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)
    return codes_by_join(db, table, spec.key_names)
