"""When each row is in its window: CQL's windows as intervals of validity [begin, end), one per row.

Arasu, Babu and Widom, as digested in Babu 2005, 2.1: at instant τ, `[RANGE w]` holds the rows stamped in [τ - w, τ],
`[ROWS n]` the n rows with the largest stamps up to τ, `[PARTITION BY a ROWS n]` that of each partition. Ties follow the
total order of the stream (event time, _id). Instants are whole microseconds, so a row that is stamped t leaves
`[RANGE w]` at t + w + 1.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import assert_never

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.support.compiled import compiled
from millpond.support.sql import quote
from millpond.synopses import query_table
from millpond.synopses.codes import codes_by_join
from millpond.types import (
    PLACE,
    LatestRowsWindow,
    RangeWindow,
    RelationInput,
    TumblingWindow,
    UnboundedWindow,
)
from millpond.types.instants import NEVER

Ints = npt.NDArray[np.int64]

#: The end of validity of rows that never leave.
FOR_EVER = 2**62


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
    return rows, visible, ends_of(db, item, rows, times, visible)


def ends_of(db: duckdb.DuckDBPyConnection, item: RelationInput, rows: pa.Table, times: Ints, visible: Ints) -> Ints:
    """When each row leaves the window, given its event time and the instant from which on it is seen."""
    window = item.window
    match window:
        case RangeWindow():
            return times + (window.range + 1)
        case TumblingWindow():
            return times - (times - window.origin) % window.range + window.range
        case UnboundedWindow():
            return np.full(len(times), FOR_EVER)
        case LatestRowsWindow():
            return _pushed_out(visible, _partitions(db, rows, window.partition), window.rows)
        case _:
            assert_never(window)


def left_of(db: duckdb.DuckDBPyConnection, rows: pa.Table, spare: int, since: int | None = None) -> pa.Table:
    """The rows that are not taken back: each with `op = '-'` undoes the oldest equal one of its event time with '+'.

    One that comes too late to be seen at its own time undoes nothing: what it would change is final.

    Arguments:
        rows: in total order. since: rows of epochs from there on undo nothing yet, and are left; None: all do.
    """
    names = [n for n in rows.column_names if n not in ("_id", "_epoch", "_cut", "op")]
    seen = f"(_cut IS NULL OR greatest(_cut, {NEVER + spare}) - {spare} <= _t)"
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
    limits = np.maximum(pc.fill_null(cut, 0).to_numpy(), NEVER + spare) - spare
    return np.where(late, np.maximum(times, limits), times)


def _partitions(db: duckdb.DuckDBPyConnection, rows: pa.Table, partition: Sequence[str]) -> Ints:
    """A number for each row's partition; NULL is a partition of its own."""
    return codes_by_join(db, rows, partition) if partition else np.zeros(rows.num_rows, np.int64)


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
