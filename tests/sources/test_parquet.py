"""Parquet and Arrow files: types that differ, files that are damaged, gone or changed."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources.helpers import bad, engine_db, item_of, stream

from millpond.sources.formats.read import Read, read, tail_times
from millpond.sources.intake_log import Item
from millpond.support.errors import SourceError
from millpond.types import StreamDefinition

S = stream("ts TIMESTAMP", "n INTEGER", "t VARCHAR")


def taken(folder: Path, table: pa.Table, name: str = "a.parquet", **options: Any) -> Item:
    path = folder / name
    if name.endswith(".arrow"):
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, path, **options)
    return item_of(path)


def through(folder: Path, definition: StreamDefinition, name: str = "a.parquet", **columns: Any) -> Read:
    return read(taken(folder, pa.table(columns), name), definition, None, engine_db())


def micros(*values: int | None) -> pa.Array:
    return pa.array(values, pa.timestamp("us"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_plain(tmp_path: Path, name: str) -> None:
    result = through(tmp_path, S, name, ts=micros(1, 2), n=pa.array([1, None], pa.int32()), t=["a", None], more=[1, 2])
    assert result.rows.select(["n", "t"]).to_pylist() == [{"n": 1, "t": "a"}, {"n": None, "t": None}]
    assert result.positions is None and result.unknown == 1 and len(result.rejected) == 0


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_only_what_is_asked(tmp_path: Path, name: str) -> None:
    item = taken(tmp_path, pa.table({"T": ["a"], "ts": micros(1), "n": [1]}), name)
    result = read(item, S, ["t", "ts"], engine_db())
    assert result.rows.schema.names == ["t", "ts"] and result.rows.column("t").to_pylist() == ["a"]
    with pytest.raises(SourceError, match="no column 'nope'"):
        read(item, S, ["nope"])


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1_000_000], pa.timestamp("us", "America/New_York")),
        pa.array([1_000], pa.timestamp("ms")),
        pa.array([1_000], pa.timestamp("ms", "Europe/Berlin")),
        pa.array([1_000_000_999], pa.timestamp("ns")),
        pa.array([1], pa.timestamp("s")),
        pa.array(["1970-01-01 00:00:01"]),
        pa.array(["1970-01-01T02:00:01+02:00"]),
        pa.array(["1970-01-01 00:00:01"]).dictionary_encode(),
    ],
)
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ"])
def test_every_kind_of_time(tmp_path: Path, times: pa.Array, kind: str) -> None:
    result = through(tmp_path, stream(f"ts {kind}"), "a.arrow", ts=times)
    assert result.rows.column("ts").cast(pa.int64()).to_pylist() == [1_000_000]
    assert result.rows.schema.field("ts").type == pa.timestamp("us", "UTC" if kind == "TIMESTAMPTZ" else None)


def test_old_parquet_timestamps(tmp_path: Path) -> None:
    item = taken(tmp_path, pa.table({"ts": micros(1_500_000)}), use_deprecated_int96_timestamps=True)
    assert read(item, stream("ts TIMESTAMP")).rows.column("ts").to_pylist() == [datetime(1970, 1, 1, 0, 0, 1, 500_000)]


def test_event_times_that_are_none(tmp_path: Path) -> None:
    result = through(
        tmp_path, S, ts=micros(1, None, 2**63 - 1, -(2**63 - 1), 253_402_300_800_000_000, 5), n=pa.array(range(6))
    )
    assert result.rows.column("n").to_pylist() == [0, 5]
    assert result.positions is not None and result.positions.to_pylist() == [0, 5]
    assert [place for place, _ in bad(result)] == [1, 2, 3, 4]
    assert "NULL" in bad(result)[0][1] and "infinite" in bad(result)[1][1]
    assert '"n":1' in result.rejected.column("record")[0].as_py()


def test_numbers_of_other_types(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "n TINYINT", "d DOUBLE", "c DECIMAL(5,1)", "t VARCHAR", "b BOOLEAN", "f FLOAT")
    result = through(
        tmp_path, definition, ts=micros(*range(5)), n=pa.array([1.0, 2.5, 300.0, None, float("nan")]),
        d=pa.array([1, 2, 3, 4, 5], pa.int16()), c=pa.array([1.25, 2.0, 3.0, 4.0, 5.0]), t=pa.array([1, 2, 3, 4, 5]),
        b=pa.array([1, 0, 1, 0, 1]), f=pa.array([1.5, 2, 3, 1e300, 4]),
    )  # fmt: skip
    assert bad(result) == [
        (1, "column 'n': '2.5' does not fit TINYINT"),
        (2, "column 'n': '300.0' does not fit TINYINT"),
        (3, "column 'f': '1e+300' does not fit FLOAT"),
        (4, "column 'n': 'nan' does not fit TINYINT"),
    ]
    row = result.rows.to_pylist()[0]
    assert (row["n"], row["d"], row["t"], row["b"], row["f"]) == (1, 1.0, "1", True, 1.5)


def test_a_type_that_never_fits(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "n INTEGER")
    result = through(tmp_path, definition, ts=micros(1, 2), n=pa.array([{"a": 1}, None]))
    assert result.rows.column("n").to_pylist() == [None] and bad(result)[0][0] == 0
    assert "does not fit INTEGER" in bad(result)[0][1]
    integers = through(tmp_path, definition, "b.parquet", ts=pa.array([1, 2]), n=pa.array([1, 2]))
    assert len(integers.rows) == 0 and len(integers.rejected) == 2  # numbers are no times


def test_nested_columns_are_cast_by_name(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "p STRUCT(x INTEGER, y VARCHAR)", "l INTEGER[]")
    points = pa.array([{"y": "a", "x": 1, "z": 0}, None])
    result = through(
        tmp_path, definition, ts=micros(1, 2), p=points, l=pa.array([[1, 2], []], pa.large_list(pa.int64()))
    )
    assert result.rows.column("p").to_pylist() == [{"x": 1, "y": "a"}, None]
    assert result.rows.column("l").to_pylist() == [[1, 2], []]
    texts = through(tmp_path, definition, "b.parquet", ts=micros(1, 2), l=pa.array([["1"], ["x", None]]))
    assert texts.rows.column("l").to_pylist() == [[1]] and bad(texts)[0][0] == 1


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_text_that_is_not_utf8(tmp_path: Path, name: str) -> None:
    def raw(values: list[bytes]) -> pa.Array:
        array = pa.array(values, pa.binary())
        return pa.Array.from_buffers(pa.string(), len(array), array.buffers())

    result = through(tmp_path, S, name, ts=micros(1, 2, 3), t=raw([b"a", b"\xff\xff", b"c"]))
    assert result.rows.column("t").to_pylist() == ["a", "c"] and bad(result)[0][0] == 1
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), raw([b"a", b"\xff\xff", b"c"]))
    nested = through(tmp_path, stream("ts TIMESTAMP", "l VARCHAR[]"), "b" + name, ts=micros(1, 2, 3), l=lists)
    assert nested.rows.column("l").to_pylist() == [["a"], ["c"]] and bad(nested)[0][0] == 1


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_damaged_files_are_one_dead_letter(tmp_path: Path, name: str) -> None:
    table = pa.table({"ts": micros(*range(1000)), "n": np.arange(1000), "t": [str(n) * 5 for n in range(1000)]})
    whole = Path(taken(tmp_path, table, name).path).read_bytes()
    middle = len(whole) // 3
    for number, content in enumerate(
        [whole[:-1], whole[:middle], b"nonsense", whole[:middle] + os.urandom(400) + whole[middle + 400 :], b"PAR1PAR1"]
    ):
        path = tmp_path / f"{number}{name}"
        path.write_bytes(content)
        result = read(item_of(path), S, None, engine_db())
        if len(result.rejected) != 1 and number == 3:
            continue  # plain bytes without a checksum may be anything
        assert len(result.rows) == 0 and bad(result)[0][0] is None and "not a readable" in bad(result)[0][1]
        assert tail_times(item_of(path), S).tolist() == [] or number == 3
    empty = tmp_path / f"empty{name}"
    empty.write_bytes(b"")
    assert len(read(item_of(empty), S).rows) == len(read(item_of(empty), S).rejected) == 0


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.csv", "a.ndjson"])
def test_a_file_that_vanished_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"x")
    item = item_of(path)
    path.unlink()
    with pytest.raises(SourceError, match="was taken but cannot be read"):
        read(item, S)
    with pytest.raises(SourceError):
        tail_times(item, S)


def test_a_file_that_changed_is_an_error_and_one_that_grew_is_read_as_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ts,n,t\n2020-01-01,1,a\n")
    item = item_of(path)
    with open(path, "a") as file:
        file.write("2020-01-01,2,b\n")
    assert read(item, S).rows.column("n").to_pylist() == [1]
    path.write_text("ts,n,t\n2021-01-01,1,a\n")
    with pytest.raises(SourceError, match="was changed after it was taken"):
        read(item, S)
    path.write_text("ts,n,t\n2020-01-01,1,a\n")
    os.utime(path, (1, 1))
    assert len(read(item, S).rows) == 1


def test_no_rows(tmp_path: Path) -> None:
    result = through(tmp_path, S, ts=micros(), n=pa.array([], pa.int32()), t=pa.array([], pa.string()))
    assert len(result.rows) == 0 and result.rows.schema.names == ["ts", "n", "t"]


def test_columns_in_any_letters(tmp_path: Path) -> None:
    result = through(tmp_path, S, TS=micros(1), N=[1], n=[2])
    assert result.rows.to_pylist() == [{"ts": datetime(1970, 1, 1, 0, 0, 0, 1), "n": 2, "t": None}]


def test_tail_times(tmp_path: Path) -> None:
    table = pa.table({"ts": pa.array(np.arange(10_000), pa.timestamp("ms", "UTC")), "n": np.arange(10_000)})
    for name, options in (("a.parquet", {"row_group_size": 300}), ("a.arrow", {})):
        item = taken(tmp_path, table, name, **options)
        assert tail_times(item, S, engine_db(), 500).tolist() == [n * 1000 for n in range(9500, 10_000)]
        assert len(tail_times(item, S, engine_db(), 50_000)) == 10_000
    item = taken(tmp_path, pa.table({"ts": micros(5, None, 2**63 - 1)}), "b.parquet")
    assert tail_times(item, S).tolist() == [5]
    assert tail_times(item, stream("n INTEGER"), None, 2).tolist() == [item.arrival]
    assert datetime.fromtimestamp(item.arrival / 1e6, UTC).year == 2023


def test_decimals_of_more_than_38_digits_become_dead_letters(tmp_path: Path) -> None:
    wide = pa.array([Decimal(7), Decimal(10**45)], pa.decimal256(50, 0))
    got = through(tmp_path, stream("ts TIMESTAMP", "n DECIMAL(38, 0)"), ts=micros(1, 2), n=wide, other=wide)
    assert got.rows["n"].to_pylist() == [Decimal(7)]
    (reason,) = got.rejected["reason"].to_pylist()
    assert "1000000" in reason and "does not fit" in reason
