"""Dead letters of rows that could be read: on which an expression of a query fails, or that a stream refuses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millpond.archive.archive_files import DEAD, HIDDEN
from millpond.synopses import connection, query_table


def row_texts(rows: pa.Table) -> pa.Array:
    """Rows as JSON texts, so that a dead letter can be mended and replayed."""
    shown = query_table(connection(), "SELECT left(to_json(r)::VARCHAR, 1000) AS t FROM rows r", rows=rows)
    return shown["t"]


def failed_letters(rows: pa.Table, queries: str, epoch: int, kind: str = "query") -> pa.Table:
    """Dead letters of rows, with their `_reason`, on which expressions of queries fail."""
    n = rows.num_rows
    positions = pa.array(rows["_id"].to_numpy() & 0xFFFFFFFF)
    texts = row_texts(rows.drop_columns(["_reason", *(name for name, _ in HIDDEN)]))
    return pa.table(
        [rows["_reason"], pa.array([f"{kind} {queries}"] * n), positions, texts, pa.array(np.full(n, epoch, np.int64))],
        schema=DEAD,
    )
