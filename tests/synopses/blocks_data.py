"""Rows, boxes and a naive evaluation for the tests of blocks, boxes and matches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from millpond.types import Interval

INTEGERS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324]), st.floats(allow_nan=True)
)
TEXTS = st.one_of(
    st.sampled_from(["", "a", "ab", "b", "é", "\uffff", "\U00010000", "a\x00", "A", "z" * 40]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
VALUES = {"integer": INTEGERS, "float": FLOATS, "text": TEXTS}
COLUMN = {"integer": '"i"', "float": '"f"', "text": '"t"'}
PARITY = 'CASE WHEN "i" % 2 = 0 THEN 1 WHEN "i" IS NOT NULL THEN 0 END'
RECIPROCAL = '1 // ("i" - 1) * CAST("t" AS BIGINT)'  # fails for many texts


def table(integers: list[Any], floats: list[Any], texts: list[Any], times: list[int] | None = None) -> pa.Table:
    """A table in the engine's form."""
    n = len(integers)
    return pa.table(
        {
            "ts": pa.array(times or list(range(n)), pa.timestamp("us")),
            "i": pa.array(integers, pa.int64()),
            "f": pa.array(floats, pa.float64(), from_pandas=False),
            "t": pa.array(texts, pa.string()),
            "_id": pa.array(range(n), pa.int64()),
            "_epoch": pa.array([1] * n, pa.int64()),
            "_bound": pa.array([None] * n, pa.int64()),
        }
    )


@st.composite
def tables(draw: st.DrawFn, most: int = 40) -> pa.Table:
    """Some rows of all three kinds, with NULLs."""
    n = draw(st.integers(0, most))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.none() | values, min_size=n, max_size=n))

    times = draw(st.lists(st.integers(-5, 5), min_size=n, max_size=n))
    return table(column(INTEGERS), column(FLOATS), column(TEXTS), times)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """A factor of any kind."""
    if draw(st.integers(0, 9)) == 0:
        return Interval(PARITY, "integer", 1, 1)
    kind = draw(st.sampled_from(["integer", "float", "text"]))
    if draw(st.integers(0, 6)) == 0:
        return Interval(COLUMN[kind], kind, null=True)
    low, high = draw(st.none() | VALUES[kind]), draw(st.none() | VALUES[kind])
    return Interval(COLUMN[kind], kind, low, high, draw(st.booleans()), draw(st.booleans()))


CONDITIONS = st.lists(st.lists(intervals(), max_size=3).map(tuple), max_size=3).map(tuple)


def place(value: Any) -> Any:
    """A value's place in DuckDB's order: NaN equals itself and is the greatest."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def holds(interval: Interval, row: dict[str, Any]) -> bool:
    """Whether a factor holds for a row, in plain Python."""
    if interval.attribute == PARITY:
        value = None if row["i"] is None else int(row["i"] % 2 == 0)
    else:
        value = row[interval.attribute.strip('"')]
    if interval.null or value is None:
        return interval.null and value is None
    at = place(value)
    if interval.low is not None:
        low = place(interval.low)
        if at < low or (at == low and not interval.low_closed):
            return False
    if interval.high is not None:
        high = place(interval.high)
        if at > high or (at == high and not interval.high_closed):
            return False
    return True


def naive(rows: pa.Table, boxes: Any, low_row: int = 0, high_row: int | None = None) -> list[int]:
    """The rows that lie in a box, one by one."""
    found = [n for n, r in enumerate(rows.to_pylist()) if any(all(holds(i, r) for i in box) for box in boxes)]
    return [n for n in found if low_row <= n < (rows.num_rows if high_row is None else high_row)]


def condition(boxes: Any) -> tuple[str, list[Any]]:
    """The same as DuckDB SQL with parameters."""
    if not boxes:
        return "false", []
    alternatives, parameters = [], []
    for box in boxes:
        factors = ["true"]
        for i in box:
            if i.null:
                factors.append(f"({i.attribute}) IS NULL")
                continue
            factors.append(f"({i.attribute}) IS NOT NULL")
            cast = {"integer": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}[i.kind]
            for bound, operator in ((i.low, ">=" if i.low_closed else ">"), (i.high, "<=" if i.high_closed else "<")):
                if bound is not None:
                    factors.append(f"({i.attribute}) {operator} CAST(? AS {cast})")
                    parameters.append(bound)
        alternatives.append("(" + " AND ".join(factors) + ")")
    return " OR ".join(alternatives), parameters


def numbers(seed: int, n: int, **cards: int) -> pa.Table:
    """n rows of random integers per column, each of so many distinct values."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.permutation(n) if card >= n else rng.integers(0, card, n) for name, card in cards.items()}
    return pa.table({"ts": pa.array(np.arange(n), pa.timestamp("us")), **columns, "_id": np.arange(n)})
