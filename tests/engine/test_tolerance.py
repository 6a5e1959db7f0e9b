"""Rows that fail are found one by one, and beyond a number of them in pieces; nothing is lost, and order stays."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.synopses import tolerance
from millpond.synopses.tolerance import bisect, one_line, tolerant


def make(rows: pa.Table) -> pa.Table:
    if pc.any(pc.less(rows["x"], 0)).as_py():
        raise duckdb.ConversionException("a negative row")
    return rows


@given(st.lists(st.integers(-2, 5), max_size=60))
def test_failing_rows_are_put_aside_and_the_others_keep_their_order(values: list[int]) -> None:
    parted = bisect(make, pa.table({"x": pa.array(values, pa.int64())}))
    assert [x for t in parted.made for x in t["x"].to_pylist()] == [v for v in values if v >= 0]
    failed = [] if parted.failed is None else parted.failed["x"].to_pylist()
    assert failed == [v for v in values if v < 0]


def test_beyond_a_number_whole_pieces_are_put_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tolerance, "FAILING_ROWS", 2)
    values = [-1, -1, -1, 1, -1, 2, 3, 4]
    parted = bisect(make, pa.table({"x": values}))
    assert parted.failed is not None
    made = [x for t in parted.made for x in t["x"].to_pylist()]
    assert sorted(made + parted.failed["x"].to_pylist()) == sorted(values)
    assert set(parted.failed["_reason"].to_pylist()) == {"a negative row"}


def test_an_aggregate_that_fails_as_a_whole_is_not_blamed_on_a_row() -> None:
    def whole(rows: pa.Table) -> pa.Table:
        if rows.num_rows > 2:
            raise duckdb.OutOfRangeException("too much")
        return rows

    with pytest.raises(duckdb.OutOfRangeException):
        tolerant(whole, pa.table({"x": [1, 2, 3, 4]}))


def test_a_reason_does_not_show_the_sql_of_the_engine() -> None:
    segment = pa.table({"t": ["zz"]})
    with duckdb.connect() as db, pytest.raises(duckdb.ConversionException) as caught:
        db.register("segment", segment)
        db.sql("SELECT sum(t::INTEGER) FROM segment").fetchall()
    assert "segment" in str(caught.value)
    reason = one_line(caught.value)
    assert reason.startswith("Conversion Error: Could not convert string 'zz' to INT32")
    assert "segment" not in reason and "LINE" not in reason
