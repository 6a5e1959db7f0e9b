"""Zeros as rows are taken in: 0.0 and -0.0 are one value and one group, so that there is one way to write it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def without_signs(rows: pa.Table) -> pa.Table:
    """Rows with 0.0 for each -0.0 of their columns of floating numbers; values within others are as they came.

    >>> without_signs(pa.table({"a": [-0.0, 1.5, None]}))["a"].to_pylist()
    [0.0, 1.5, None]
    """
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            rows = rows.set_column(place, field, pc.add(rows.column(place), pa.scalar(0, field.type)))
    return rows
