"""Storage types: what Delta lacks is widened on the way in and comes back as it was."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given

from millpond.tables import Segment, SegmentTable
from millpond.tables.storage_types import from_storage, storage_schema, to_storage
from tests.tables.arrow import tables


@given(tables())
def test_a_round_trip_through_parquet(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> None:
    path = tmp_path_factory.mktemp("storage") / "t.parquet"
    stored = to_storage(table)
    assert stored.schema == storage_schema(table.schema)
    pq.write_table(stored, path)
    back = from_storage(pq.read_table(path, partitioning=None), table.schema)
    assert back.schema == table.schema
    assert back.to_pylist() == table.to_pylist()


@given(tables())
def test_a_delta_reader_opens_every_type(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> None:
    folder = tmp_path_factory.mktemp("delta")
    delta = SegmentTable(str(folder), storage_schema(table.schema))
    pq.write_table(to_storage(table), folder / "e.parquet")
    delta.commit([Segment("e.parquet", table.num_rows, (folder / "e.parquet").stat().st_size, 0, 0, 1, 1)])
    read = DeltaTable(str(folder)).to_pyarrow_table()
    assert read.to_pylist() == to_storage(table).to_pylist()


def test_intervals_in_slices_and_chunks() -> None:
    kind = pa.month_day_nano_interval()
    array = pa.array([pa.MonthDayNano((i, -i, i * 10**9)) if i % 3 else None for i in range(20)], kind)
    for column in (pa.chunked_array([array.slice(3, 9)]), pa.chunked_array([array.slice(1, 2), array.slice(7)])):
        table = pa.table({"i": column})
        assert from_storage(to_storage(table), table.schema).to_pylist() == table.to_pylist()
    empty = pa.table({"i": pa.chunked_array([], kind)})
    assert from_storage(to_storage(empty), empty.schema).num_rows == 0


def test_columns_that_a_file_lacks_are_null() -> None:
    """A column that was added to the stream after the file was written."""
    schema = pa.schema([("a", pa.uint8()), ("b", pa.list_(pa.time64("us")))])
    back = from_storage(to_storage(pa.table({"a": pa.array([1], pa.uint8())})), schema)
    assert back.to_pylist() == [{"a": 1, "b": None}]


def test_a_narrow_column_comes_back_wide() -> None:
    """A column whose type was widened after the file was written."""
    stored = to_storage(pa.table({"a": pa.array([255], pa.uint8())}))
    assert from_storage(stored, pa.schema([("a", pa.uint64())])).to_pylist() == [{"a": 255}]
