"""What an input of a relation holds: its rows, and when each of them is in its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millpond.relations.runs import Run
from millpond.relations.spans import Ints, ends_of, spans_of, visible_from
from millpond.types import HOLDS, RangeWindow, RelationInput

#: Begin and end of rows that are in the window at no instant: before all that is looked at.
NOWHERE = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Content:
    """Rows of an input in total order, with the intervals [begin, end) in which they are in its window.

    runs: the same rows in stretches, which are sorted by key for joins; none: of rows that have no time.
    reach: every row ends at most so long after its time, microseconds; negative: whenever it does.
    plain: every row begins at its time, and ends `reach` after it.
    """

    rows: pa.Table
    begin: Ints
    end: Ints
    runs: tuple[Run, ...] = ()
    reach: int = -1
    plain: bool = False

    def at(self, instant: int) -> pa.Table:
        """The rows in the window at an instant."""
        return self.rows.filter(pa.array((self.begin <= instant) & (instant < self.end)))


def content_of(db: duckdb.DuckDBPyConnection, item: RelationInput, rows: pa.Table, spare: int) -> Content:
    """The content of an input.

    Arguments:
        rows: the rows kept of its stream (`stored_rows.rows_of`): `_t`, `_id`, `_cut` and columns.
        spare: how long behind the progress that it was behind a late row still changes answers, microseconds. Instants
            before that are final, so the row is seen from there on; 0 where first answers are final (`late='drop'`).
    """
    rows, visible, end = spans_of(db, item, rows, spare)
    inside = end > visible
    if item.mark is not None:
        inside &= rows[HOLDS].to_numpy()
    late = rows["_cut"].null_count < rows.num_rows
    if not inside.all():
        rows, visible, end = rows.filter(pa.array(inside)), visible[inside], end[inside]
    columns = rows.select([c.name for c in item.columns])
    run = Run(columns, np.array(rows["_t"]), np.array(rows["_id"]))
    plain = isinstance(item.window, RangeWindow) and not late
    return Content(columns, visible, end, (run,), _reach(item), plain)


def content_of_runs(
    db: duckdb.DuckDBPyConnection,
    item: RelationInput,
    runs: Sequence[Run],
    spare: int,
    rows: pa.Table,
    last: int | None,
) -> Content:
    """As `content_of`, of all rows of some runs: those that are not in the window are there, but at no instant.

    Arguments:
        rows: those of the runs, with the cuts that the query sees. last: rows of later epochs are not seen; None: all.
    """
    assert not item.signed
    times = np.concatenate([r.times for r in runs])
    seen = np.ones(len(times), bool) if last is None else rows["_epoch"].to_numpy() <= last
    whole = bool(seen.all())
    held, times = (rows, times) if whole else (rows.filter(pa.array(seen)), times[seen])
    visible = visible_from(held, times, spare)
    leaves = ends_of(db, item, held, times, visible)
    inside = leaves > visible
    if item.mark is not None:
        inside &= held[HOLDS].to_numpy()
    begin, end = visible, leaves
    plain = whole and visible is times and isinstance(item.window, RangeWindow)
    if not whole or not inside.all():
        begin, end = np.full(rows.num_rows, NOWHERE), np.full(rows.num_rows, NOWHERE)
        places = np.flatnonzero(seen)[inside]
        begin[places], end[places] = visible[inside], leaves[inside]
    columns = rows.select([c.name for c in item.columns])
    return Content(columns, begin, end, tuple(runs), _reach(item), plain)


def _reach(item: RelationInput) -> int:
    return item.window.range + 1 if isinstance(item.window, RangeWindow) else -1
