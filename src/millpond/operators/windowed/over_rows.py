"""Windows that are made of rows which are kept as they are: those that end with rows, and sessions.

Late rows move what is behind them, so the closed windows of their partitions that end from the earliest one on are
answered without and with them, and what differs is reported.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.manifests.owed import Owed, owed_of, owed_together
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.contract import ONLY_RSTREAM
from millpond.operators.windowed.advance import Advanced, advanced, horizon_of
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.evaluation import State, difference
from millpond.operators.windowed.group_bounds import Edges, edges_of
from millpond.operators.windowed.operator import WindowOperator
from millpond.operators.windowed.past_windows import HistoryState
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.progress import FOREVER, NEVER
from millpond.synopses.row_partials import touched
from millpond.types import WindowedQuery
from millpond.windows.candidates import Ints

#: Of windows that are no intervals between instants.
OF_ROWS: Final = {
    "every": ONLY_RSTREAM,
    "empty": "empty='report' is for windows that end at instants; one that ends with a row holds it",
    "state": "state='{value}' is for windows of time with a SLIDE",
    "flush": "flush='{value}' is for windows that end at instants",
}


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


class OverRows(WindowOperator):
    """Windows that are made of rows which are kept as they are: those that end with rows, and sessions."""

    ends_open = 1
    refuses: ClassVar[Mapping[str, str]] = OF_ROWS

    @staticmethod
    @abstractmethod
    def stacked(db: duckdb.DuckDBPyConnection, spec: Any, parts: Sequence[pa.Table]) -> pa.Table:
        """Rows of several epochs as those of one."""

    @classmethod
    def catch_up(
        cls, db: duckdb.DuckDBPyConnection, spec: Any, state: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowOperator`: cuts are a matter of the rows."""
        state.show(cls.stacked(db, spec, parts))
        return cls.advance(db, spec, state, replace(closing, reached=closing.known))

    @classmethod
    def close_past(
        cls, db: duckdb.DuckDBPyConnection, spec: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowKind`."""
        return cls.catch_up(db, spec, HistoryState(whole=True), parts, closing)

    def owed(self, db: duckdb.DuckDBPyConnection, rows: pa.Table, closing: Closing[Any]) -> Windowed:
        """See `WindowOperator`."""
        return replace(closing.before, owed=owed_together([*closing.before.owed, *owed_for(rows, closing)]))

    def open_end(self, known: QueryProgress) -> int:
        """See `WindowOperator`: progress must be beyond the end of a window, since a row may still come at it."""
        return 0 if known.closed >= FOREVER else 1

    def low_of(self, standing: Standing, answered: int) -> int:
        """See `WindowOperator`: an instant, from which on windows end."""
        return answered
