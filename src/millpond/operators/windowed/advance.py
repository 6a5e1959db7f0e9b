"""What an epoch gives for a query over windows: rows to report, revision numbers to remember, progress.

Windows that end with rows, and sessions, are made of rows that are kept as they are. Late ones move what is behind
them, so the closed windows of their partitions that end from the earliest one on are answered without and with them,
and what differs is reported (`advance_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.owed import Owed, owed_of, owed_together
from millpond.manifests.query_progress import P, QueryProgress
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.evaluation import State, difference
from millpond.operators.windowed.group_bounds import Edges, closed_groups, edges_of
from millpond.operators.windowed.window_progress import WindowProgress
from millpond.progress import NEVER
from millpond.synopses.enums import put_together
from millpond.synopses.finish import identity
from millpond.synopses.row_partials import revised_for, touched
from millpond.synopses.session_partials import session_revised_for
from millpond.types import DAY, KindWindow, QueryOptions, RowWindowQuery, SessionQuery, WindowedQuery, WindowQuery
from millpond.windows.candidates import Ints


@dataclass(frozen=True)
class Advanced(Generic[P]):
    """What an epoch gives for a query: rows to report, revision numbers to remember, its new progress.

    early: those of the rows that are early answers, to be remembered as shown (see `operators.windowed.early`).
    sums: what is known of groups more than before (see `millpond.operators.relation.group_sums`).
    """

    answers: pa.Table | None
    revisions: pa.Table | None
    progress: QueryProgress[P]
    early: pa.Table | None = None
    sums: pa.Table | None = None


def revise_for(query: WindowedQuery, options: QueryOptions) -> int:
    """How long behind progress closed windows can be revised (SEMANTICS, late rows): microseconds."""
    if isinstance(query, RowWindowQuery):
        return revised_for(query, options)
    if isinstance(query, SessionQuery):
        return session_revised_for(query, options)
    if options.revise_for is not None:
        return options.revise_for
    return max(DAY, 10 * (query.window.length if isinstance(query.window, KindWindow) else query.window.range))


def ranges_known(query: WindowedQuery, options: QueryOptions) -> int:
    """For how many RANGEs behind its last row a group is known, or a value fills windows: 0 where none needs to be."""
    if options.empty != "report" or not isinstance(query, WindowQuery) or not (query.keys or options.fill):
        return 0
    length = query.window.length if isinstance(query.window, KindWindow) else query.window.range
    known = max(DAY, 10 * length) if options.known_for is None else options.known_for
    return max(1, -(-known // length)) if length else 10


def ahead_of(query: WindowedQuery, options: QueryOptions) -> int:
    """How far behind a window rows may be that fill it (microseconds)."""
    known = ranges_known(query, options)
    return (known + 1) * query.window.range if options.ahead and isinstance(query, WindowQuery) else 0


def horizon_of(query: WindowedQuery, options: QueryOptions, progress: QueryProgress, high: int) -> int:
    """The event time up to which state does not cover windows: late rows revise those that end behind it from state."""
    return max(progress.start, progress.floor, min(progress.closed, high) - revise_for(query, options))


def advanced(
    closing: Closing[WindowedQuery],
    changed: Sequence[pa.Table | None],
    fresh: Sequence[pa.Table | None],
    first: int | None,
    too_late: int = 0,
    owed: Sequence[Owed] = (),
) -> Advanced[WindowProgress]:
    """Put together what was revised and what closed, for ranges of windows.

    Args:
        first: the end of the first window with data. too_late: rows that came too late for any window. owed: windows
            that rows came for and state does not cover.
    """
    progress, bound, own = closing.before, closing.until, closing.before.own
    revised = [t for t in changed if t is not None and t.num_rows]
    closed = [_first_answers(t) for t in fresh if t is not None and t.num_rows]
    answers = [*revised, *closed]
    revised = [without_replaced(t) for t in revised]
    return Advanced(
        put_together(answers) if answers else None,
        numbers(closing.query, put_together(revised)) if revised else None,
        replace(
            progress,
            closed=max(progress.closed, bound),
            windows=progress.windows + sum(t.num_rows for t in closed),
            revisions=progress.revisions + sum(t.num_rows for t in revised),
            too_late=progress.too_late + too_late,
            owed=owed_together([*progress.owed, *owed]),
            own=replace(
                own, first=first, groups=closed_groups(max(progress.closed, bound), closing.groups, own.groups)
            ),
        ),
    )


def no_stretches(rows: pa.Table, low: int, high: int) -> tuple[Ints, Ints]:
    """No windows are told from elsewhere."""
    return np.empty(0, np.int64), np.empty(0, np.int64)


@dataclass(frozen=True)
class OfRows:
    """How windows are told from the rows that make them.

    partition: the columns that have windows of their own. answers: of rows, those of windows that end between edges.
    unknown: of rows, where windows may end, within two instants, of which these rows do not tell.
    """

    partition: tuple[str, ...]
    answers: Callable[[pa.Table, Edges, Edges], pa.Table | None]
    unknown: Callable[[pa.Table, int, int], tuple[Ints, Ints]] = no_stretches


def advance_rows(
    db: duckdb.DuckDBPyConnection, made: OfRows, state: State, closing: Closing[WindowedQuery]
) -> Advanced[WindowProgress]:
    """Close windows, and revise closed ones that late rows of the delta change; groups have edges of their own.

    What is not told from state is owed, and waits for the bound of all groups.
    """
    changed, fresh, unknown = None, None, []
    query, delta = closing.query, state.delta
    before, after = edges_of(closing.before.closed, closing.until, closing.groups, closing.before.own.groups, int)
    closed, furthest = before.common, before.most
    since = closed  # a session that is over only now may have joined one that was over before
    if closing.late == "revise" and furthest > NEVER and delta.num_rows:
        late = delta.filter(pa.array(delta["pane"].to_numpy() < before.of(delta)))
        low = max(_earliest(late), closing.before.start) if late.num_rows else furthest
        if closing.owes:
            low = max(low, covered_from(closing))
        if low < furthest:
            since = min(low, closed)
            both = (state.before(low), state.after(low))
            old, new = (t.filter(pa.array(touched(db, made.partition, late, t))) for t in both)
            was, now = (made.answers(rows, Edges(low), before) for rows in (old, new))
            unknown += [made.unknown(rows, low, closed) for rows in (old, new)]
            changed = difference(db, query, was, now, closing.given(low, furthest), closing.options.pairs)
    if after != before:
        rows = state.after(since)
        fresh = made.answers(rows, before, after)
        unknown.append(made.unknown(rows, closed, after.common))
    behind = [*owed_for(delta, closing), *(o for each in unknown for o in owed_of(*each, closing.epoch))]
    return advanced(closing, [changed], [fresh], None, owed=behind)


def covered_from(closing: Closing[WindowedQuery]) -> int:
    """The instant from which on state covers the windows that end there."""
    return min(closing.before.closed, horizon_of(closing.query, closing.options, closing.before, closing.known))


def owed_for(rows: pa.Table, closing: Closing[WindowedQuery]) -> tuple[Owed, ...]:
    """What an epoch owes for its rows: the windows behind them, up to where state covers them."""
    if not closing.owes or closing.before.closed <= NEVER or not rows.num_rows:
        return ()
    low = max(_earliest(rows), closing.before.start)
    return owed_together([Owed(low, covered_from(closing), closing.epoch, closing.epoch)])


def between_edges(windows: pa.Table, column: str, since: Edges, before: Edges) -> pa.Table:
    """The windows that end at since <= t < before, of those between the outermost edges; column: of their ends."""
    if not since.further and not before.further:
        return windows
    ends = windows[column].to_numpy()
    return windows.filter(pa.array((ends >= since.of(windows)) & (ends < before.of(windows))))


def _earliest(rows: pa.Table) -> int:
    return int(pc.min(rows["pane"]).as_py())


def _first_answers(fresh: pa.Table) -> pa.Table:
    n = fresh.num_rows
    return fresh.append_column("revision", pa.array(np.zeros(n, np.int64))).append_column("op", pa.repeat("+", n))


def without_replaced(answers: pa.Table) -> pa.Table:
    """Answers as they are reported: without those that others replace; see `QueryOptions.pairs`."""
    return answers.filter(pc.not_equal(answers["op"], "="))


def numbers(query: WindowedQuery, changed: pa.Table) -> pa.Table:
    """The revision numbers of answers as they are remembered: columns end, _k*, revision."""
    ends = changed["window_end"].cast(pa.int64())
    return pa.table({"end": ends, **{k: changed[k] for k in identity(query)}, "revision": changed["revision"]})
