"""Advance a standing query: the windows that progress has closed, and the closed ones that late rows revise.

A pure function of pane state before and after, and of two bounds; live epochs, back-fill and ad hoc queries all use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.engine.records import QueryProgress
from millpond.progress import FOREVER, NEVER
from millpond.synopses import PanesSpec, finish_windows, query_table
from millpond.synopses.finish import fold_windows, identity
from millpond.synopses.panes import group_codes
from millpond.types import DAY, BoundQuery, QueryOptions, Window
from millpond.windows import Rows, last_end_until, late_pairs
from millpond.windows.candidates import Ints

#: Bounds of pane numbers: beyond any event time, within int64.
_FAR = 2**61

#: Windows that one ungrouped query with empty='report' may report in one epoch.
EMPTY_LIMIT = 5_000_000


def first_end(spec: PanesSpec, window: Window, rows: pa.Table) -> int | None:
    """The end (microseconds) of the first window that holds one of the pane rows; None if no window does."""
    if not rows.num_rows:
        return None
    width, step, offset = spec.panes.shape(window)
    pane = rows["pane"].to_numpy()
    end = offset - ((offset - (pane + 1)) // step) * step
    held = end <= pane + width
    return spec.panes.start(int(end[held].min())) if held.any() else None


def earliest(a: int | None, b: int | None) -> int | None:
    """The smaller of two times of which either may be missing."""
    return b if a is None else a if b is None else min(a, b)


class State(Protocol):
    """Pane rows of a synopsis; see `millpond.engine.state.PaneState`."""

    delta: pa.Table

    def before(self, low: int) -> pa.Table:
        """Pane rows from pane `low` on, without the delta."""
        ...

    def after(self, low: int) -> pa.Table:
        """Pane rows from pane `low` on, with the delta."""
        ...


@dataclass(frozen=True)
class Advanced:
    """What an epoch gives for a query: rows to report, revision numbers to remember, its new progress."""

    answers: pa.Table | None
    revisions: pa.Table | None
    progress: QueryProgress


def revise_for(query: BoundQuery, options: QueryOptions) -> int:
    """How long behind progress closed windows can be revised (SEMANTICS, late rows): microseconds."""
    assert query.window is not None
    return options.revise_for if options.revise_for is not None else max(DAY, 10 * query.window.range)


def end_pane(spec: PanesSpec, window: Window, bound: int) -> int:
    """The last window end at or before `bound`, as a pane number."""
    if bound <= NEVER:
        return -_FAR
    return max(-_FAR, min(_FAR, (last_end_until(window, bound) - spec.panes.phase) // spec.panes.width))


def advance(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: BoundQuery,
    options: QueryOptions,
    late: str,
    state: State,
    progress: QueryProgress,
    bound: int,
    high: int,
    revisions: Callable[[int, int], pa.Table | None],
) -> Advanced:
    """Close windows up to `bound` and revise closed ones.

    Arguments:
        late: 'revise' or 'drop', of the stream.
        progress: how far the query had answered. high: high watermark of the stream before the epoch.
        revisions: (low, high) -> revision numbers given so far to windows that end in that range: columns end, _k*,
            revision.
    """
    assert query.window is not None
    window = query.window
    width, _, _ = spec.panes.shape(window)
    closed, until = end_pane(spec, window, progress.closed), end_pane(spec, window, bound)
    first = earliest(progress.first, first_end(spec, window, state.delta))
    answers: list[pa.Table] = []
    numbers: pa.Table | None = None
    too_late = 0
    if late == "revise" and progress.closed > NEVER and state.delta.num_rows:
        horizon = end_pane(spec, window, max(progress.start, min(progress.closed, high) - revise_for(query, options)))
        pane = state.delta["pane"].to_numpy()
        behind = pane < closed
        if behind.any():
            lost = behind & (pane + width <= horizon)
            too_late = int(state.delta["n"].to_numpy()[lost].sum())
            touched = behind & ~lost
            if touched.any():
                changed = _revise(
                    db,
                    spec,
                    query,
                    options,
                    state,
                    state.delta.filter(pa.array(touched)),
                    horizon,
                    closed,
                    progress.first,
                    revisions,
                )
                if changed is not None and changed.num_rows:
                    answers.append(changed)
                    numbers = _numbers(query, changed)
    fresh = None
    if until > closed:
        fresh = _close(db, spec, query, options, state, closed, until, first, bound >= FOREVER)
    reported = 0
    if fresh is not None and fresh.num_rows:
        n = fresh.num_rows
        reported = n
        fresh = fresh.append_column("revision", pa.array(np.zeros(n, np.int64))).append_column(
            "op", pa.array(["+"] * n)
        )
        answers.append(fresh)
    return Advanced(
        pa.concat_tables(answers, promote_options="permissive") if answers else None,
        numbers,
        replace(
            progress,
            closed=max(progress.closed, bound),
            first=first,
            windows=progress.windows + reported,
            revisions=progress.revisions + sum(a.num_rows for a in answers) - reported,
            too_late=progress.too_late + too_late,
        ),
    )


def reach_of(spec: PanesSpec, query: BoundQuery, options: QueryOptions) -> int | None:
    """Panes before an end in which a group must have a row to be reported; None: the window itself."""
    assert query.window is not None
    width = spec.panes.shape(query.window)[0]
    return 2 * width if options.empty == "report" and query.keys else None


def _close(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: BoundQuery,
    options: QueryOptions,
    state: State,
    closed: int,
    until: int,
    first: int | None,
    ended: bool,
) -> pa.Table | None:
    assert query.window is not None
    width, _, _ = spec.panes.shape(query.window)
    reach = reach_of(spec, query, options)
    rows = state.after(max(-_FAR, closed + 1 - (reach or width)))
    if rows.num_rows:
        rows = _below(rows, until)
    if options.empty == "report" and not query.keys:
        return _close_all(db, spec, query, rows, closed, until, first, ended)
    if not rows.num_rows:
        return None
    folded = fold_windows(db, spec, query, rows, None, None, closed, until, reach)
    return finish_windows(db, query, spec.time, folded) if folded.num_rows else None


def _close_all(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: BoundQuery,
    rows: pa.Table,
    closed: int,
    until: int,
    first: int | None,
    ended: bool,
) -> pa.Table | None:
    """Every window from the first with data up to `until`, empty or not."""
    if first is None:
        return None
    assert query.window is not None
    width, step, offset = spec.panes.shape(query.window)
    low = max(closed, spec.panes.pane(first) - 1)
    if ended:  # the source has ended: nothing is empty beyond the last window with data
        until = low if not rows.num_rows else pc.max(rows["pane"]).as_py() + width
    start = offset - ((offset - (low + 1)) // step) * step
    count = max(0, (until - start) // step + 1)
    if count > EMPTY_LIMIT:
        raise ValueError(f"empty='report' would report {count} windows in one epoch; at most {EMPTY_LIMIT} are allowed")
    ends = start + np.arange(count) * step
    if not count:
        return None
    if not rows.num_rows:
        rows = no_panes()
    pairs = (np.zeros(count, np.int64), ends)
    folded = fold_windows(db, spec, query, rows, pairs, np.zeros(rows.num_rows, np.int64), 0, 0, reach=_FAR)
    return finish_windows(db, query, spec.time, folded)


def no_panes() -> pa.Table:
    """Pane rows of an ungrouped synopsis without any row; without components, since it has no types for them."""
    return pa.table({"pane": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})


def _revise(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: BoundQuery,
    options: QueryOptions,
    state: State,
    late: pa.Table,
    horizon: int,
    closed: int,
    first: int | None,
    revisions: Callable[[int, int], pa.Table | None],
) -> pa.Table | None:
    """Rows of closed windows that the late pane rows changed, with their new revision and op."""
    if options.empty == "report" and not query.keys:
        return _revise_all(db, spec, query, state, late, horizon, closed, first, revisions)
    assert query.window is not None
    shape = width, _, _ = spec.panes.shape(query.window)
    reach = reach_of(spec, query, options)
    low = max(-_FAR, max(horizon + 1, pc.min(late["pane"]).as_py() + 1) - 2 * (reach or width))
    before, after = _below(state.before(low), closed), _below(state.after(low), closed)
    keys = [
        t.select([k for k in spec.key_names]) if spec.keys else t.select(["pane"])
        for t in (before, after, late)
        if t.num_rows
    ]
    codes = group_codes(db, spec, pa.concat_tables(keys, promote_options="permissive"))
    of_before, of_after, of_late = (
        codes[: before.num_rows],
        codes[before.num_rows : before.num_rows + after.num_rows],
        codes[before.num_rows + after.num_rows :],
    )
    pairs = late_pairs(of_late, late["pane"].to_numpy(), shape, horizon, closed, reach)
    if not len(pairs[1]):
        return None
    if spec.single:
        ends = pairs[1]
        pairs = _whole_windows(after, of_after, shape, horizon, closed, ends, reach)
        of_pairs_before = _whole_windows(before, of_before, shape, horizon, closed, ends, reach)
    else:
        touched = np.unique(of_late)
        before, of_before = _groups(before, of_before, touched)
        after, of_after = _groups(after, of_after, touched)
        of_pairs_before = pairs
    old = _answers(db, spec, query, before, of_before, of_pairs_before, reach)
    new = _answers(db, spec, query, after, of_after, pairs, reach)
    if old is None and new is None:
        return None
    ends = spec.panes.phase + pairs[1] * spec.panes.width
    given = revisions(int(ends.min()), int(ends.max()))
    return _difference(db, query, old, new, given)


def _revise_all(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: BoundQuery,
    state: State,
    late: pa.Table,
    horizon: int,
    closed: int,
    first: int | None,
    revisions: Callable[[int, int], pa.Table | None],
) -> pa.Table | None:
    """As `_revise`, for a query that reports every window from the first with data on, empty or not."""
    assert query.window is not None
    shape = spec.panes.shape(query.window)
    width, step, _ = shape
    _, ends = late_pairs(np.zeros(late.num_rows, np.int64), late["pane"].to_numpy(), shape, horizon, closed)
    if not len(ends):
        return None
    known = closed if first is None else spec.panes.pane(first)
    if ends.min() < known:  # the late row comes before all others: the windows up to them are empty ones now
        ends = np.union1d(ends, np.arange(ends.min(), min(known, closed + 1), step))
    low = max(-_FAR, int(ends.min()) - width)
    tables: list[pa.Table | None] = []
    for rows, wanted in ((state.before(low), ends[ends >= known]), (state.after(low), ends)):
        if not len(wanted):
            tables.append(None)
            continue
        rows = _below(rows, closed) if rows.num_rows else no_panes()
        codes, groups = np.zeros(rows.num_rows, np.int64), np.zeros(len(wanted), np.int64)
        folded = fold_windows(db, spec, query, rows, (groups, wanted), codes, 0, 0, reach=_FAR)
        tables.append(finish_windows(db, query, spec.time, folded))
    given = revisions(spec.panes.start(int(ends.min())), spec.panes.start(int(ends.max())))
    return _difference(db, query, tables[0], tables[1], given)


def _answers(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: BoundQuery,
    rows: pa.Table,
    codes: Ints,
    pairs: tuple[Ints, Ints],
    reach: int | None,
) -> pa.Table | None:
    if not rows.num_rows:
        return None
    if reach is not None:
        sorted_rows, _ = Rows.sort(codes, rows["pane"].to_numpy())
        low, high = sorted_rows.runs(*pairs, reach)
        pairs = (pairs[0][high > low], pairs[1][high > low])
    folded = fold_windows(db, spec, query, rows, pairs, codes, 0, 0, reach)
    return finish_windows(db, query, spec.time, folded)


def _whole_windows(
    rows: pa.Table, codes: Ints, shape: tuple[int, int, int], after: int, until: int, ends: Ints, reach: int | None
) -> tuple[Ints, Ints]:
    if not rows.num_rows:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    group, end = Rows.sort(codes, rows["pane"].to_numpy())[0].ends(shape, after, until, reach)
    chosen = np.isin(end, ends)
    return group[chosen], end[chosen]


def _groups(table: pa.Table, codes: Ints, touched: Ints) -> tuple[pa.Table, Ints]:
    if not table.num_rows:
        return table, codes
    mask = np.isin(codes, touched)
    return (table, codes) if mask.all() else (table.filter(pa.array(mask)), codes[mask])


def _below(table: pa.Table, pane: int) -> pa.Table:
    if not table.num_rows:
        return table
    mask = pc.less(table["pane"], pane)
    return table if pc.all(mask).as_py() else table.filter(mask)


def _difference(
    db: duckdb.DuckDBPyConnection, query: BoundQuery, old: pa.Table | None, new: pa.Table | None, given: pa.Table | None
) -> pa.Table:
    """Changed rows as '+', vanished rows as '-', each with the next revision of its (window, group)."""
    model = new if new is not None else old
    assert model is not None
    old, new = (old if old is not None else model.slice(0, 0)), (new if new is not None else model.slice(0, 0))
    key = ["window_end", *identity(query)]
    same = " AND ".join(f"a.{c} IS NOT DISTINCT FROM b.{c}" for c in key)
    values = ['"' + o.name.replace('"', '""') + '"' for o in query.select]
    differs = " OR ".join(f"a.{v} IS DISTINCT FROM b.{v}" for v in values) or "false"
    known = "(SELECT *, true AS there FROM old)"
    changes = (
        f"SELECT a.*, '+' AS op, b.there FROM new a LEFT JOIN {known} b ON {same} WHERE b.there IS NULL OR {differs}"
        " UNION ALL SELECT b.*, '-' AS op, true AS there FROM old b"
        f" WHERE NOT EXISTS (SELECT 1 FROM new a WHERE {same})"
    )
    if given is None or not given.num_rows:
        # A row that was not there before is a first answer, though of a closed window: revision 0.
        number, join = "(CASE WHEN c.there THEN 1 ELSE 0 END)::BIGINT", ""
        tables = {"old": old, "new": new}
    else:
        number = "(CASE WHEN c.there OR g.revision IS NOT NULL THEN coalesce(g.revision, 0) + 1 ELSE 0 END)::BIGINT"
        matched = " AND ".join(
            ['epoch_us(c.window_end) = g."end"', *(f"c.{k} IS NOT DISTINCT FROM g.{k}" for k in identity(query))]
        )
        join = f" LEFT JOIN given g ON {matched}"
        tables = {"old": old, "new": new, "given": given}
    return query_table(
        db, f"SELECT c.* EXCLUDE (op, there), {number} AS revision, c.op FROM ({changes}) c{join}", **tables
    )


def _numbers(query: BoundQuery, changed: pa.Table) -> pa.Table:
    ends = changed["window_end"].cast(pa.int64())
    return pa.table({"end": ends, **{k: changed[k] for k in identity(query)}, "revision": changed["revision"]})
