"""Numbers for groups: equal exactly for equal keys, NULL being equal to NULL."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millpond.synopses.kernel import query_table

Ints = NDArray[np.int64]


def codes_by_join(db: duckdb.DuckDBPyConnection, table: pa.Table, names: Sequence[str]) -> Ints:
    """A number from 0 for the key of each row, for keys of any type.

    Arguments:
        names: columns of the key.
    """
    keys = [f"k{i}" for i in range(len(names))]
    rows = table.select(list(names)).rename_columns(keys)
    rows = rows.append_column("_at", pa.array(np.arange(table.num_rows)))
    joined = " AND ".join(f"r.{k} IS NOT DISTINCT FROM d.{k}" for k in keys)
    listed = ", ".join(keys)
    coded = query_table(
        db,
        f"WITH d AS (SELECT {listed}, row_number() OVER () - 1 AS code FROM (SELECT DISTINCT {listed} FROM rows))"
        f" SELECT r._at, d.code FROM rows r JOIN d ON {joined}",
        rows=rows,
    )
    codes = np.empty(table.num_rows, np.int64)
    codes[coded["_at"].to_numpy()] = coded["code"].to_numpy()
    return codes
