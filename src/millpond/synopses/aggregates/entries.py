"""Few entries instead of many: how components that keep lists are combined and cut down, for all groups at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.functions import merge_states
from millpond.synopses.aggregates.splits import ENTRIES, Component
from millpond.synopses.enums import query_ordered

Ints = NDArray[Any]


def shrink(db: duckdb.DuckDBPyConnection, components: Sequence[Component], table: pa.Table) -> pa.Table:
    """Pane rows whose lists of entries, as collected or concatenated, are cut down to what each component keeps.

    Equal entries become one; sketches give up entries beyond their size, and count what that may cost in column `e`.
    The result depends on the entries of a row alone, and not on their order.
    """
    for component in components:
        if component.kind not in ENTRIES or not table.num_rows:
            continue
        name = component.name
        match component.kind:
            case "counts":
                table = _put(table, name, _grouped(db, table[name], _COUNTS))
            case "states":
                table = _put(table, name, _merged(component.function, table[name]))
            case "steps":
                table = _put(table, name, _grouped(db, table[name], _STEPS))
            case "distinct":
                table = _put(table, name, _smallest(table[name], component.size))
            case "frequent":
                column, error = _frequent(_grouped(db, table[name], _COUNTS), table[name + "e"], component.size)
                table = _put(_put(table, name, column), name + "e", error)
            case "quantiles":
                column, error = _collapsed(db, table[name], table[name + "e"], component.size)
                table = _put(_put(table, name, column), name + "e", error)
    return table


_COUNTS = (
    "{'key': key, 'value': value} ORDER BY key",
    "u.key AS key, sum(u.value)::UBIGINT AS value",
)
_STEPS = (
    "{'k': k, 'b': b, 's': s, 'n': n} ORDER BY b, k",
    "u.k AS k, u.b AS b, fsum(u.s) AS s, sum(u.n)::BIGINT AS n",
)


def _merged(reference: str, column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Each list of states as a list of one."""
    several = pc.greater(pc.list_value_length(column), 1).fill_null(False)
    if not pc.any(several).as_py():
        return column
    merged = merge_states(reference, column.filter(several).combine_chunks().cast(pa.list_(pa.binary())))
    place = pc.subtract(pc.cumulative_sum(several.cast(pa.int64())), 1)
    whole = pa.chunked_array([*column.cast(merged.type).chunks, merged])
    at = pc.if_else(several, pc.add(place, len(column)), pa.array(np.arange(len(column))))
    return whole.take(at)


def _put(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    at = table.column_names.index(name)
    kind = table.schema.field(at).type
    return table.set_column(at, name, column if column.type == kind else column.cast(kind))


def _grouped(db: duckdb.DuckDBPyConnection, column: pa.ChunkedArray, sql: tuple[str, str]) -> pa.Array:
    """Each list with equal entries put together; a list without entries is NULL."""
    size = len(column)
    rows = pa.table({"c": column, "_at": pa.array(np.arange(size))})
    listed, grouped = sql
    found = query_ordered(
        db,
        f"SELECT _at, list({listed}) AS c FROM (SELECT _at, {grouped} FROM (SELECT _at, unnest(c) AS u FROM rows)"
        " GROUP BY ALL) GROUP BY _at",
        rows=rows,
    )
    place = np.full(size, -1, np.int64)
    place[found["_at"].to_numpy()] = np.arange(found.num_rows)
    lists = found["c"].combine_chunks()
    return lists.take(pa.array(place, mask=place < 0))


def _flat(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Ints, Ints]:
    """The entries of all lists, the row of each, and the number per row."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    lengths = pc.list_value_length(whole).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return whole.flatten(), np.repeat(np.arange(len(lengths)), lengths), lengths


def _lists(kind: pa.DataType, values: pa.Array, rows: Ints, count: int) -> pa.Array:
    """Entries, sorted by their row, as lists; a row without entries is NULL."""
    lengths = np.bincount(rows, minlength=count)
    ends = np.r_[0, np.cumsum(lengths)]
    offsets = pa.array(ends, pa.int64(), mask=np.r_[lengths == 0, False])
    return pa.LargeListArray.from_arrays(offsets, values).cast(kind)


def _smallest(column: pa.ChunkedArray, size: int) -> pa.Array:
    """The `size` smallest of each row's hashes, in order."""
    values, rows, _ = _flat(column)
    hashes = values.to_numpy(zero_copy_only=False).astype(np.uint64)
    order = np.lexsort((hashes, rows))
    hashes, rows = hashes[order], rows[order]
    first = np.r_[True, (hashes[1:] != hashes[:-1]) | (rows[1:] != rows[:-1])][: len(rows)]
    hashes, rows = hashes[first], rows[first]
    kept = _nth(rows) < size
    return _lists(column.type, pa.array(hashes[kept], values.type), rows[kept], len(column))


def _nth(rows: Ints) -> Ints:
    """The place of each entry in its row, from 0; `rows` is sorted."""
    starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]][: len(rows)])
    lengths = np.diff(np.r_[starts, len(rows)])
    return np.arange(len(rows)) - np.repeat(starts, lengths)


def _frequent(column: pa.Array, error: pa.ChunkedArray, size: int) -> tuple[pa.Array, pa.Array]:
    """Misra and Gries: take the count of the (size+1)-th largest off all of them, and drop those that have none left.

    What was taken off is added to the error: every true count lies between the one kept and that plus the error.
    """
    values, rows, lengths = _flat(column)
    if not len(lengths) or lengths.max(initial=0) <= size:
        return column, error
    counts = values.field("value").to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.lexsort((-counts, rows))
    cut = np.zeros(len(lengths), np.int64)
    beyond = order[_nth(rows[order]) == size]
    cut[rows[beyond]] = counts[beyond]
    left = counts - cut[rows]
    kept = left > 0
    entries = pa.StructArray.from_arrays(
        [values.field("key").filter(pa.array(kept)), pa.array(left[kept], pa.uint64())], ["key", "value"]
    )
    total = error.to_numpy().astype(np.int64) + cut
    return _lists(column.type, entries, rows[kept], len(lengths)), pa.array(total)


def _collapsed(
    db: duckdb.DuckDBPyConnection, column: pa.ChunkedArray, error: pa.ChunkedArray, size: int
) -> tuple[pa.Array | pa.ChunkedArray, pa.Array | pa.ChunkedArray]:
    """Halve every level of a row that holds more than `size` entries: of each two neighbours one goes up a level.

    An entry of level l stands for 2^l values, so that a collapse moves no rank by more than 2^l; that is added to the
    error. Which of the two stays alternates with the error, so that collapses tend to cancel out.
    """
    values, rows, lengths = _flat(column)
    if not len(lengths) or lengths.max(initial=0) <= size:
        return column, error
    total = error.to_numpy().astype(np.int64).copy()
    levels = values.field("l").to_numpy(zero_copy_only=False).astype(np.int64)
    ranks = _ranks(db, values.field("v"))
    place = np.arange(len(rows))
    for level in range(63):
        here = np.flatnonzero(levels == level)
        if not len(here):
            if not (levels > level).any():
                break
            continue
        here = here[np.lexsort((place[here], ranks[place[here]], rows[here]))]
        row = rows[here]
        count = np.bincount(row, minlength=len(lengths))
        full = count > size
        if not full.any():
            continue
        nth, odd = _nth(row), (count % 2)[row]
        paired = full[row] & (nth < count[row] - odd)
        parity = (total >> level) & 1
        up = paired & (nth % 2 == parity[row])
        levels[here[up]] += 1
        gone = np.zeros(len(rows), bool)
        gone[here[paired & ~up]] = True
        total[full] += 1 << level
        rows, levels, place = rows[~gone], levels[~gone], place[~gone]
    order = np.lexsort((ranks[place], levels, rows))
    rows, levels, place = rows[order], levels[order], place[order]
    entries = pa.StructArray.from_arrays(
        [values.field("v").take(pa.array(place)), pa.array(levels, pa.uint8())], ["v", "l"]
    )
    return _lists(column.type, entries, rows, len(lengths)), pa.array(total)


def _ranks(db: duckdb.DuckDBPyConnection, values: pa.Array) -> Ints:
    """The rank of each value in DuckDB's order, equal for equal values."""
    kind = values.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not values.null_count:
        return np.unique(values.to_numpy(zero_copy_only=False), return_inverse=True)[1].astype(np.int64)
    ranked = query_ordered(
        db,
        "SELECT _at, dense_rank() OVER (ORDER BY v) AS r FROM rows",
        rows=pa.table({"v": values, "_at": pa.array(np.arange(len(values)))}),
    )
    ranks = np.empty(len(values), np.int64)
    ranks[ranked["_at"].to_numpy()] = ranked["r"].to_numpy()
    return ranks
