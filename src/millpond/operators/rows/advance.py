"""Advance windows that end with rows, from the rows themselves.

A window is closed when progress is beyond its end: rows of equal event time may still come until then. Late rows move
the numbers of all rows behind them, so the closed windows of their partitions that end from the earliest one on are
answered anew, and what differs is reported.
"""

from __future__ import annotations

from functools import partial

import duckdb
import pyarrow as pa

from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.evaluation import State
from millpond.operators.windowed.group_bounds import Edges
from millpond.operators.windowed.over_rows import OfRows, advance_rows, between_edges
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.progress import NEVER
from millpond.synopses import RowsSpec, finish_windows
from millpond.synopses.row_answers import fold_row_windows
from millpond.types import RowWindowQuery


def advance(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, state: State, closing: Closing[RowWindowQuery]
) -> Advanced[WindowProgress]:
    """Close windows, and revise closed ones that late rows of the delta change."""
    partition = spec.key_names[: spec.rows.partition]
    return advance_rows(db, OfRows(partition, partial(row_answers, db, spec, closing.query)), state, closing)


def row_answers(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, query: RowWindowQuery, rows: pa.Table, since: Edges, before: Edges
) -> pa.Table | None:
    """The answers of the windows that end at since <= t < before; since: its `common` is the least of its edges."""
    if before.most <= since.common:
        return None
    folded = fold_row_windows(db, spec, query, rows, since.common, before.most)
    if folded is None:
        return None
    answers = finish_windows(db, query, spec.time, between_edges(folded, "end", since, before))
    return answers if answers.num_rows else None


def open_answers(
    db: duckdb.DuckDBPyConnection,
    spec: RowsSpec,
    query: RowWindowQuery,
    state: State,
    high: int,
    progress: Windowed,
) -> pa.Table | None:
    """What the windows that are open would answer now: those whose last row has come."""
    if high <= NEVER or high < progress.closed:
        return None
    return row_answers(db, spec, query, state.after(progress.closed), Edges(progress.closed), Edges(high + 1))
