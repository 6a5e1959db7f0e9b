"""Boxes evaluated row by row, as plainly as possible: what the predicate index must agree with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import duckdb

from millpond.types import Interval


def rank(value: object) -> tuple[int, object]:
    """DuckDB's order of one kind: NaN comes last."""
    if isinstance(value, float) and math.isnan(value):
        return 1, 0.0
    return 0, value.encode() if isinstance(value, str) else value


def inside(value: object, interval: Interval) -> bool:
    """Whether a value lies in an interval."""
    if value is None or interval.null:
        return value is None and interval.null
    at = rank(value)
    if interval.low is not None:
        low = rank(interval.low)
        if at < low or (at == low and not interval.low_closed):
            return False
    if interval.high is not None:
        high = rank(interval.high)
        if at > high or (at == high and not interval.high_closed):
            return False
    return True


def boxed_rows(connection: duckdb.DuckDBPyConnection, relation: str, boxes: Sequence[Sequence[Interval]]) -> list[int]:
    """The `id`s of a relation's rows that lie in a box; a row in two of them comes twice."""
    intervals = {i.attribute: i.kind for box in boxes for i in box}
    values: dict[str, list[object]] = {}
    for attribute, kind in intervals.items():
        named = {"integer": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}[kind]
        rows = connection.execute(f"SELECT CAST({attribute} AS {named}) FROM {relation} ORDER BY id").fetchall()
        values[attribute] = [r[0] for r in rows]
    ids = [r[0] for r in connection.execute(f"SELECT id FROM {relation} ORDER BY id").fetchall()]
    return [
        row_id for box in boxes for n, row_id in enumerate(ids) if all(inside(values[i.attribute][n], i) for i in box)
    ]
