"""Chunks: many Arrow tables in one file come back as they were."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond.tables.chunks as chunks
from millpond.tables import Chunk, read_chunks, write_chunks
from millpond.tables.chunks import pack, unpack
from tests.tables.arrow import tables

DECIMAL = pa.array([decimal.Decimal("1.50"), None], pa.decimal128(38, 2))
TABLES = [
    pa.table({"a": pa.array([], pa.int64())}),
    pa.table({"a": [1, None, 3]}),
    pa.table({"k": ["x", None], "s": [{"v": 1.5, "t": [1, 2]}, None], "d": DECIMAL}),
    pa.table({"l": pa.array([[1], None], pa.large_list(pa.int8()))}),
    pa.table({"d": pa.array(["a", "b", "a"]).dictionary_encode()}),
    pa.concat_tables([pa.table({"a": [1]}), pa.table({"a": [2, 3]})]),
]


def write(folder: Path, made: list[Chunk], **named: Any) -> str:
    segment = write_chunks(str(folder), "e1-0000.parquet", made, 3, **named)
    assert segment.shard == 3
    return str(folder / segment.path)


def test_a_round_trip_of_many_schemas(tmp_path: Path) -> None:
    made = [Chunk(f"q{i % 4}", "answers", i, -i, 10 * i, t) for i, t in enumerate(TABLES * 7)]
    path = write(tmp_path, made)
    assert list(read_chunks([path])) == made
    assert list(read_chunks([path], {"q1"})) == [c for c in made if c.owner == "q1"]
    assert (
        list(read_chunks([path, path], {"q2"}, lambda o, k, e, low, high: high >= 100))
        == [c for c in made if c.owner == "q2" and c.high >= 100] * 2
    )
    assert list(read_chunks([path], {"nobody"})) == []


def test_the_segment_covers_its_chunks(tmp_path: Path) -> None:
    made = [Chunk("a", "panes", 7, -5, 20, TABLES[1]), Chunk("b", "panes", 4, 3, 99, TABLES[0])]
    segment = write_chunks(str(tmp_path), "x.parquet", made, 0, level=2, epoch=9)
    assert (segment.low, segment.high, segment.first_epoch, segment.last_epoch, segment.level) == (-5, 99, 4, 9, 2)
    empty = write_chunks(str(tmp_path), "y.parquet", [], 0, epoch=9)
    assert (empty.rows, empty.first_epoch, empty.last_epoch) == (0, 9, 9)
    assert list(read_chunks([str(tmp_path / "y.parquet")])) == []


def test_large_tables_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_LARGEST", 1000)
    table = pa.table({"a": list(range(1000)), "t": [str(i) * 3 for i in range(1000)]})
    path = write(tmp_path, [Chunk("q", "answers", 1, 0, 1, table)])
    pieces = [c.table for c in read_chunks([path])]
    assert len(pieces) > 10
    assert pa.concat_tables(pieces).combine_chunks() == table


def test_equal_chunks_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, [Chunk("q", "answers", 1, 0, 1, t) for t in TABLES])
    assert (tmp_path / "one" / "e1-0000.parquet").read_bytes() == (tmp_path / "two" / "e1-0000.parquet").read_bytes()


@given(tables())
def test_pack_and_unpack(table: pa.Table) -> None:
    assert unpack(pack(table)).equals(table)
    assert unpack(bytes(pack(table))).schema == table.schema
    cut = table.slice(1)
    assert unpack(pack(cut)).equals(cut)


@given(tables(), st.integers(1, 9))
def test_pack_and_unpack_runs_and_copies(table: pa.Table, times: int) -> None:
    """The same where tables are long enough to be shortened: rows that recur, and columns that are there twice."""
    rows = pa.array(np.repeat(np.arange(table.num_rows), times))
    table = table.take(rows)
    for at, name in enumerate(table.column_names):
        table = table.add_column(0 if at % 2 else table.num_columns, f"{name} again", table[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_FEW", 4)
        packed = pack(table)
    assert unpack(packed).equals(table)
    assert unpack(packed).schema.equals(table.schema, check_metadata=True)


def test_runs_and_copies_take_no_room() -> None:
    n = 100_000
    rng = np.random.default_rng(1)
    values, keys = pa.array(rng.random(n)), pa.array(rng.integers(0, 2**60, n))
    table = pa.table({"g": keys, "s": values, "k": keys, "op": pa.repeat("+", n), "end": np.arange(n) // 1000})
    assert pack(table).size < 16 * n + 10_000
    assert unpack(pack(table)).equals(table)
    zeros = pa.table({"a": pa.array([0.0, -0.0] * n), "b": pa.array([0.0] * (2 * n))})  # equal, but not the same bytes
    assert np.signbit(unpack(pack(zeros))["a"].to_numpy()).sum() == n


def test_runs_of_nulls_pack_into_equal_bytes() -> None:
    """What Arrow leaves under NULLs of runs is whatever memory held: it is not written."""
    values = [n // 40 if n // 40 % 3 else None for n in range(20_000)]
    first, held = pack(pa.table({"v": pa.array(values, pa.int64())})), []
    for n in range(50):
        held.append(np.full(60 + n, 255, np.int64).tobytes())  # memory that is given back has other bytes in it
        del held[:: n % 3 + 1]
        assert pack(pa.table({"v": pa.array(values, pa.int64())})) == first
