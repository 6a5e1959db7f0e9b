"""When each row is in its window: CQL's windows as intervals of validity [begin, end), one per row.

Arasu, Babu and Widom, as digested in Babu 2005, 2.1: at instant τ, `[RANGE w]` holds the rows stamped in [τ - w, τ],
`[ROWS n]` the n rows with the largest stamps up to τ, `[PARTITION BY a ROWS n]` that of each partition. Ties follow the
total order of the stream (event time, _id). Instants are whole microseconds, so a row that is stamped t leaves
`[RANGE w]` at t + w + 1.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.support.compiled import compiled
from millpond.support.sql import quote
from millpond.synopses import query_table
from millpond.synopses.codes import codes_by_join
from millpond.types import HOLDS, PLACE, RelationInput, RelationWindow

if TYPE_CHECKING:
    from millpond.relations.runs import Run

Ints = npt.NDArray[np.int64]

#: The end of validity of rows that never leave.
FOR_EVER = 2**62

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
        rows: the rows kept of its stream (`stores.rows_of`): `_t`, `_id`, `_cut` and columns.
        spare: how long behind the progress that it was behind a late row still changes answers, microseconds. Instants
            before that are final, so the row is seen from there on; 0 where first answers are final (`late='drop'`).
    """
    from millpond.relations.runs import Run

    rows, visible, end = spans_of(db, item, rows, spare)
    inside = end > visible
    if item.mark is not None:
        inside &= rows[HOLDS].to_numpy()
    late = rows["_cut"].null_count < rows.num_rows
    if not inside.all():
        rows, visible, end = rows.filter(pa.array(inside)), visible[inside], end[inside]
    columns = rows.select([c.name for c in item.columns])
    run = Run(columns, np.array(rows["_t"]), np.array(rows["_id"]))
    plain = item.window.kind == "range" and not late
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
    leaves = _ends(db, item, held, times, visible)
    inside = leaves > visible
    if item.mark is not None:
        inside &= held[HOLDS].to_numpy()
    begin, end = visible, leaves
    plain = whole and visible is times and item.window.kind == "range"
    if not whole or not inside.all():
        begin, end = np.full(rows.num_rows, NOWHERE), np.full(rows.num_rows, NOWHERE)
        places = np.flatnonzero(seen)[inside]
        begin[places], end[places] = visible[inside], leaves[inside]
    columns = rows.select([c.name for c in item.columns])
    return Content(columns, begin, end, tuple(runs), _reach(item), plain)


def _reach(item: RelationInput) -> int:
    return item.window.range + 1 if item.window.kind == "range" else -1


def in_order(rows: pa.Table) -> pa.Table:
    """The rows in total order; nothing is done where they are already, which is the rule."""
    if rows.num_rows < 2:
        return rows
    times, ids = rows["_t"].to_numpy(), rows["_id"].to_numpy()
    if ((times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (ids[1:] >= ids[:-1]))).all():
        return rows
    return rows.sort_by([("_t", "ascending"), ("_id", "ascending")])


def spans_of(
    db: duckdb.DuckDBPyConnection, item: RelationInput, rows: pa.Table, spare: int
) -> tuple[pa.Table, Ints, Ints]:
    """The rows of an input that are not taken back, with all their columns, and when each is seen and leaves.

    A row that leaves no later than it is seen is in the window at no instant.

    Arguments: as of `content_of`.

    Returns: rows in total order, begin and end of each.
    """
    rows = in_order(rows)
    rows = left_of(db, rows, spare) if item.signed else rows
    times = rows["_t"].to_numpy()
    visible = visible_from(rows, times, spare)
    return rows, visible, _ends(db, item, rows, times, visible)


def _ends(db: duckdb.DuckDBPyConnection, item: RelationInput, rows: pa.Table, times: Ints, visible: Ints) -> Ints:
    window = item.window
    if window.kind == "range":
        return times + (window.range + 1)
    if window.kind == "tumbling":
        return times - (times - window.origin) % window.range + window.range
    if window.kind == "unbounded":
        return np.full(len(times), FOR_EVER)
    return _pushed_out(visible, _partitions(db, rows, window), window.rows)


def left_of(db: duckdb.DuckDBPyConnection, rows: pa.Table, spare: int, since: int | None = None) -> pa.Table:
    """The rows that are not taken back: each with `op = '-'` undoes the oldest equal one of its event time with '+'.

    One that comes too late to be seen at its own time undoes nothing: what it would change is final.

    Arguments:
        rows: in total order. since: rows of epochs from there on undo nothing yet, and are left; None: all do.
    """
    names = [n for n in rows.column_names if n not in ("_id", "_epoch", "_cut", "op")]
    seen = f"coalesce(_cut - {spare}, _t) <= _t"
    fresh = "false" if since is None else f"_epoch >= {since}"
    # Of a union, a stream takes back rows of its own: among those of one event time it matters which is left.
    key = ", ".join([*map(quote, names), f"(_id >> {PLACE})"])
    sql = (
        f"SELECT _row FROM (SELECT _row, op, {fresh} AS _fresh,"
        f" count(*) FILTER (op = '-' AND {seen} AND NOT {fresh}) OVER (PARTITION BY {key}) AS _gone,"
        f" row_number() OVER (PARTITION BY {key}, op ORDER BY _epoch, _id) AS _nth FROM rows)"
        " WHERE _fresh OR (op = '+' AND _nth > _gone) ORDER BY _row"
    )
    numbered = rows.append_column("_row", pa.array(np.arange(rows.num_rows)))
    return rows.take(query_table(db, sql, rows=numbered)["_row"])


def visible_from(rows: pa.Table, times: Ints, spare: int) -> Ints:
    """The instant from which on each row is seen: its event time, or for a late one where answers are not final yet."""
    cut = rows["_cut"]
    if cut.null_count == len(cut):
        return times
    late = pc.is_valid(cut).to_numpy()
    limits = pc.fill_null(cut, 0).to_numpy() - spare
    return np.where(late, np.maximum(times, limits), times)


def _partitions(db: duckdb.DuckDBPyConnection, rows: pa.Table, window: RelationWindow) -> Ints:
    """A number for each row's partition; NULL is a partition of its own."""
    if not window.partition:
        return np.zeros(rows.num_rows, np.int64)
    return codes_by_join(db, rows, window.partition)


def _pushed_out(visible: Ints, partition: Ints, count: int) -> Ints:
    """When `count` later rows of its partition have become visible, which push a row out of its window."""
    order = np.argsort(partition, kind="stable")
    seen, part = visible[order], partition[order]
    same = part[1:] == part[:-1]
    if not (same & (seen[1:] < seen[:-1])).any():
        out = np.full(len(seen), FOR_EVER)
        if count < len(seen):
            pushed = part[count:] == part[:-count]
            out[:-count][pushed] = seen[count:][pushed]
    else:
        out = _pushed_out_by_late_rows(seen, part, count)
    end = np.empty(len(seen), np.int64)
    end[order] = out
    return end


@compiled
def _pushed_out_by_late_rows(seen: Ints, part: Ints, count: int) -> Ints:
    """As `_pushed_out` where rows become visible out of order (late ones that were dropped before).

    From the last row back, a heap holds the `count` smallest instants at which later rows become visible.
    """
    out = np.full(len(seen), FOR_EVER)
    heap = [np.int64(0) for _ in range(0)]
    for at in range(len(seen) - 1, -1, -1):
        if at + 1 < len(seen) and part[at + 1] != part[at]:
            heap.clear()
        if len(heap) == count:
            out[at] = -heap[0]
        if len(heap) < count:
            heapq.heappush(heap, -seen[at])
        elif -heap[0] > seen[at]:
            heapq.heapreplace(heap, -seen[at])
    return out


def needed(item: RelationInput, start: int) -> int | None:
    """The event time from which rows can be in the window at instants from `start` on; None: all of them can."""
    return start - item.window.range if item.window.kind in ("range", "tumbling") else None
