"""Finish: from pane rows to answers: fold panes to windows, then HAVING, projection, order and limit in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.support.sql import quote
from millpond.synopses.aggregates.splits import VALUE, Component, Split
from millpond.synopses.aggregates.splitting import components_of
from millpond.synopses.enums import query_ordered
from millpond.synopses.folds import fold_columns
from millpond.synopses.gap_filling import FILLING, Gaps, fill, filled_ends, with_sources
from millpond.synopses.kernel import query_table
from millpond.synopses.pane_partials import PanesSpec, group_codes
from millpond.types import (
    Aggregate,
    Answer,
    Column,
    Window,
    WindowedQuery,
    WindowQuery,
    projected,
)
from millpond.windows import Cover, Rows, cover_of
from millpond.windows.candidates import Ints


def identity(query: Answer) -> list[str]:
    """The columns that, with window_end, identify an answer row: hidden copies of the grouping keys."""
    return [c.name for c in query.identity]


A = TypeVar("A", bound=Answer)


def unnamed(query: A) -> A:
    """The query with names for its columns that no column of a window has; those of a derived stream may have them."""
    return replace(query, select=tuple(replace(o, name=f"_c{i}") for i, o in enumerate(query.select)))


def fold_windows(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: WindowQuery,
    panes: pa.Table,
    after: int | Ints,
    until: int | Ints,
    gaps: Gaps | None = None,
) -> pa.Table:
    """The windows with after < end pane <= until: one row per (window, group).

    Args:
        panes: merged pane rows, at least all that these windows need.
        after, until: pane numbers, the same for all or one for each row of `panes` (equal in a group).
        gaps: how windows without a row are answered; None: they are not.

    Returns: columns end (microseconds), k*, n and the components' columns. Of windows that grow there is a column
        `start` too (microseconds; NULL: the start of the stream). Components over the windows behind aggregates are
        columns of their own (`prefix_of`).
    """
    cover = cover_of(spec.panes, spec.window_of(query))
    width, step, offset = cover.shape
    if width == 1 and gaps is None and not cover.varies:
        ends = panes["pane"].to_numpy() + 1
        wanted = (ends > after) & (ends <= until) & ((ends - offset) % step == 0)
        found = (panes if wanted.all() else panes.filter(pa.array(wanted))).drop_columns(["pane"])
        for name, column in _instants(spec, ends[wanted]).items():
            found = found.append_column(name, column)
        return _some(spec, found)
    rows, order = Rows.sort(group_codes(db, spec, panes), panes["pane"].to_numpy())
    after = after[order] if isinstance(after, np.ndarray) else after
    until = until[order] if isinstance(until, np.ndarray) else until
    if gaps is not None and gaps.ahead:
        group, end = filled_ends(rows, cover, after, until, gaps.reach)
    else:
        reach = None if gaps is None else gaps.reach
        group, end = rows.ends(cover.shape, after, until, cover.lasts if cover.varies else reach)
    return _some(spec, _Folding(db, spec, query, cover, rows, panes.take(pa.array(order))).fold(group, end, gaps))


def fold_pairs(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: WindowQuery,
    panes: pa.Table,
    codes: Ints,
    pairs: tuple[Ints, Ints],
    empty: bool | Gaps = False,
) -> pa.Table:
    """The windows of some (group code, end pane) pairs, as `fold_windows` gives them.

    Args:
        panes: as of `fold_windows`. codes: the group code of each of its rows.
        empty: whether windows without a row are among them, too, and how they are answered.
    """
    cover = cover_of(spec.panes, spec.window_of(query))
    rows, order = Rows.sort(codes, panes["pane"].to_numpy())
    group, end = pairs
    if not empty:
        low, high = rows.runs(group, end, end - cover.starts(end))
        group, end = group[high > low], end[high > low]
    gaps = empty if isinstance(empty, Gaps) else None
    folded = _Folding(db, spec, query, cover, rows, panes.take(pa.array(order))).fold(group, end, gaps)
    return folded if empty else _some(spec, folded)


@dataclass(frozen=True)
class _Folding:
    """Pane rows that are folded to the windows of a query. rows: what `panes` are in order of groups and panes."""

    db: duckdb.DuckDBPyConnection
    spec: PanesSpec
    query: WindowQuery
    cover: Cover
    rows: Rows
    panes: pa.Table

    def fold(self, group: Ints, end: Ints, gaps: Gaps | None = None) -> pa.Table:
        """The windows of the groups that end with the panes `end`; where gaps are filled, with what fills them."""
        spec, rows, cover = self.spec, self.rows, self.cover
        if (there := cover.exist(end)) is not None:
            group, end = group[there], end[there]
        filling: Mapping[str, pa.Array] = {}
        if gaps is not None and gaps.rules:
            pairs = with_sources(rows, cover, group, end, gaps)
            group, end, filling = pairs.group, pairs.end, pairs.columns
        starts = cover.starts(end)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {**_instants(spec, end)}
        columns |= cover.begins(end, starts)
        if spec.keys:
            first = np.flatnonzero(np.r_[True, rows.group[1:] != rows.group[:-1]][: len(rows.group)])
            at = first[np.searchsorted(rows.group[first], group)] if len(group) else np.empty(0, np.int64)
            columns |= {name: self.panes[name].take(pa.array(at)) for name in spec.key_names}
        return pa.table({**columns, **self._components(group, end, starts), **filling})

    def _components(self, group: Ints, end: Ints, starts: Ints) -> dict[str, pa.Array | pa.ChunkedArray]:
        """`n` and the components, over the window of the query and over those behind its aggregates."""
        spec, panes, rows = self.spec, self.panes, self.rows
        components = [c for c in spec.components if panes.num_rows or c.names[0] in panes.column_names]
        window, *narrower = self.query.windows
        own = _of_window(components, spec, self.query, window) if narrower else components
        folded = fold_columns(self.db, own, panes, *rows.runs(group, end, end - starts))
        for place, each in enumerate(narrower, 1):
            wanted = _of_window(components, spec, self.query, each)
            begins = np.minimum(cover_of(spec.panes, each).starts(end), end)  # a landmark may not have come yet
            found = fold_columns(self.db, wanted, panes, *rows.runs(group, end, end - begins))
            folded |= {prefix_of(place) + name: column for name, column in found.items() if name != "n"}
        return folded


def _some(spec: PanesSpec, folded: pa.Table) -> pa.Table:
    """Windows of groups that hold a row; where rows are taken back, none may be left."""
    return folded.filter(pc.greater(folded["n"], 0)) if spec.signed and folded.num_rows else folded


def _instants(spec: PanesSpec, ends: Ints) -> dict[str, pa.Array]:
    """Columns of windows of one pane that end before some panes, microseconds; see `Cut.instants`."""
    return {name: pa.array(column) for name, column in spec.panes.instants(ends).items()}


def prefix_of(place: int) -> str:
    """What stands before the names of components that are folded over a window behind aggregates, by its place."""
    return f"w{place}_" if place else ""


def _of_window(components: Sequence[Component], spec: PanesSpec, query: WindowQuery, window: Window) -> list[Component]:
    """The components that the aggregates over one of a query's windows need."""
    mine = [a for a in query.aggregates if (query.behind(a) or query.window) == window]
    names = {c.name for a in mine for c in components_of(a, spec.time).components}
    return [c for c in components if c.name in names]


def finish_windows(
    db: duckdb.DuckDBPyConnection, query: WindowedQuery, time: str, folded: pa.Table, gaps: Gaps | None = None
) -> pa.Table:
    """Answers from folded windows: the window's columns, the select list, hidden identity columns `_k*`.

    Args:
        gaps: as those that were folded.
    """
    finals = [projected(_final(a, time, folded, query), a.type, a.name) for a in query.aggregates]
    keys = [projected(k.name, k.type, k.name) for k in query.keys]
    start = '"start"' if "start" in folded.column_names else f'"end" - {query.window.reach}'
    ends = [f"make_timestamp({start}) AS window_start", 'make_timestamp("end") AS window_end']
    if query.numbered:
        ends.append("number AS window_number")
    rules = () if gaps is None else gaps.rules
    ends += FILLING if rules else ()
    values = _values(query, time, folded)
    if values:
        folded = folded.append_column("_at", pa.array(np.arange(folded.num_rows)))
    joins = "".join(f" LEFT JOIN ({sql}) AS _{name} ON folded._at = _{name}._at" for name, sql in values.items())
    inner = f"SELECT {', '.join([*ends, *keys, *finals])} FROM folded{joins}" + (
        " ORDER BY folded._at" if values else ""
    )
    shown, inner = fill(query, inner, rules) if rules else (query, inner)
    return query_ordered(db, _outer(shown, inner), folded=folded)


def _values(query: WindowedQuery, time: str, folded: pa.Table) -> dict[str, str]:
    """By aggregate: the SELECT that computes its values for all windows at once; see `Split.values`."""
    splits = {a.name: _split(a, time, query) for a in query.aggregates}
    return {n: s.values for n, s in splits.items() if s.values is not None and _has(s, folded)}


def _has(split: Split, folded: pa.Table) -> bool:
    return all(c.names[0] in folded.column_names for c in split.components)


def _split(aggregate: Aggregate, time: str, query: WindowedQuery) -> Split:
    """How an aggregate is split, over the components of the window behind it if it has one of its own."""
    split = components_of(aggregate, time)
    prefix = prefix_of(query.place_of(aggregate))
    if not prefix:
        return split
    final, values = split.final, split.values
    for component in split.components:
        final = final.replace(component.name, prefix + component.name)
        values = None if values is None else values.replace(component.name, prefix + component.name)
    components = tuple(replace(c, name=prefix + c.name) for c in split.components)
    return replace(split, components=components, final=final, values=values)


def _final(aggregate: Aggregate, time: str, folded: pa.Table, query: WindowedQuery) -> str:
    """The value of an aggregate over the components in `folded`; without them, that over no rows."""
    split = _split(aggregate, time, query)
    if _has(split, folded):
        return split.final if split.values is None else split.final.replace(VALUE, f"_{aggregate.name}.x")
    if aggregate.measure == "share":
        return "NULL"
    return "0" if aggregate.function in ("count", "count_star", "regr_count", "approx_distinct", "entropy") else "NULL"


def _outer(query: WindowedQuery, inner: str) -> str:
    outputs = [o.sql for o in query.select]
    if query.distinct:
        hidden = [f"{k.name} AS _p{i}" for i, k in enumerate(query.partition)]
        hidden += [projected(o.expression, o.type, f"_k{i}") for i, o in enumerate(query.select)]
    else:
        hidden = [f"{k.name} AS _k{i}" for i, k in enumerate(query.keys)]
    window = list(dict.fromkeys(["window_start", "window_end", *(c.name for c in query.told_apart)]))
    limited = query.limit is not None or query.offset > 0
    order = [f"({t.expression}) AS __o{i}" for i, t in enumerate(query.order_by)] if limited else []
    order += [f"({each}) AS __l{i}" for i, each in enumerate(query.per)] if limited else []
    columns = [*window, *outputs, *hidden, *order]
    sql = f"SELECT {'DISTINCT ' if query.distinct else ''}{', '.join(columns)} FROM ({inner})"
    if query.having:
        sql += f" WHERE ({query.having})"
    if not limited:
        return sql
    terms = [t.by(f"__o{i}") for i, t in enumerate(query.order_by)]
    shown = [h for h in identity(query) if h not in window]
    place = ", ".join([*terms, *shown]) or "1"
    names = [*window, *(f"{quote(o.name)}" for o in query.select), *shown]
    # Each partition has windows of its own.
    own = [*window[1:], *(f"{'_p' if query.distinct else '_k'}{i}" for i in range(len(query.partition)))]
    own += [f"__l{i}" for i in range(len(query.per))]
    numbered = f"SELECT *, row_number() OVER (PARTITION BY {', '.join(own)} ORDER BY {place}) AS __n FROM ({sql})"
    upper = f" AND __n <= {query.offset + query.limit}" if query.limit is not None else ""
    return f"SELECT {', '.join(names)} FROM ({numbered}) WHERE __n > {query.offset}{upper} ORDER BY window_end, __n"


def empty_answers(db: duckdb.DuckDBPyConnection, columns: Sequence[Column]) -> pa.Table:
    """An empty table with the given columns."""
    listed = ", ".join(projected("NULL", c.type, c.name) for c in columns)
    return query_table(db, f"SELECT {listed} LIMIT 0")
