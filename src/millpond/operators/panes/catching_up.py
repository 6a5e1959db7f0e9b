"""Catch up: answer windows that closed while nobody answered, as a query would have that answered all the time.

One function for back-fills, ad hoc queries, and queries that resume or whose back-fill took several epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.owed import Owed
from millpond.operators.panes.advance import behind
from millpond.operators.windowed.advance import Advanced, advanced, horizon_of
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.evaluation import Evaluation, Shown, earliest, end_pane, first_end
from millpond.operators.windowed.window_progress import WindowProgress
from millpond.progress import FOREVER
from millpond.synopses import PanesSpec, merge_partials
from millpond.synopses.pane_partials import regroup
from millpond.synopses.partials.late_exclusions import CUT, separate, without_cut
from millpond.types import WindowQuery
from millpond.windows.candidates import Ints
from millpond.windows.pane_layout import FAR


def catch_up(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    state: Shown,
    parts: Sequence[pa.Table],
    closing: Closing[WindowQuery],
) -> Advanced[WindowProgress]:
    """Close the windows that nobody answered, and revise those closed before.

    Windows are answered in ascending ranges; before each one the late rows become visible that count from there on.

    Args:
        state: what was there when the query answered last. parts: pane rows that came since, with their cuts.
    """
    query, options, progress, bound = closing.query, closing.options, closing.before, closing.until
    high, groups = closing.known, closing.groups
    task = Evaluation(db, spec, query, options, state, closing.given)
    window = task.window
    closed, until = task.until(progress.closed, high), task.until(bound, closing.reached)
    before, after = task.edges(progress, bound, groups, high, closing.reached)
    furthest, last = before.most, max(until, after.most)
    own = groups is not None and bool(before.further or after.further)
    revising = closing.late == "revise"
    spare = query.revised_for(options) if revising else options.delay
    horizon = end_pane(spec, window, horizon_of(query, options, progress, high)) if revising else closed
    start = end_pane(spec, window, progress.start) if closing.owes else horizon
    # Cuts say from where on a late row counts where answers leave such rows out.
    on_time, marked = ([without_cut(db, spec, p) for p in parts], None) if closing.owes else separate(parts)
    rows = _Ranges(db, spec, on_time, marked, lambda cut: max(horizon, end_pane(spec, window, cut - spare)))
    changed: list[pa.Table | None] = []
    fresh: list[pa.Table | None] = []
    too_late, first, low = rows.lost(task.last_end), progress.own.first, horizon
    first = earliest(first, first_end(spec, window, rows.on_time, start))
    owed: Sequence[Owed] = ()
    if closing.owes:
        owed = task.owed(rows.on_time, start, horizon, (progress.own.first, first), closing.epoch)
    elif revising and rows.on_time.num_rows:
        too_late += behind(rows.on_time, task.last_end, horizon, before)[1]
    for limit in [*(n for n in rows.limits if horizon < n < last), last]:
        first = earliest(first, *(first_end(spec, window, t, low) for t in rows.reveal(low)))
        state.show(rows.between(task.since(low), limit))
        if revising and low < min(limit, furthest):
            ends = before.map(partial(min, limit))
            touched, _ = behind(state.delta, task.last_end, low, ends)
            changed.append(task.revise(touched, low, ends.most, progress.own.first, first, ends if own else None))
        if limit > max(low, closed):
            pair = (before.map(partial(max, low)), after.map(partial(min, limit))) if own else None
            fresh.append(task.close(max(low, closed), limit, first, bound >= FOREVER and limit == last, pair))
        low = limit
    return advanced(closing, changed, fresh, first, too_late if revising else 0, owed)


class _Ranges:
    """Pane rows by the windows they count in: all, or those that end behind a limit (a pane number)."""

    def __init__(
        self,
        db: duckdb.DuckDBPyConnection,
        spec: PanesSpec,
        on_time: list[pa.Table],
        marked: pa.Table | None,
        limit_of: Callable[[int], int],
    ) -> None:
        self._db, self._spec = db, spec
        self.on_time = merge_partials(db, spec, on_time)
        self.limits: list[int] = []
        self._late: dict[int, pa.Table] = {}
        self._seen: list[pa.Table] = []
        self._sorted: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
        if marked is None:
            return
        cuts, place = np.unique(marked[CUT].to_numpy(), return_inverse=True)
        limits = np.array([limit_of(int(c)) for c in cuts], np.int64)[place]
        order = np.argsort(limits, kind="stable")
        ordered = marked.drop_columns([CUT]).take(pa.array(order))
        values, starts = np.unique(limits[order], return_index=True)
        ends = [*starts[1:], len(order)]
        self._late = {int(v): ordered.slice(a, b - a) for v, a, b in zip(values, starts, ends, strict=True)}
        self.limits = sorted(self._late)
        if self.on_time.num_rows and len(self.limits) > 1:
            self.on_time = self.on_time.sort_by("pane")
            self._sorted = self.on_time["pane"].to_numpy()

    def lost(self, last: Callable[[Ints], Ints]) -> int:
        """How many rows count in no window at all; `last` as of `behind`."""
        return sum(int(t["n"].to_numpy()[last(t["pane"].to_numpy()) <= limit].sum()) for limit, t in self._late.items())

    def reveal(self, limit: int) -> list[pa.Table]:
        """The late rows that count in windows behind `limit` and in none before."""
        # Rows of one limit may have come in several epochs, and then recur.
        shown = [regroup(self._db, self._spec, self._late[limit])] if limit in self._late else []
        self._seen += shown
        return shown

    def between(self, low: int, high: int) -> pa.Table:
        """Visible pane rows with low <= pane < high, one per (pane, group)."""
        if self._sorted is not None:
            start, end = np.searchsorted(self._sorted, [max(low, -FAR), high])
            on_time = self.on_time.slice(int(start), int(end - start))
        else:
            on_time = self.on_time
        kept = [t.filter(pc.greater_equal(t["pane"], low)) for t in self._seen]
        self._seen = [t for t in kept if t.num_rows]
        return merge_partials(self._db, self._spec, [t for t in (on_time, *self._seen) if t.num_rows])
