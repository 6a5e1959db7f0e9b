"""Advance queries over windows that end with rows: from rows in place of panes, beside `advance` and `catch_up`.

A window is closed when progress is beyond its end: rows of equal event time may still come until then. Late rows move
the numbers of all rows behind them, so the closed windows of their partitions that end from the earliest one on are
answered anew, and what differs is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.records import QueryProgress
from millpond.operators.windowed.evaluation import difference
from millpond.progress import NEVER
from millpond.synopses import RowsSpec, finish_windows
from millpond.synopses.row_answers import earliest_time, fold_row_windows, touched
from millpond.types import RowWindowQuery

Revisions = Callable[[int, int], pa.Table | None]


class RowState(Protocol):
    """Rows of a synopsis; `low` is an instant: what windows that end from it on need."""

    delta: pa.Table

    def before(self, low: int) -> pa.Table:
        """Without the delta."""
        ...

    def after(self, low: int) -> pa.Table:
        """With the delta."""
        ...


def advance_rows(
    db: duckdb.DuckDBPyConnection,
    spec: RowsSpec,
    query: RowWindowQuery,
    late: str,
    state: RowState,
    progress: QueryProgress,
    bound: int,
    revisions: Revisions,
    pairs: bool = False,
) -> tuple[pa.Table | None, pa.Table | None]:
    """What late rows of the delta change in closed windows, and the answers of windows that progress has closed.

    Arguments:
        late, progress, bound, revisions: as of `advance`. pairs: as of `difference`.
    """
    changed, fresh = None, None
    closed = progress.closed
    delta = state.delta
    if late == "revise" and closed > NEVER and delta.num_rows:
        behind = delta.filter(pc.less(delta["pane"], closed))
        if behind.num_rows:
            low = max(earliest_time(behind), progress.start)
            if low < closed:
                old, new = touched(db, spec, behind, state.before(low), state.after(low))
                was, now = (row_answers(db, spec, query, rows, low, closed) for rows in (old, new))
                changed = difference(db, query, was, now, revisions(low, closed), pairs)
    if bound > closed:
        fresh = row_answers(db, spec, query, state.after(closed), closed, bound)
    return changed, fresh


def row_answers(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, query: RowWindowQuery, rows: pa.Table, since: int, before: int
) -> pa.Table | None:
    """The answers of the windows that end at since <= t < before."""
    folded = fold_row_windows(db, spec, query, rows, since, before)
    if folded is None:
        return None
    answers = finish_windows(db, query, spec.time, folded)
    return answers if answers.num_rows else None
