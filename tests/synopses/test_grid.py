"""Grids over attributes: every row lies in the cell of its buckets, and boxes find their rows through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millpond.synopses.blocks import Block
from millpond.synopses.predicate_index import grid, match_plans, probe
from millpond.synopses.predicate_index.boxes import BoxTable
from millpond.synopses.predicate_index.matches import match_block
from millpond.types import Interval

NAMES = "abcdef"


def block_of(columns: dict[str, Any]) -> Block:
    """A block with these integer columns."""
    n = len(next(iter(columns.values())))
    rows = {"ts": pa.array(np.arange(n), pa.timestamp("us")), **columns, "_id": np.arange(n)}
    return Block.build(pa.table(rows), "ts")[0]


def boxes_of(rng: np.random.Generator, names: str, count: int, top: int, share: float) -> list[Any]:
    """Boxes of an interval on each of some attributes."""
    made = []
    for _ in range(count):
        used = rng.permutation(list(names))[: int(rng.integers(2, len(names) + 1))]
        lows = rng.integers(0, top, len(used))
        width = max(1, int(top * share))
        made.append(
            (tuple(Interval(f'"{a}"', "integer", int(x), int(x) + width) for a, x in zip(used, lows, strict=True)),)
        )
    return made


def ways_of(block: Block, boxes: list[Any]) -> list[int]:
    """How the rows of each box are found."""
    table = BoxTable()
    table.add_many(enumerate(boxes))
    snapshot = table.compile()
    plan = match_plans.Plan(block, snapshot)
    ways = match_plans.ways_of(plan, snapshot, np.arange(len(boxes)))
    return [int(w) for w in ways.way[: len(boxes)]]


def check(block: Block, columns: dict[str, Any], boxes: list[Any]) -> None:
    """Compare each box with a mask."""
    table = BoxTable()
    table.add_many(enumerate(boxes))
    matches = match_block(block, table, 1e9)
    for query, (box,) in enumerate(boxes):
        mask = np.ones(len(block), bool)
        for i in box:
            values = columns[i.attribute.strip('"')]
            mask &= (values >= i.low) & (values <= i.high)
        found = matches.rows(query)
        assert found is not None and found.tolist() == np.flatnonzero(mask).tolist()


def test_cells_hold_the_rows_of_their_buckets() -> None:
    rng = np.random.default_rng(1)
    block = block_of({"a": rng.integers(0, 100, 5_000), "b": rng.integers(0, 40, 5_000) ** 2})
    indexes = [block.index('"a"', "integer"), block.index('"b"', "integer")]
    lengths = [len(i.starts) for i in indexes]
    at = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    made = grid.layout([np.full(9, 0.01), np.full(3, 0.1)], indexes, at, int(at[-1]), len(block))
    assert made.cells == 256 and sorted(made.dimension.tolist()) == [2, 3]
    # The attribute with more intervals is the outer one, and has more buckets.
    assert made.dimension.tolist() == [2, 3] and made.sizes[2] > made.sizes[3] > 1
    codes = np.stack([i.codes for i in indexes])
    cells = grid.build(made, codes, at)
    assert sorted(cells.row.tolist()) == list(range(len(block)))
    for c in range(made.cells):
        rows = cells.row[cells.first[c] : cells.first[c + 1]]
        assert rows.tolist() == sorted(rows.tolist())
        a, b = (made.bucket[at[k] :][codes[k][rows]] for k in range(2))
        assert (a * made.sizes[3] + b == c).all()


@pytest.mark.parametrize("top", [256, 60_000])
def test_many_selective_boxes_take_the_grid(top: int) -> None:
    rng = np.random.default_rng(top)
    columns = {a: rng.integers(0, top, 50_000) for a in NAMES}
    block = block_of(columns)
    boxes = boxes_of(rng, NAMES, 2_000, top, 0.1)
    assert ways_of(block, boxes).count(probe.GRID) > 1_000
    check(block, columns, boxes[::8] * 4 + boxes[:1])


def test_one_selective_attribute_needs_no_grid() -> None:
    rng = np.random.default_rng(3)
    block = block_of({a: rng.integers(0, 50_000, 50_000) for a in "ab"})
    boxes = [((Interval('"a"', "integer", v, v), Interval('"b"', "integer", 0, 25_000)),) for v in range(5_000)]
    assert set(ways_of(block, boxes)) == {probe.WALK}


def test_rows_that_crowd_in_few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes that are the same: nearly all rows are in the cells of the diagonal."""
    monkeypatch.setattr(match_plans, "_GRID_PAYS", -1e30)
    monkeypatch.setattr(match_plans, "PRICES", (1e30, 1.0, 0.0, 1e30, 0.0, 0.0))
    same = np.repeat(np.arange(4), 5_000)
    columns = {a: same for a in "abc"}
    boxes = [((*(Interval(f'"{a}"', "integer", v, v) for a in "abc"),),) for v in range(4)] * 3
    block = block_of(columns)
    assert set(ways_of(block, boxes)) == {probe.GRID}
    check(block, columns, boxes)


def test_contradicting_intervals_on_one_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_plans, "_GRID_PAYS", -1e30)
    monkeypatch.setattr(match_plans, "PRICES", (1e30, 1.0, 0.0, 1e30, 0.0, 0.0))
    rng = np.random.default_rng(5)
    columns = {a: rng.integers(0, 64, 4_000) for a in "ab"}
    both = [
        (Interval('"a"', "integer", 0, low), Interval('"a"', "integer", high, 63)) for low, high in ((9, 50), (40, 20))
    ]
    check(block_of(columns), columns, [(box,) for box in both])
