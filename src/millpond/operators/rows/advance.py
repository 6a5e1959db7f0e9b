"""Advance windows that end with rows, from the rows themselves.

A window is closed when progress is beyond its end: rows of equal event time may still come until then. Late rows move
the numbers of all rows behind them, so the closed windows of their partitions that end from the earliest one on are
answered anew, and what differs is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa

from millpond.manifests.owed import Owed, owed_together
from millpond.operators.windowed.advance import Advanced, advanced, horizon_of
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.evaluation import Shown, State, difference
from millpond.operators.windowed.group_bounds import Edges, edges_of
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.progress import NEVER
from millpond.synopses import RowsSpec, finish_windows, merge_partials
from millpond.synopses.row_answers import earliest_time, fold_row_windows, touched
from millpond.types import RowWindowQuery


def advance(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, state: State, closing: Closing[RowWindowQuery]
) -> Advanced[WindowProgress]:
    """Close windows, and revise closed ones that late rows of the delta change; groups have edges of their own."""
    changed, fresh = None, None
    query, delta = closing.query, state.delta
    before, after = edges_of(closing.before.closed, closing.until, closing.groups, closing.before.own.groups, int)
    closed, furthest = before.common, before.most
    if closing.late == "revise" and furthest > NEVER and delta.num_rows:
        behind = delta.filter(pa.array(delta["pane"].to_numpy() < before.of(delta)))
        low = max(earliest_time(behind), closing.before.start) if behind.num_rows else furthest
        if closing.owes:
            low = max(low, covered_from(closing))
        if low < furthest:
            old, new = touched(db, spec, behind, state.before(low), state.after(low))
            was, now = (row_answers(db, spec, query, rows, Edges(low), before) for rows in (old, new))
            changed = difference(db, query, was, now, closing.given(low, furthest), closing.options.pairs)
    if after != before:
        fresh = row_answers(db, spec, query, state.after(closed), before, after)
    return advanced(closing, [changed], [fresh], None, owed=owed(delta, closing))


def covered_from(closing: Closing[RowWindowQuery]) -> int:
    """The instant from which on state covers the windows that end there."""
    return min(closing.before.closed, horizon_of(closing.query, closing.options, closing.before, closing.known))


def owed(rows: pa.Table, closing: Closing[RowWindowQuery]) -> tuple[Owed, ...]:
    """What an epoch owes for its rows: they move the numbers of all rows behind them."""
    if not closing.owes or closing.before.closed <= NEVER or not rows.num_rows:
        return ()
    low = max(earliest_time(rows), closing.before.start)
    return owed_together([Owed(low, covered_from(closing), closing.epoch, closing.epoch)])


def catch_up(
    db: duckdb.DuckDBPyConnection,
    spec: RowsSpec,
    state: Shown,
    parts: Sequence[pa.Table],
    closing: Closing[RowWindowQuery],
) -> Advanced[WindowProgress]:
    """Close the windows that nobody answered, and revise those closed before; cuts are a matter of the rows.

    Args:
        state: what was there when the query answered last. parts: rows that came since.
    """
    state.show(merge_partials(db, spec, list(parts)))
    return advance(db, spec, state, replace(closing, reached=closing.known))


def row_answers(
    db: duckdb.DuckDBPyConnection, spec: RowsSpec, query: RowWindowQuery, rows: pa.Table, since: Edges, before: Edges
) -> pa.Table | None:
    """The answers of the windows that end at since <= t < before; since: its `common` is the least of its edges."""
    if before.most <= since.common:
        return None
    folded = fold_row_windows(db, spec, query, rows, since.common, before.most)
    if folded is None:
        return None
    if since.further or before.further:
        ends = folded["end"].to_numpy()
        folded = folded.filter(pa.array((ends >= since.of(folded)) & (ends < before.of(folded))))
    answers = finish_windows(db, query, spec.time, folded)
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
