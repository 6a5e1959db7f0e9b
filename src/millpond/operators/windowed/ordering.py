"""The order of answers in a file: the same whatever order pane rows were kept in, so that replay gives equal bytes.

Readers order answers as their query says; this order is only one that depends on nothing but the rows.
"""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.support.sql import quote
from millpond.synopses import query_table
from millpond.types import NUMBER

Ints = NDArray[np.int64]


def in_order(db: duckdb.DuckDBPyConnection, rows: pa.Table) -> pa.Table:
    """Answers or revision numbers sorted by what identifies them: the window's end and number, hidden keys, `op`.

    Arguments:
        rows: answers of one query and epoch, no two with the same identity.
    """
    names = [n for n in ("window_end", "end", NUMBER.name) if n in rows.column_names]
    names += [n for n in rows.column_names if n.startswith(("_k", "_p"))]
    names += [n for n in ("op",) if n in rows.column_names]
    if rows.num_rows < 2 or not names:
        return rows
    keys = rows.select(names)
    order = _order(keys)
    if order is not None:
        return rows if bool(np.all(order[1:] > order[:-1])) else _taken(rows, pa.array(order))
    if all(_simple(field.type) for field in keys.schema):
        return rows.take(pc.sort_indices(keys, [(n, "ascending") for n in names]))
    numbered = keys.append_column("_at", pa.array(np.arange(rows.num_rows)))
    return rows.take(query_table(db, f"SELECT _at FROM t ORDER BY {', '.join(map(quote, names))}", t=numbered)["_at"])


def _taken(rows: pa.Table, order: pa.Array) -> pa.Table:
    """The rows in another order; columns with one value everywhere stay as they are."""
    columns = [c if _is_constant(c) else c.take(order) for c in rows.columns]
    return pa.table(columns, schema=rows.schema)


def _is_constant(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return False
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        edges = pc.min_max(column)
        return bool(edges["min"] == edges["max"])
    return pa.types.is_string(column.type) and bool(pc.all(pc.equal(column, column[0])).as_py())


def _order(keys: pa.Table) -> Ints | None:
    """The order of rows by all their columns, one after the other, where these are integers or times; else None.

    A row's values are put together to one integer, with its place below them: sorting these is several times faster
    than finding the order of rows by columns.
    """
    columns: list[tuple[Ints, int]] = []
    for column in keys.columns:
        kind = column.type
        if _is_constant(column):
            continue
        whole = pa.types.is_integer(kind) and kind != pa.uint64()
        if column.null_count or not (whole or pa.types.is_timestamp(kind)):
            return None
        values = column.cast(pa.int64()).to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low >= 2**62:
            return None
        values = values - low
        unit = int(np.gcd.reduce(values))  # times are multiples of a slide
        columns.append((values // unit, (high - low) // unit + 1))
    places = 1 << (keys.num_rows - 1).bit_length()
    if math.prod([size for _, size in columns]) * places >= 2**63:
        return None
    numbers = np.zeros(keys.num_rows, np.int64)
    for values, size in columns:
        numbers *= size
        numbers += values
    numbers *= places
    numbers += np.arange(keys.num_rows)
    numbers.sort()
    order: Ints = numbers & (places - 1)
    return order


def _simple(kind: pa.DataType) -> bool:
    """Types that Arrow sorts."""
    checks = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_timestamp,
        pa.types.is_date,
        pa.types.is_string,
        pa.types.is_boolean,
    )
    return any(check(kind) for check in checks)
