"""The order of answers in a file: the same whatever order pane rows were kept in, so that replay gives equal bytes.

Readers order answers as their query says; this order is only one that depends on nothing but the rows.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.synopses import query_table
from millpond.types import NUMBER


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
    if all(_simple(field.type) for field in keys.schema):
        return rows.take(pc.sort_indices(keys, [(n, "ascending") for n in names]))
    numbered = keys.append_column("_at", pa.array(np.arange(rows.num_rows)))
    return rows.take(query_table(db, f"SELECT _at FROM t ORDER BY {', '.join(names)}", t=numbered)["_at"])


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
