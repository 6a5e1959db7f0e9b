"""Advance windows that end at instants: those that progress has closed, and the closed ones that late rows revise.

Pure functions of pane state before and after, and of bounds; live epochs use them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import duckdb
import pyarrow as pa

from millpond.manifests.owed import Owed, owed_together
from millpond.operators.windowed.advance import Advanced, advanced, horizon_of
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.evaluation import Evaluation, State, earliest, end_pane, first_end
from millpond.operators.windowed.group_bounds import Edges
from millpond.operators.windowed.past_windows import HistoryState
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.progress import FOREVER, NEVER
from millpond.synopses import PanesSpec
from millpond.types import QueryOptions, WindowQuery
from millpond.windows import first_end_after
from millpond.windows.candidates import Ints


def advance(
    db: duckdb.DuckDBPyConnection, spec: PanesSpec, state: State, closing: Closing[WindowQuery]
) -> Advanced[WindowProgress]:
    """Close windows, and revise closed ones that rows of the delta touch."""
    query, progress, bound, high = closing.query, closing.before, closing.until, closing.known
    task = Evaluation(db, spec, query, closing.options, state, closing.given)
    closed, until = task.until(progress.closed, high), task.until(bound, closing.reached)
    before, after = task.edges(progress, bound, closing.groups, high, closing.reached)
    own, furthest = bool(before.further or after.further), before.most
    revising = closing.late == "revise" and (progress.closed > NEVER or furthest > closed)
    horizon = end_pane(spec, task.window, horizon_of(query, closing.options, progress, high)) if revising else closed
    owes = revising and closing.owes
    start = end_pane(spec, task.window, progress.start) if owes else horizon
    first = earliest(progress.own.first, first_end(spec, task.window, state.delta, start))
    owed: tuple[Owed, ...] = ()
    changed, fresh, too_late = None, None, 0
    if revising and state.delta.num_rows:
        touched, lost = behind(state.delta, task.last_end, horizon, before)
        if owes:
            owed = task.owed(state.delta, start, horizon, (progress.own.first, first), closing.epoch)
        else:
            too_late = lost
        changed = task.revise(touched, horizon, furthest, progress.own.first, first, before if own else None)
    if after != before:
        pair = (before, after) if own else None
        fresh = task.close(closed, max(until, after.most), first, bound >= FOREVER, pair)
    return advanced(closing, [changed], [fresh], first, too_late, owed)


def owed(db: duckdb.DuckDBPyConnection, spec: PanesSpec, rows: pa.Table, closing: Closing[WindowQuery]) -> Windowed:
    """The progress before an epoch, with what it owes for its rows of windows that state does not cover."""
    query, progress = closing.query, closing.before
    if progress.closed <= NEVER:
        return progress
    task = Evaluation(db, spec, query, closing.options, HistoryState(rows), closing.given)
    start = end_pane(spec, task.window, progress.start)
    horizon = end_pane(spec, task.window, horizon_of(query, closing.options, progress, closing.known))
    known, floor = progress.own.first, progress.floor
    first = earliest(known, first_end(spec, task.window, rows, start))
    if task.reports_all and known is not None and first != known:
        # State will not tell that the windows from here to the first one were empty: they are all owed.
        horizon = max(horizon, min(end_pane(spec, task.window, progress.closed), spec.panes.pane(known) - 1))
        floor = max(floor, spec.panes.start(horizon))
    found = task.owed(rows, start, horizon, (known, first), closing.epoch)
    if not found:
        return progress
    own = replace(progress.own, first=first)
    return replace(progress, own=own, floor=floor, owed=owed_together([*progress.owed, *found]))


def behind(rows: pa.Table, last: Callable[[Ints], Ints], horizon: int, closed: int | Edges) -> tuple[pa.Table, int]:
    """The pane rows that count in windows with horizon < end <= closed, and how many rows come too late for any.

    Args:
        last: the last ends that panes count in.
    """
    if not rows.num_rows:
        return rows, 0
    pane = rows["pane"].to_numpy()
    late = pane < (closed.of(rows) if isinstance(closed, Edges) else closed)
    lost = late & (last(pane) <= horizon)
    return rows.filter(pa.array(late & ~lost)), int(rows["n"].to_numpy()[lost].sum())


def open_answers(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: WindowQuery,
    options: QueryOptions,
    state: State,
    high: int,
    progress: Windowed,
) -> pa.Table | None:
    """What the windows on panes that are open now would answer: those that end up to the first end behind `high`.

    Arguments:
        state: pane rows of everything that has come. high: high watermark of the stream. progress: of the query, now.
    """
    # Windows without a row are not shown early, wherever the query reports them.
    task = Evaluation(db, spec, query, replace(options, empty="skip"), state, lambda low, high: None)
    if high <= NEVER:
        return None
    after, until = (
        end_pane(spec, task.window, progress.closed),
        end_pane(spec, task.window, first_end_after(task.window, high)),
    )
    return task.close(after, until, None, False) if until > after else None
