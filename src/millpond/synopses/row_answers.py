"""From rows to the windows that end with rows: order them, find the runs, fold each run per group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.support.distinct import distinct
from millpond.synopses.folds import fold_columns, fold_components
from millpond.synopses.row_partials import (
    RowsSpec,
    arrivals,
    codes_of,
    cuts_of,
    partition_codes,
    ranked,
    together,
    weights,
)
from millpond.types import CountWindow, RowWindow, RowWindowQuery, SpanWindow
from millpond.windows import row_runs
from millpond.windows.candidates import Ints
from millpond.windows.row_runs import Flags, Runs


def fold_row_windows(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, query: RowWindowQuery, table: pa.Table, since: int, before: int
) -> pa.Table | None:
    """One row per (window, group), of the windows that end at since <= t < before (microseconds).

    Columns: start, end, number, k*, n and the components' columns. None when there is no such window.

    Arguments:
        table: rows as `rows` describes them, at least all that these windows need.
    """
    cut, numbered = cuts_of(table)
    late = distinct(cut[~numbered])
    marks = [since, *(int(c) for c in late if since < c < before), before]
    parts = []
    for low, high in pairwise(marks):
        # A late row lies in windows that end at its cut or later: what is visible changes at every cut.
        seen = table if not len(late) else table.filter(pa.array(numbered | (cut <= low)))
        folded = _fold(db, spec, query, seen, low, high)
        if folded is not None:
            parts.append(folded)
    return together(parts) if parts else None


def _fold(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, query: RowWindowQuery, table: pa.Table, since: int, before: int
) -> pa.Table | None:
    window = query.window
    if not table.num_rows:
        return None
    place, runs = _runs(db, spec, window, table, since, before)
    if not len(runs):
        return None
    return _folded(db, spec, query, table, place, runs)


def _runs(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, window: RowWindow, table: pa.Table, since: int, before: int
) -> tuple[Ints | None, Runs]:
    """Places of the rows in the order that windows are runs of (None: as they are), and the runs."""
    time, ids, n = (table[name].to_numpy() for name in ("pane", "_id", "n"))
    _, numbered = cuts_of(table)
    by_rank = window.numbered == "rank"
    if (
        isinstance(window, CountWindow)
        and by_rank
        and (rows := ranked(db, spec, table)) is not None
        and rows.latest < since
    ):
        places = rows.places
        ordered = time if places is None else _Taken(time, places)
        counted = (rows.held, rows.stood, ordered, window.rows, window.slide, since, before)
        return places, row_runs.runs_of_counts(*counted)
    partition = partition_codes(db, spec, table)
    weight = weights(n, numbered)
    order = row_runs.sorted_by(partition, *((time, ids) if by_rank else arrivals(table)))
    if order is not None:
        partition, time, ids, n, weight = (x[order] for x in (partition, time, ids, n, weight))
        numbered = numbered[order]
    number = row_runs.numbers(partition, weight)
    # Rows that stand for others have a say in numbers alone; rows without a number are in no window of rows.
    member = n >= 0 if isinstance(window, SpanWindow) else (n >= 0) & numbered
    if not member.all():
        order = np.flatnonzero(member) if order is None else order[member]
        partition, time, number, ids = (x[member] for x in (partition, time, number, ids))
        numbered = numbered[member]
    if isinstance(window, CountWindow):
        return order, row_runs.runs_of_rows(partition, time, number, window.rows, window.slide, since, before)
    if not by_rank:
        again = row_runs.sorted_by(partition, time, ids)
        if again is not None:
            order = again if order is None else order[again]
            partition, time, number = (x[again] for x in (partition, time, number))
            numbered = numbered[again]
    runs = row_runs.runs_of_range(partition, time, number, numbered, window.range, window.slide, since, before)
    return order, runs


@dataclass(frozen=True)
class _Taken:
    """`values[order]`, of which few places are asked for."""

    values: Ints
    order: Ints

    def __getitem__(self, place: Ints) -> Ints:
        return self.values[self.order[place]]


def last_row_windows(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, query: RowWindowQuery, table: pa.Table
) -> pa.Table | None:
    """As `fold_row_windows`: of each partition the window that ends with its last row, whatever its number."""
    window = query.window
    assert isinstance(window, CountWindow)  # a span ends with NOW instead
    if not table.num_rows:
        return None
    every = replace(window, slide=1)
    place, runs = _runs(db, spec, every, table, -(2**62), 2**62)
    ordered = table if place is None else table.take(pa.array(place))
    partition = partition_codes(db, spec, ordered)[runs.high - 1] if len(runs) else np.empty(0, np.int64)
    last = np.flatnonzero(np.r_[partition[1:] != partition[:-1], True]) if len(runs) else np.empty(0, np.int64)
    chosen = Runs(*(x[last] for x in (runs.start, runs.end, runs.number // window.slide, runs.low, runs.high)))
    return _folded(db, spec, query, ordered, None, chosen) if len(chosen) else None


def _folded(
    db: duckdb.DuckDBPyConnection,
    spec: RowsSpec,
    query: RowWindowQuery,
    table: pa.Table,
    place: Ints | None,
    runs: Runs,
) -> pa.Table | None:
    """One row per (window, group). `place`: the places of rows in the order of the runs; None: as they are."""
    components = [c for c in spec.components if c.names[0] in table.column_names]
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "start": pa.array(runs.start),
        "end": pa.array(runs.end),
        "number": pa.array(runs.number),
    }
    if len(spec.keys) == spec.rows.partition and not pc.any(pc.equal(table["n"], 0)).as_py():
        # Every row counts, and for one: only what is summed is put in order.
        length = pa.array(runs.high - runs.low)
        counts = {c.name: length for c in components if c.counts_rows}
        others = [c for c in components if c.name not in counts]
        summed = table.select([name for c in others for name in c.names])
        last = runs.high - 1 if place is None else place[runs.high - 1]
        for name in spec.key_names:
            columns[name] = table[name].take(pa.array(last))
        if place is not None:
            summed = summed.take(pa.array(place))
        return pa.table({**columns, "n": length, **counts, **fold_components(db, others, summed, runs.low, runs.high)})
    needed = [*spec.key_names, "n", *(name for c in components for name in c.names)]
    table = table.select([name for name in table.column_names if name in needed])
    if place is not None:
        table = table.take(pa.array(place))
    passes: Flags = table["n"].to_numpy() > 0
    if not passes.any():
        return None
    if len(spec.keys) > spec.rows.partition:
        at = np.flatnonzero(passes)
        table = table if len(at) == len(passes) else table.take(pa.array(at))
        group = codes_of(db, table, spec.key_names)
        order = row_runs.stable_order(group)
        if order is not None:
            at, group, table = at[order], group[order], table.take(pa.array(order))
        window, low, high = row_runs.of_groups(runs, at, group, len(passes))
    elif passes.all():
        window, low, high = np.arange(len(runs)), runs.low, runs.high
    else:
        window, low, high = row_runs.of_passing(runs, passes)
        table = table.filter(pa.array(passes))
    if not len(window):
        return None
    columns = {name: column.take(pa.array(window)) for name, column in columns.items()}
    for name in spec.key_names:
        columns[name] = table[name].take(pa.array(high - 1))
    return pa.table({**columns, **fold_columns(db, components, table, low, high)})
