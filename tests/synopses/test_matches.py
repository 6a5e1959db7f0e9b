"""Matching against a naive evaluation and against DuckDB, in every path of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.synopses.blocks import BLOCK_ROWS, Block
from millpond.synopses.predicate_index import grid, match_plans
from millpond.synopses.predicate_index import matches as matches_module
from millpond.synopses.predicate_index.boxes import BoxTable
from millpond.synopses.predicate_index.matches import match_block, rows_of
from millpond.types import Interval
from tests.quick import plain_duckdb
from tests.synopses.blocks_data import CONDITIONS, condition, naive, numbers, tables

DEAR = 1e30
#: Prices of (a walked row, a row in a cell, a word of a bitmap) that force a way, and the ranks of exact boundaries.
NAMES = {
    "walk": ((1.0, DEAR, DEAR), 512),
    "bitmaps": ((DEAR, DEAR, 1.0), 512),
    "buckets": ((DEAR, DEAR, 1.0), 0),
    "grid": ((DEAR, 1.0, DEAR), 512),
}


@pytest.fixture(params=list(NAMES))
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Forces one of the ways in which a box's rows can be found."""
    (walk, cell, word), ranks = NAMES[request.param]
    monkeypatch.setattr(match_plans, "PRICES", (walk, cell, 0.0, word, 0.0, 0.0))
    monkeypatch.setattr(match_plans, "_BITMAPS_PAY", 0)
    monkeypatch.setattr(match_plans, "_GRID_PAYS", -DEAR)
    monkeypatch.setattr(match_plans, "_RANK_BOUNDARIES", ranks)
    if request.param == "grid":
        monkeypatch.setattr(grid, "CELL_ROWS", 1)
    return str(request.param)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(), st.lists(CONDITIONS, max_size=5), st.data())
def test_every_way_equals_the_naive_one(path: str, rows: pa.Table, conditions: list[Any], data: st.DataObject) -> None:
    boxes = BoxTable()
    boxes.add_many((10 - n, c) for n, c in enumerate(conditions))
    for block in Block.build(rows, "ts"):
        matches = match_block(block, boxes, explicit_budget=1e9)
        assert matches.queries.tolist() == sorted(boxes.queries())
        low = data.draw(st.integers(0, len(block)))
        high = data.draw(st.integers(low, len(block)))
        for n, c in enumerate(conditions):
            expected = naive(block.rows, c)
            found = matches.rows(10 - n)
            assert found is not None and found.tolist() == expected
            assert matches.count(10 - n) == len(expected)
            assert rows_of(block, c).tolist() == expected
            assert rows_of(block, boxes.boxes(10 - n), low, high).tolist() == naive(block.rows, c, low, high)
        assert matches.total == sum(len(naive(block.rows, c)) for c in conditions)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), CONDITIONS)
def test_duckdb_agrees(rows: pa.Table, boxes: Any) -> None:
    for block in Block.build(rows, "ts"):
        where, parameters = condition(boxes)
        with plain_duckdb() as db:
            db.register("t", block.rows.append_column("_row", pa.array(range(len(block)))))
            got = db.execute(f"SELECT _row FROM t WHERE {where} ORDER BY _row", parameters).fetchall()
        assert rows_of(block, boxes).tolist() == [r for (r,) in got]


def _random_boxes(rng: np.random.Generator, tops: dict[str, int], wide: float) -> Any:
    box = []
    for name, top in tops.items():
        if rng.random() < 0.6:
            low = int(rng.integers(-1, top))
            box.append(Interval(f'"{name}"', "integer", low, low + int(rng.integers(0, 1 + int(top * wide)))))
    return (tuple(box),)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, BLOCK_ROWS - 1, BLOCK_ROWS])
@pytest.mark.parametrize("wide", [0.02, 0.9])
def test_large_blocks_of_few_and_of_many_values(path: str, n: int, wide: float) -> None:
    rows = numbers(n, n, one=1, some=200, many=BLOCK_ROWS)
    block = Block.build(rows, "ts")[0]
    rng = np.random.default_rng(n)
    tops = {"one": 1, "some": 200, "many": n}
    conditions = [_random_boxes(rng, tops, wide) for _ in range(40)]
    # Alternatives that exclude each other.
    conditions.append(tuple((Interval('"some"', "integer", k, k),) for k in (3, 1, 199)))
    boxes = BoxTable()
    boxes.add_many(enumerate(conditions))
    matches = match_block(block, boxes, 1e9)
    columns = {name: rows[name].to_numpy() for name in tops}
    for query, condition_ in enumerate(conditions):
        mask = np.zeros(n, bool)
        for box in condition_:
            part = np.ones(n, bool)
            for i in box:
                values = columns[i.attribute.strip('"')]
                part &= (values >= i.low) & (values <= i.high)
            mask |= part
        expected = np.flatnonzero(mask).tolist()
        found = matches.rows(query)
        assert found is not None and found.tolist() == expected
        assert rows_of(block, condition_).tolist() == expected
        low, high = sorted(rng.integers(0, n + 1, 2).tolist())
        assert rows_of(block, condition_, low, high).tolist() == [r for r in expected if low <= r < high]
    assert matches.counts().sum() == matches.total


def test_the_budget_keeps_the_narrowest() -> None:
    block = Block.build(numbers(4, 10_000, a=100), "ts")[0]
    boxes = BoxTable()
    boxes.add_many((q, ((Interval('"a"', "integer", 0, q),),)) for q in range(100))
    matches = match_block(block, boxes, explicit_budget=1.0)
    kept = matches.queries.tolist()
    assert kept == list(range(len(kept))) and 10 < len(kept) < 30
    assert matches.nbytes < 2 * 10_000 * 1.2 + 16 * len(kept)
    assert matches.rows(99) is None and matches.count(99) is None
    assert match_block(block, boxes, explicit_budget=0.0).total == 0


def test_correlated_factors_stay_within_reach_of_the_budget() -> None:
    n = 20_000
    values = np.arange(n) % 100
    rows = pa.table({"ts": pa.array(np.arange(n), pa.timestamp("us")), "a": values, "b": values, "_id": np.arange(n)})
    boxes = BoxTable()
    boxes.add_many(
        (q, ((Interval('"a"', "integer", q % 95, q % 95 + 4), Interval('"b"', "integer", q % 95, q % 95 + 4)),))
        for q in range(5000)
    )
    matches = match_block(Block.build(rows, "ts")[0], boxes, explicit_budget=10.0)
    assert 0 < len(matches) < 5000 and matches.nbytes < 2 * (21 * n + 4096) + 12 * 5000
    assert matches.rows(5).tolist() == np.flatnonzero((values >= 5) & (values <= 9)).tolist()  # type: ignore[union-attr]  # it is there, or the test fails


def test_rare_attributes_stay_factored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_plans, "MAX_ATTRIBUTES", 2)
    block = Block.build(numbers(4, 500, a=10, b=10, c=10), "ts")[0]
    boxes = BoxTable()
    for query, column in enumerate("aabbc"):
        boxes.add(query, ((Interval(f'"{column}"', "integer", 3, 3),),))
    matches = match_block(block, boxes)
    assert matches.queries.tolist() == [0, 1, 2, 3]
    assert rows_of(block, boxes.boxes(4)).tolist() == np.flatnonzero(block.rows["c"].to_numpy() == 3).tolist()


def test_nothing_to_match() -> None:
    rows = numbers(1, 10, a=3)
    boxes = BoxTable()
    assert len(match_block(Block.build(rows, "ts")[0], boxes)) == 0
    boxes.add(1, ((),))
    empty = Block(rows.slice(0, 0), "ts")
    assert match_block(empty, boxes).rows(1).tolist() == []  # type: ignore[union-attr]  # it is there, or the test fails
    assert rows_of(empty, ((),)).tolist() == []


def test_the_stored_and_the_arriving_tuples_of_figure_2_and_3() -> None:
    def block(*rows: tuple[int, int, int]) -> Block:
        ids, a, b = zip(*rows, strict=True)
        columns = {"ts": pa.array(ids, pa.timestamp("us")), "a": list(a), "b": list(b), "_id": list(ids)}
        return Block.build(pa.table(columns), "ts")[0]

    stored = block((48, 3, 10), (49, 6, 9), (50, 4, 7), (51, 0, 2), (52, 2, 1))
    query = (
        (
            Interval('"a"', "integer", 0, 5, low_closed=False, high_closed=False),
            Interval('"b"', "integer", 4, None, low_closed=False),
        ),
    )
    boxes = BoxTable()
    boxes.add(24, query)
    assert stored.ids[rows_of(stored, query)].tolist() == [48, 50]  # a new query meets old data
    assert match_block(block((53, 1, 8)), boxes).rows(24).tolist() == [0]  # new data meets an old query


def test_the_work_granted_is_not_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches_module, "LEAST_WORK", 0.0)
    rng = np.random.default_rng(8)
    block = Block.build(numbers(8, 20_000, a=5_000, b=300), "ts")[0]
    boxes = BoxTable()
    for query in range(2_000):
        low = int(rng.integers(0, 5_000))
        boxes.add(query, ((Interval('"a"', "integer", low, low + 20), Interval('"b"', "integer", 0, query % 300)),))
    everything = match_block(block, boxes)
    assert len(everything) == 2_000 and not everything.limited
    known = {q: everything.rows(q) for q in everything.queries.tolist()}
    counts = []
    for work in (0.0, 5.0, 32.0, 40.0, 1e9):
        some = match_block(block, boxes, work=work)
        counts.append(len(some))
        assert some.limited == (len(some) < 2_000)
        assert all(np.array_equal(some.rows(q), known[q]) for q in some.queries.tolist())
        # The indexes are there all the same: what was left out is made from them.
        assert {attribute for attribute, _ in block._indexes} >= {'"a"', '"b"'}
    assert counts == sorted(counts) and counts[0] == 0 and 0 < counts[2] < counts[3] < 2_000 == counts[-1]
    # The same arguments give the same sets.
    assert (
        match_block(block, boxes, work=35.0).queries.tolist() == match_block(block, boxes, work=35.0).queries.tolist()
    )
