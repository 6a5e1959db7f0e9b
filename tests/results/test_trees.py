"""Aggregate trees: equal to DuckDB over the same rows for any window; logarithmic; robust to changes of the blocks."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.answers.row_queries.shapes import Shapes
from millpond.answers.row_queries.stretch import Stretch
from millpond.answers.row_queries.trees import Trees, aggregate_rows
from millpond.support.errors import QueryError
from millpond.synopses.blocks import Block
from millpond.types import (
    Aggregate,
    Column,
    Expression,
    GroupScan,
    Key,
    OrderTerm,
    Output,
    StreamDefinition,
    StreamOptions,
)
from millpond.types.sql_expressions import parsed
from tests.quick import many, plain_duckdb

STREAM = StreamDefinition(
    "s",
    (
        Column("ts", "TIMESTAMP"),
        Column("g", "VARCHAR"),
        Column("i", "INTEGER"),
        Column("b", "BIGINT"),
        Column("x", "DOUBLE"),
        Column("d", "DECIMAL(18,2)"),
        Column("t", "VARCHAR"),
    ),
    StreamOptions(time="ts"),
    id=1,
)
TYPES = {c.name: c.type for c in STREAM.columns}
FUNCTIONS = [
    ("count_star", (), "BIGINT"),
    ("count", ("i",), "BIGINT"),
    ("sum", ("i",), "HUGEINT"),
    ("sum", ("b",), "HUGEINT"),
    ("sum", ("x",), "DOUBLE"),
    ("sum", ("d",), "DECIMAL(38,2)"),
    ("avg", ("x",), "DOUBLE"),
    ("min", ("t",), "VARCHAR"),
    ("max", ("x",), "DOUBLE"),
    ("var_samp", ("x",), "DOUBLE"),
    ("stddev_pop", ("i",), "DOUBLE"),
    ("covar_pop", ("x", "i"), "DOUBLE"),
    ("regr_slope", ("x", "i"), "DOUBLE"),
    ("regr_r2", ("x", "i"), "DOUBLE"),
    ("bit_and", ("i",), "INTEGER"),
    ("bit_xor", ("b",), "BIGINT"),
    ("first", ("t",), "VARCHAR"),
    ("last", ("i",), "INTEGER"),
    ("arg_max", ("t", "i"), "VARCHAR"),
]


def rows(rng: random.Random, count: int, low: int = 0, high: int = 1_000, first_id: int = 0) -> pa.Table:
    """Random rows in any order, NULLs and ties included."""
    nrng = np.random.default_rng(rng.randrange(2**32))
    times = nrng.integers(low, high, count)

    def gaps(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=nrng.random(count) < 0.1)

    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "g": gaps(np.array(["a", "b", "c"])[nrng.integers(0, 3, count)], pa.string()),
            "i": gaps(nrng.integers(-100, 100, count), pa.int32()),
            "b": gaps(nrng.integers(-(2**62), 2**62, count), pa.int64()),
            "x": gaps(nrng.normal(1e3, 50, count), pa.float64()),
            "d": gaps(nrng.integers(-(10**6), 10**6, count), pa.int64())
            .cast(pa.decimal128(21, 2))
            .cast(pa.decimal128(18, 2)),
            "t": gaps(nrng.integers(0, 50, count).astype(str), pa.string()),
            "_id": pa.array(np.arange(first_id, first_id + count), pa.int64()),
            "_epoch": pa.array(np.ones(count), pa.int64()),
            "_bound": pa.nulls(count, pa.int64()),
        }
    )


def small_blocks(table: pa.Table, size: int) -> list[Block]:
    """Blocks of `size` rows in time order."""
    (whole,) = Block.build(table, "ts") or [None]
    return [] if whole is None else [Block(whole.rows.slice(at, size), "ts") for at in range(0, len(whole), size)]


def even(block: Any, low: int, high: int) -> Any:
    """The condition `i IS NOT NULL AND i % 2 = 0`."""
    values = block.rows["i"].slice(low, high - low)
    mask = values.is_valid().to_numpy() & (values.fill_null(1).to_numpy() % 2 == 0)
    return np.flatnonzero(mask) + low


def query_of(
    functions: Any, grouped: bool = False, having: str | None = None, order: bool = False, limit: int | None = None
) -> GroupScan:
    """SELECT [g,] f0, f1, … FROM s [GROUP BY g] …"""
    aggregates = tuple(
        Aggregate(f"a{n}", f, tuple(Expression.column_of(c, TYPES[c]) for c in columns), type=kind)
        for n, (f, columns, kind) in enumerate(functions)
    )
    select = [Output(f"o{a.name}", parsed(a.name).typed(a.type)) for a in aggregates]
    keys = (Key("k0", parsed('"g"').typed("VARCHAR")),) if grouped else ()
    select = [Output("g", parsed("k0").typed("VARCHAR")), *select] if grouped else select
    terms = (OrderTerm(parsed("a0"), True), OrderTerm(parsed("k0"))) if order else ()
    return GroupScan(
        stream="s",
        select=tuple(select),
        keys=keys,
        aggregates=aggregates,
        having=having,
        order_by=terms,
        limit=limit,
    )


def expected(table: pa.Table, functions: Any, stretch: Stretch, grouped: bool, tail: str = "") -> list[tuple[Any, ...]]:
    """The same by DuckDB alone."""
    names = {"count_star": "count(*)"}
    order = "ORDER BY ts, _id"
    calls = [
        names.get(f)
        or (f"{f}({', '.join(c)} {order})" if f in ("first", "last", "arg_max") else f"{f}({', '.join(c)})")
        for f, c, _ in functions
    ]
    listed = ", ".join(
        [
            *(["g"] if grouped else []),
            *(f"({c})::{k} AS a{n}" for n, (c, (_, _, k)) in enumerate(zip(calls, functions, strict=True))),
        ]
    )
    where = "i % 2 = 0"
    if stretch.begin is not None:
        where += f" AND (epoch_us(ts), _id) >= ({stretch.begin}, {stretch.first_id or -1})"
    if stretch.end is not None:
        where += f" AND epoch_us(ts) <= {stretch.end}"
    with plain_duckdb() as db:
        db.register("s", table)
        return db.sql(f"SELECT {listed} FROM s WHERE {where} {'GROUP BY g' if grouped else ''} {tail}").fetchall()


def same(found: pa.Table, wanted: list[tuple[Any, ...]], ordered: bool = False) -> None:
    """Equal rows; floats to 1e-9."""
    rows_found = [tuple(r.values()) for r in found.to_pylist()]
    if not ordered:
        rows_found.sort(key=repr)
        wanted = sorted(wanted, key=repr)
    assert len(rows_found) == len(wanted)
    for left, right in zip(rows_found, wanted, strict=True):
        for a, b in zip(left, right, strict=True):
            if isinstance(b, float):
                assert a == pytest.approx(b, rel=1e-9, abs=1e-9) or (math.isnan(a) and math.isnan(b))
            else:
                assert a == b


@given(st.integers(0, 10**9))
@many(1, 1)
def test_any_window_equals_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    table = rows(rng, rng.choice([0, 1, 50, 3_000]))
    blocks = small_blocks(table, rng.choice([7, 100, 1_000]))
    functions = rng.sample(FUNCTIONS, rng.randint(1, 5))
    grouped = rng.random() < 0.5
    query = query_of(functions, grouped)
    trees = Trees(1 << 30)
    for _ in range(4):
        begin = rng.choice([None, rng.randint(-5, 1_005)])
        end = rng.choice([None, rng.randint(-5, 1_005)])
        first = rng.choice([None, rng.randint(0, 3_000)]) if begin is not None else None
        stretch = Stretch(begin, end, first)
        found, _ = trees.answer("q", query, STREAM, blocks, even, stretch)
        same(found, expected(table, functions, stretch, grouped))


def test_having_order_limit_and_expressions() -> None:
    table = rows(random.Random(1), 2_000)
    blocks = small_blocks(table, 100)
    functions = [("count_star", (), "BIGINT"), ("sum", ("i",), "HUGEINT")]
    query = query_of(functions, True, having="a0 > 10", order=True, limit=2)
    found, touched = Trees(1 << 30).answer("q", query, STREAM, blocks, even, Stretch(100, 900))
    wanted = expected(
        table, functions, Stretch(100, 900), True, "HAVING count(*) > 10 ORDER BY count(*) DESC, g NULLS LAST LIMIT 2"
    )
    same(found, wanted, ordered=True)
    assert touched.tree
    half = GroupScan(
        stream="s",
        select=(Output("h", parsed("a1 / a0 + 1").typed("DOUBLE")),),
        aggregates=query_of(functions).aggregates,
        having=parsed("a0 >= 0"),
    )
    found, _ = Trees(1 << 30).answer("q", half, STREAM, blocks, even, Stretch(100, 900))
    ((count, total),) = expected(table, functions, Stretch(100, 900), False)
    assert found.to_pylist() == [{"h": pytest.approx(float(total) / count + 1)}]


def test_empty_windows() -> None:
    query = query_of([("count_star", (), "BIGINT"), ("sum", ("i",), "HUGEINT"), ("min", ("t",), "VARCHAR")])
    trees = Trees(1 << 30)
    for blocks in ([], small_blocks(rows(random.Random(2), 100), 10)):
        found, _ = trees.answer("q", query, STREAM, blocks, even, Stretch(5_000, 6_000))
        assert found.to_pylist() == [{"oa0": 0, "oa1": None, "oa2": None}]
    grouped = query_of([("count_star", (), "BIGINT")], True)
    found, _ = trees.answer("g", grouped, STREAM, [], even, Stretch(5_000, 6_000))
    assert found.num_rows == 0 and found.column_names == ["g", "oa0"]
    none = query_of([("count_star", (), "BIGINT")], having="a0 > 0")
    assert trees.answer("h", none, STREAM, [], even, Stretch())[0].num_rows == 0


def test_archive_rows_are_merged_in() -> None:
    table = rows(random.Random(3), 1_000)
    late = rows(random.Random(4), 300, -500, 0, first_id=10_000)
    functions = FUNCTIONS[:9]
    matching = [
        t.filter(pa.array([v is not None and v % 2 == 0 for v in t["i"].to_pylist()]))
        for t in (late.slice(0, 100), late.slice(100))
    ]
    found, _ = Trees(1 << 30).answer(
        "q", query_of(functions, True), STREAM, small_blocks(table, 64), even, Stretch(-500, 700), matching
    )
    same(found, expected(pa.concat_tables([late, table]), functions, Stretch(-500, 700), True))


def test_blocks_may_overlap_and_be_replaced() -> None:
    rng = random.Random(5)
    functions = FUNCTIONS[:6]
    query, trees = query_of(functions), Trees(1 << 30)
    tables: list[pa.Table] = []
    blocks: list[Block] = []
    for step in range(12):
        new = rows(rng, 200, step * 50, step * 50 + 400, first_id=step * 1_000)
        tables.append(new)
        blocks = [*blocks, *Block.build(new, "ts")]
        if step % 4 == 3:  # tail merging
            merged = Block.build(pa.concat_tables([b.rows for b in blocks[-3:]]), "ts")
            blocks = [*blocks[:-3], *merged]
        if step == 8:  # the oldest leaves
            gone = int(blocks[0].ids[0]) // 1_000
            blocks = blocks[1:]
            tables = [t for t in tables if t["_id"][0].as_py() // 1_000 != gone]
        table = pa.concat_tables(tables)
        stretch = Stretch(rng.randint(0, 500), rng.randint(300, 1_000))
        found, _ = trees.answer("q", query, STREAM, blocks, even, stretch)
        same(found, expected(table, functions, stretch, False))


def test_holistic_aggregates_go_over_rows() -> None:
    table = rows(random.Random(6), 1_000)
    functions = [("median", ("x",), "DOUBLE"), ("count_star", (), "BIGINT")]
    found, touched = Trees(1 << 30).answer(
        "q", query_of(functions), STREAM, small_blocks(table, 64), even, Stretch(200, 300)
    )
    same(found, expected(table, functions, Stretch(200, 300), False))
    assert not touched.tree and touched.rows == found["oa1"][0].as_py()


def test_touched_grows_like_a_logarithm() -> None:
    query = query_of([("sum", ("b",), "HUGEINT")])
    most = {}
    for size in (32, 256, 2_048):
        table = rows(random.Random(7), size * 8, 0, 10**9)
        blocks, trees, rng = small_blocks(table, 8), Trees(1 << 30), random.Random(8)
        trees.answer("q", query, STREAM, blocks, even, Stretch())
        counts = []
        for _ in range(12):
            begin = rng.randint(0, 5 * 10**8)
            _, touched = trees.answer("q", query, STREAM, blocks, even, Stretch(begin, begin + 4 * 10**8))
            assert touched.built_nodes <= size  # only leaves that were inside whole nodes so far
            counts.append(touched.nodes)
            assert touched.rows <= 16
        most[size] = max(counts)
    assert most[2_048] <= 10 * math.log2(2_048)
    assert most[2_048] - most[256] <= 45


def test_an_append_builds_a_spine_only() -> None:
    table = rows(random.Random(9), 4_096, 0, 10**6)
    blocks = small_blocks(table, 8)
    query, trees = query_of([("max", ("x",), "DOUBLE")]), Trees(1 << 30)
    _, touched = trees.answer("q", query, STREAM, blocks, even, Stretch())
    assert touched.built_nodes >= len(blocks)
    _, touched = trees.answer("q", query, STREAM, blocks, even, Stretch())
    assert touched.built_nodes == 0 and touched.nodes == 1
    more = [*blocks, *small_blocks(rows(random.Random(10), 8, 10**6, 2 * 10**6, 10_000), 8)]
    _, touched = trees.answer("q", query, STREAM, more, even, Stretch())
    assert touched.built_nodes <= 40
    _, touched = trees.answer("q", query, STREAM, more[5:], even, Stretch())
    assert touched.built_nodes <= 40
    assert trees.nbytes > 0


def test_bounded_memory_and_forgetting() -> None:
    table = rows(random.Random(11), 2_000)
    blocks = small_blocks(table, 20)
    functions = [("sum", ("i",), "HUGEINT")]
    query = query_of(functions)
    one = Trees(1 << 30)
    one.answer("q", query, STREAM, blocks, even, Stretch())
    trees = Trees(int(one.nbytes * 2.5))
    for key in range(6):
        found, _ = trees.answer(key, query, STREAM, blocks, even, Stretch(0, 500))
        same(found, expected(table, functions, Stretch(0, 500), False))
    assert trees.nbytes <= trees.budget and 5 in trees.sizes() and 0 not in trees.sizes()
    trees.forget(5)
    assert 5 not in trees.sizes()
    tiny = Trees(100)
    for _ in range(2):
        found, touched = tiny.answer("q", query, STREAM, blocks, even, Stretch(0, 500))
        same(found, expected(table, functions, Stretch(0, 500), False))
    assert not touched.tree and tiny.nbytes == 0


def test_rows_outside_the_window_do_not_fail_it() -> None:
    table = rows(random.Random(12), 500)
    bad = table["t"].to_pylist()
    order = np.argsort(table["ts"].cast(pa.int64()).to_numpy(), kind="stable")
    last = int(order[-1])
    bad[last] = "no number"
    table = table.set_column(table.schema.get_field_index("t"), "t", pa.array(bad))
    table = table.set_column(table.schema.get_field_index("i"), "i", pa.array([2] * 500, pa.int32()))
    aggregate = Aggregate("a0", "sum", (parsed('CAST("t" AS INTEGER)').typed("INTEGER"),), type="HUGEINT")
    query = GroupScan(stream="s", select=(Output("o", parsed("a0").typed("HUGEINT")),), aggregates=(aggregate,))
    high = int(table["ts"].cast(pa.int64()).to_numpy()[last])
    trees, blocks = Trees(1 << 30), small_blocks(table, 100)
    found, _ = trees.answer("q", query, STREAM, blocks, even, Stretch(0, high - 1))
    kept = table.filter(pa.array(table["ts"].cast(pa.int64()).to_numpy() < high))
    assert found["o"][0].as_py() == sum(int(v) for v in kept["t"].to_pylist() if v is not None)
    with pytest.raises(QueryError, match="no number"):
        trees.answer("q", query, STREAM, blocks, even, Stretch(0, high))


def test_pieces_of_large_blocks() -> None:
    table = rows(random.Random(13), 30_000, 0, 10_000)
    blocks = Block.build(table, "ts")
    functions = FUNCTIONS[:9]
    for grouped in (False, True):
        trees = Trees(1 << 30)
        trees.answer("q", query_of(functions, grouped), STREAM, blocks, even, Stretch())
        for begin, end in ((1_234, 8_765), (0, 5_000), (9_000, None), (100, 110)):
            stretch = Stretch(begin, end)
            found, touched = trees.answer("q", query_of(functions, grouped), STREAM, blocks, even, stretch)
            same(found, expected(table, functions, stretch, grouped))
            assert touched.rows <= 2 * 4_096 and touched.built_nodes == 0


def test_aggregate_rows_equals_duckdb() -> None:
    table = rows(random.Random(14), 1_000)
    matching = table.filter(pa.array([v is not None and v % 2 == 0 for v in table["i"].to_pylist()]))
    functions = [*FUNCTIONS, ("median", ("x",), "DOUBLE")]
    found = aggregate_rows(query_of(functions, True), STREAM, [matching.slice(0, 100), matching.slice(100)])
    same(found, expected(table, functions, Stretch(), True))


def test_shapes_do_not_keep_blocks_alive() -> None:
    import gc
    import weakref

    shapes = Shapes()
    blocks = small_blocks(rows(random.Random(15), 100), 10)
    assert shapes.of(1, blocks) is shapes.of(1, list(blocks))
    watch = weakref.ref(blocks[0])
    blocks = blocks[1:]
    gc.collect()
    assert watch() is None
    root = shapes.of(1, blocks)
    assert root is not None and dt.timedelta(microseconds=root.high - root.low) > dt.timedelta(0)
