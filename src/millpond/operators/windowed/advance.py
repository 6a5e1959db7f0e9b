"""Advance a standing query: the windows that progress has closed, and the closed ones that late rows revise.

A pure function of pane state before and after, and of two bounds; live epochs use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.records import QueryProgress
from millpond.operators.rows.advance import advance_rows
from millpond.operators.windowed.evaluation import Evaluation, State, earliest, end_pane, first_end
from millpond.operators.windowed.group_bounds import Edges, GroupBounds, closed_groups
from millpond.progress import FOREVER, NEVER
from millpond.synopses import PanesSpec
from millpond.synopses.finish import identity
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.rows import RowsSpec, revised_for
from millpond.types import DAY, KindWindow, QueryOptions, RowWindowQuery, WindowedQuery
from millpond.windows import Cover


@dataclass(frozen=True)
class Advanced:
    """What an epoch gives for a query: rows to report, revision numbers to remember, its new progress.

    early: those of the rows that are early answers, to be remembered as shown (see `operators.windowed.early`).
    sums: what is known of groups more than before (see `millpond.operators.relation.group_sums`).
    """

    answers: pa.Table | None
    revisions: pa.Table | None
    progress: QueryProgress
    early: pa.Table | None = None
    sums: pa.Table | None = None


def revise_for(query: WindowedQuery, options: QueryOptions) -> int:
    """How long behind progress closed windows can be revised (SEMANTICS, late rows): microseconds."""
    if isinstance(query, RowWindowQuery):
        return revised_for(query, options)
    if options.revise_for is not None:
        return options.revise_for
    return max(DAY, 10 * (query.window.length if isinstance(query.window, KindWindow) else query.window.range))


def horizon_of(query: WindowedQuery, options: QueryOptions, progress: QueryProgress, high: int) -> int:
    """The event time up to which windows are final: late rows change those that end behind it."""
    return max(progress.start, min(progress.closed, high) - revise_for(query, options))


def advance(
    db: duckdb.DuckDBPyConnection,
    spec: Spec,
    query: WindowedQuery,
    options: QueryOptions,
    late: str,
    state: State,
    progress: QueryProgress,
    bound: int,
    high: int,
    revisions: Callable[[int, int], pa.Table | None],
    groups: GroupBounds | None = None,
    reached: int | None = None,
) -> Advanced:
    """Close windows up to `bound` and revise closed ones.

    Arguments:
        late: 'revise' or 'drop', of the stream.
        progress: how far the query had answered. high, reached: high watermark of the stream before and after the
            epoch; reached None: the same.
        revisions: see `Evaluation`. groups: bounds of groups that are ahead of `bound`, on a stream that has them.
    """
    if isinstance(query, RowWindowQuery):
        assert isinstance(spec, RowsSpec)
        both = advance_rows(db, spec, query, late, state, progress, bound, revisions, options.pairs)
        return advanced(query, progress, [both[0]], [both[1]], bound, None, 0)
    assert isinstance(spec, PanesSpec)
    task = Evaluation(db, spec, query, options, state, revisions)
    reached = high if reached is None else reached
    closed, until = task.until(progress.closed, high), task.until(bound, reached)
    before, after = task.edges(progress, bound, groups, high, reached)
    own, furthest = bool(before.further or after.further), before.most
    revising = late == "revise" and (progress.closed > NEVER or furthest > closed)
    horizon = end_pane(spec, task.window, horizon_of(query, options, progress, high)) if revising else closed
    first = earliest(progress.first, first_end(spec, task.window, state.delta, horizon))
    changed, fresh, too_late = None, None, 0
    if revising and state.delta.num_rows:
        touched, too_late = behind(state.delta, task.cover, horizon, before)
        if touched.num_rows:
            changed = task.revise(touched, horizon, furthest, progress.first, first, before if own else None)
    if after != before:
        pair = (before, after) if own else None
        fresh = task.close(closed, max(until, after.most), first, bound >= FOREVER, pair)
    return advanced(query, progress, [changed], [fresh], bound, first, too_late, groups)


def behind(rows: pa.Table, cover: Cover, horizon: int, closed: int | Edges) -> tuple[pa.Table, int]:
    """The pane rows that lie in windows with horizon < end <= closed, and how many rows come too late for any."""
    if not rows.num_rows:
        return rows, 0
    pane = rows["pane"].to_numpy()
    late = pane < (closed.of(rows) if isinstance(closed, Edges) else closed)
    lost = late & (cover.lasts(pane) <= horizon)
    return rows.filter(pa.array(late & ~lost)), int(rows["n"].to_numpy()[lost].sum())


def advanced(
    query: WindowedQuery,
    progress: QueryProgress,
    changed: Sequence[pa.Table | None],
    fresh: Sequence[pa.Table | None],
    bound: int,
    first: int | None,
    too_late: int,
    groups: GroupBounds | None = None,
) -> Advanced:
    """Put together what `Evaluation.revise` and `Evaluation.close` gave for ranges of windows."""
    revised = [t for t in changed if t is not None and t.num_rows]
    closed = [_first_answers(t) for t in fresh if t is not None and t.num_rows]
    answers = [*revised, *closed]
    revised = [without_replaced(t) for t in revised]
    return Advanced(
        pa.concat_tables(answers, promote_options="permissive") if answers else None,
        numbers(query, pa.concat_tables(revised, promote_options="permissive")) if revised else None,
        replace(
            progress,
            closed=max(progress.closed, bound),
            first=first,
            windows=progress.windows + sum(t.num_rows for t in closed),
            revisions=progress.revisions + sum(t.num_rows for t in revised),
            too_late=progress.too_late + too_late,
            groups=closed_groups(max(progress.closed, bound), groups, progress.groups),
        ),
    )


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
