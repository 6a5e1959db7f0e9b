"""Blocks: order, cutting, indexes against DuckDB, files and their damage."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from millpond.synopses import blocks as blocks_module
from millpond.synopses.blocks import BLOCK_ROWS, Block, OrderedIndex
from millpond.synopses.predicate_index.block_files import read_blocks, write_blocks
from millpond.synopses.predicate_index.boxes import BoxTable
from millpond.synopses.predicate_index.matches import match_block
from millpond.types import Interval
from tests.quick import many, plain_duckdb
from tests.synopses.blocks_data import COLUMN, RECIPROCAL, numbers, table, tables


@settings(max_examples=40, deadline=None)
@given(tables())
def test_rows_are_in_the_streams_total_order(rows: pa.Table) -> None:
    built = Block.build(rows, "ts")
    expected = rows.sort_by([("ts", "ascending"), ("_id", "ascending")])
    assert [r for b in built for r in b.rows["_id"].to_pylist()] == expected["_id"].to_pylist()
    for block in built:
        assert block.times.tolist() == sorted(block.times.tolist())
        assert (block.low, block.high) == (block.times[0], block.times[-1])
        assert block.span(block.low, block.high) == (0, len(block))
        assert block.span(0, 2) == (int((block.times < 0).sum()), int((block.times <= 2).sum()))


def test_cutting() -> None:
    rows = numbers(1, BLOCK_ROWS * 2 + 10, a=5)
    built = Block.build(rows, "ts")
    assert [len(b) for b in built] == [BLOCK_ROWS, BLOCK_ROWS, 10]
    assert pa.concat_tables([b.rows for b in built]).combine_chunks().equals(rows.combine_chunks())
    assert Block.build(rows.slice(0, 0), "ts") == []
    with pytest.raises(ValueError, match="at most"):
        Block(rows, "ts")


@many(3, 1)
@given(tables())
def test_an_index_ranks_as_duckdb_does(rows: pa.Table) -> None:
    for block in Block.build(rows, "ts"):
        for kind, column in COLUMN.items():
            fast, slow = block.index(column, kind), block.index(f"({column})", kind)  # parentheses: through DuckDB
            assert fast.codes.tolist() == slow.codes.tolist()
            assert repr(fast.values.tolist()).replace("-0.0", "0.0") == repr(slow.values.tolist()).replace(
                "-0.0", "0.0"
            )
            sql = f"SELECT dense_rank() OVER (ORDER BY {column} NULLS LAST) - 1 AS r FROM t ORDER BY ts, _id"
            with plain_duckdb() as db:
                db.register("t", block.rows)
                assert fast.codes.tolist() == [r for (r,) in db.execute(sql).fetchall()]
            order = sorted(range(len(block)), key=lambda r: (fast.codes[r], r))
            assert fast.order.tolist() == order
            for code in range(fast.size):
                part = fast.order[fast.starts[code] : fast.starts[code + 1]]
                assert part.tolist() == np.flatnonzero(fast.codes == code).tolist()


@pytest.mark.parametrize("kind", ["integer", "float", "text"])
def test_a_block_of_all_different_values(kind: str) -> None:
    order = np.random.default_rng(3).permutation(BLOCK_ROWS).astype(np.int64) * 2**40
    words = [f"{v:020d}" for v in order.tolist()]
    values = {"integer": order, "float": order.astype(np.float64), "text": pa.array(words)}[kind]
    rows = pa.table({"ts": pa.array(np.arange(BLOCK_ROWS), pa.timestamp("us")), "x": values, "_id": order * 0})
    index = Block.build(rows, "ts")[0].index('"x"', kind)
    assert len(index.values) == index.size == BLOCK_ROWS
    assert index.codes.tolist() == (order // 2**40).tolist()
    assert index.bounds(None, None) == (0, BLOCK_ROWS)


def test_bounds_beyond_the_kind() -> None:
    index = OrderedIndex(np.array([-(2**63), 0, 2**63 - 1]), np.array([0, 1, 2], np.uint16), False)
    assert index.bounds(-(2**70), 2**70) == (0, 3)
    assert index.bounds(2**70, None)[0] == 3
    assert index.bounds(2**63 - 1, None) == (2, 3)
    assert index.bounds(None, None, null=True) == (3, 4)


def test_failing_expressions_count_as_null() -> None:
    block = Block.build(table([1, 2, 3, None], [0.0] * 4, ["1", "x", "3", "x"]), "ts")[0]
    index = block.index(RECIPROCAL, "integer")
    assert index.codes.tolist() == [1, 1, 0, 1]
    with pytest.raises(duckdb.Error):
        block.index('"missing" + 1', "integer")


def test_names_with_quotes_and_other_types() -> None:
    rows = pa.table(
        {
            "ts": pa.array([1, 2, 3], pa.timestamp("us")),
            'a"b': pa.array([3, 1, 2], pa.int8()),
            "u": pa.array([2**63 + 1, 1, 2], pa.uint64()),
            "r": pa.array([1.5, None, -1.5], pa.float32()),
            "_id": [0, 1, 2],
        }
    )
    block = Block.build(rows, "ts")[0]
    assert block.index('"a""b"', "integer").codes.tolist() == [2, 0, 1]
    assert block.index('"u"', "integer").codes.tolist() == [2, 0, 1]  # too large for BIGINT: as failing
    assert block.index('"r"', "float").codes.tolist() == [1, 2, 0]


def test_indexes_are_made_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Block.build(numbers(5, 20_000, a=300, b=70_000), "ts")[0]
    made: list[int] = []
    build = blocks_module._build_indexes
    monkeypatch.setattr(blocks_module, "_build_indexes", lambda *a: made.append(1) or build(*a))
    found: list[OrderedIndex] = []
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        found.extend(block.indexes([('"a"', "integer"), ('"b" + 1', "integer")]))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 1 and len({id(i) for i in found}) == 2 and len(found) == 16
    assert block.nbytes > block.rows.nbytes


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables())
def test_a_file_gives_back_what_was_written(tmp_path: Path, rows: pa.Table) -> None:
    path = str(tmp_path / "x.blocks")
    boxes = BoxTable()
    boxes.add(3, ((Interval('"t"', "text", "a", None),),))
    boxes.add(9, ((),))
    built = Block.build(rows, "ts")
    matches = [match_block(b, boxes) for b in built]
    size = write_blocks(path, built, matches)
    assert size == os.path.getsize(path) and os.listdir(tmp_path) == ["x.blocks"]
    again = read_blocks(path)
    assert again is not None and len(again) == len(built)
    for (block, met), old, old_met in zip(again, built, matches, strict=True):
        assert block.rows.equals(old.rows) or repr(block.rows.to_pylist()) == repr(old.rows.to_pylist())
        assert met is not None and met.version == old_met.version and met.queries.tolist() == [3, 9]
        for query in (3, 9):
            assert met.rows(query).tolist() == old_met.rows(query).tolist()  # type: ignore[union-attr]  # it is there, or the test fails
        assert block.index('"t"', "text").codes.tolist() == old.index('"t"', "text").codes.tolist()
        assert block.index('"i"', "integer").codes.tolist() == old.index('"i"', "integer").codes.tolist()


def test_torn_and_foreign_files_read_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.blocks"
    blocks = Block.build(numbers(1, 500, a=9), "ts")
    write_blocks(str(path), blocks)
    whole = path.read_bytes()
    read = read_blocks(str(path))
    assert read is not None and read[0][1] is None
    assert read_blocks(str(tmp_path / "none")) is None
    for damaged in (b"", b"x", whole[:-1], whole[: len(whole) // 2], whole[1:], whole + b"\0", b"\0" * len(whole)):
        path.write_bytes(damaged)
        assert read_blocks(str(path)) is None
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert read_blocks(str(path)) is None
    with pytest.raises(OSError):
        write_blocks(str(tmp_path / "no" / "x"), blocks)


def test_reading_copies_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "x.blocks")
    block = Block.build(numbers(1, BLOCK_ROWS, a=9), "ts")[0]
    block.index('"a"', "integer")
    write_blocks(path, [block])
    before = pa.total_allocated_bytes()
    read = read_blocks(path)
    assert read is not None and pa.total_allocated_bytes() - before < 100_000
    assert not read[0][0].index('"a"', "integer").codes.flags.owndata
