"""New data meets old queries: which rows of a block satisfy which of a stream's standing queries.

Queries are made *explicit* (their row set is kept) in the order of the rows to expect, while a budget of matches per
row lasts. The others stay *factored*: the block's codes are their answer, `rows_of` makes a row set from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.support.distinct import distinct
from millpond.synopses.blocks import Block, OrderedIndex
from millpond.synopses.predicate_index import grid, probe
from millpond.synopses.predicate_index.boxes import BoxTable, Compiled
from millpond.synopses.predicate_index.match_plans import MAX_ATTRIBUTES, PLANNED, Plan, Ways, bitmaps_of, ways_of
from millpond.types import Interval

#: Nanoseconds of work, by estimate, that are always granted to a block.
LEAST_WORK = 1e6

#: Row references per row that are kept as row sets.
EXPLICIT_BUDGET = 24.0

Rows = npt.NDArray[np.uint16]


class Matches:
    """Row sets of one block by query, for the queries that were made explicit. Immutable.

    queries: their ids, ascending. version: the `BoxTable.version` that was met. size: rows of the block.
    limited: whether others would have been explicit had there been more time for it. work: nanoseconds that finding
    the rows was said to take. Neither is kept in files.
    Row sets are sorted lists of row numbers or, where that is smaller, bitmaps.
    """

    def __init__(
        self,
        queries: npt.NDArray[np.int64],
        ends: npt.NDArray[np.uint32],
        units: Rows,
        dense: npt.NDArray[np.int32],
        size: int,
        version: int,
        limited: bool = False,
        work: float = 0.0,
    ) -> None:
        """Take arrays as `match_block` makes them: set i is `units[ends[i-1]:ends[i]]`; `dense` places are bitmaps."""
        self.queries = queries
        self.size = size
        self.version = version
        self.limited = limited
        self.work = work
        self._ends = ends
        self._units = units
        self._dense = dense
        self._is_dense = frozenset(dense.tolist())

    def __len__(self) -> int:
        """Number of explicit queries."""
        return len(self.queries)

    def rows(self, query: int) -> Rows | None:
        """Rows of the block that match, ascending; None: not explicit, ask `rows_of`."""
        place = self._place(query)
        if place is None:
            return None
        units = self._set(place)
        if place not in self._is_dense:
            return units
        return np.flatnonzero(np.unpackbits(units.view(np.uint8), bitorder="little")).astype(np.uint16)

    def count(self, query: int) -> int | None:
        """How many rows match; None: not explicit."""
        place = self._place(query)
        if place is None:
            return None
        units = self._set(place)
        return int(np.bitwise_count(units).sum(dtype=np.int64)) if place in self._is_dense else len(units)

    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows match, for each of `queries`."""
        ends = self._ends.astype(np.int64)
        counts = ends - np.concatenate(([0], ends[:-1]))
        for place in self._is_dense:
            counts[place] = int(np.bitwise_count(self._set(place)).sum(dtype=np.int64))
        return counts

    @property
    def total(self) -> int:
        """Matches over all explicit queries."""
        return int(self.counts().sum())

    @property
    def nbytes(self) -> int:
        """Memory it holds."""
        return self.queries.nbytes + self._ends.nbytes + self._units.nbytes + self._dense.nbytes

    def _place(self, query: int) -> int | None:
        place = int(np.searchsorted(self.queries, query))
        return place if place < len(self.queries) and int(self.queries[place]) == query else None

    def _set(self, place: int) -> Rows:
        return self._units[int(self._ends[place - 1]) if place else 0 : int(self._ends[place])]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What a file has to hold of it; `from_arrays` reads it back."""
        return {"queries": self.queries, "ends": self._ends, "units": self._units, "dense": self._dense}

    @staticmethod
    def from_arrays(arrays: Mapping[str, npt.NDArray[Any]], size: int, version: int) -> Matches:
        """The matches that `arrays` took apart."""
        return Matches(arrays["queries"], arrays["ends"], arrays["units"], arrays["dense"], size, version)


def match_block(
    block: Block, table: BoxTable, explicit_budget: float = EXPLICIT_BUDGET, work: float = np.inf
) -> Matches:
    """Match all queries with all rows of a block.

    Args:
        block: the rows; its indexes of the table's attributes are made.
        table: the standing queries.
        explicit_budget: row references per row that may be kept, about, and never more than twice that. A set
            that is smaller as a bitmap counts as one reference for 16 rows.
        work: nanoseconds per row of the block that finding rows may take, as `PRICES` have it, so that the same
            arguments give the same sets on any machine; `LEAST_WORK` is always granted.

    Returns:
        Row sets of the queries that fit the budget, those with the fewest rows to expect first.
    """
    n = len(block)
    if n and not affordable(n, table, work):
        # Without a snapshot, which takes its time too when queries keep coming.
        block.indexes(table.most_used(MAX_ATTRIBUTES))
        return _none_explicit(n, table.version)
    snapshot = table.compile()
    if not n or not len(snapshot.queries):
        return _nothing(snapshot, n)
    plan = Plan(block, snapshot)
    space = np.minimum(plan.expected, (n + 15) >> 4, where=np.isfinite(plan.expected), out=plan.expected.copy())
    chosen = _affordable(space, explicit_budget * n)
    ways = ways_of(plan, snapshot, chosen)
    planned = PLANNED * len(snapshot.iv_low)
    left = max(work * n, LEAST_WORK) - planned
    limited = float(ways.cost.sum()) > left
    if limited:
        cheapest = np.argsort(space[chosen], kind="stable")
        some = cheapest[: int(np.searchsorted(np.cumsum(ways.cost[cheapest]), left, "right"))]
        chosen = np.sort(chosen[some])
        ways = ways_of(plan, snapshot, chosen)
    limit = int(2 * explicit_budget * n) + n + 4096
    room = min(int(float(space[chosen].sum()) * 1.125) + n + 4096, limit)
    found = _walk(plan, ways, chosen, n, (room, limit))
    return Matches(
        snapshot.queries[chosen[: found.done]],
        found.ends[: found.done].astype(np.uint32),
        found.rows,
        np.flatnonzero(found.dense[: found.done]).astype(np.int32),
        n,
        snapshot.version,
        limited,
        planned + float(ways.cost.sum()),
    )


@dataclass(frozen=True)
class _Found:
    """What a walk found. done: of how many queries. rows: of one after the other; ends: where those of each end.

    dense: which have a bitmap.
    """

    done: int
    rows: npt.NDArray[np.uint16]
    ends: npt.NDArray[np.int64]
    dense: npt.NDArray[np.bool_]


def _walk(plan: Plan, ways: Ways, chosen: npt.NDArray[Any], n: int, room: tuple[int, int]) -> _Found:
    """Find the rows of queries, each by its way. room: for how many rows, at first and at most."""
    ends, dense = np.zeros(len(chosen), np.int64), np.zeros(len(chosen), bool)
    codes = np.stack([i.codes for i in plan.indexes]) if plan.indexes else np.zeros((1, n), np.uint16)
    order = np.stack([i.order for i in plan.indexes]) if plan.indexes else np.zeros((1, n), np.uint16)
    cells = grid.build(ways.layout, codes, plan.starts_at) if ways.layout.cells > 1 else grid.no_grid()
    bits, bits_at, shift = bitmaps_of(plan, ways)
    scratch, words = np.empty(n + 1, np.uint16), np.empty((2, (n + 63) >> 6), np.uint64)
    out = np.empty(room[0], np.uint16)
    done = at = 0
    while True:
        done, at = probe.walk(
            chosen, done, plan.boxes, n, codes, order, bits, bits_at, shift, ways.way, ways.layout.buckets,
            cells.first, cells.row, cells.packed, cells.halved, out, at, ends, dense, scratch, words,
        )  # fmt: skip
        # Correlated factors match more than expected: past twice the budget the rest stays factored.
        if done == len(chosen) or len(out) >= room[1]:
            break
        out = np.concatenate((out, np.empty(min(max(len(out) // 2, n), room[1] - len(out)), np.uint16)))
    return _Found(done, out[:at].copy() if at * 5 < len(out) * 4 else out[:at], ends, dense)


def affordable(n: int, table: BoxTable, work: float) -> bool:
    """Whether `match_block` would make any query explicit with `work` nanoseconds per row of a block of `n` rows.

    Half of the time at most is for looking at all intervals, which finds no row yet.
    """
    return max(work * n, LEAST_WORK) >= 2 * PLANNED * table.intervals


def rows_of(block: Block, boxes: Sequence[Sequence[Interval]], low_row: int = 0, high_row: int | None = None) -> Rows:
    """Rows of [low_row, high_row) that lie in one of the boxes, ascending: one query's answer from the codes.

    >>> import pyarrow as pa
    >>> rows = pa.table({"ts": pa.array([1, 2, 3], pa.timestamp("us")), "a": [5, 7, 9], "_id": [0, 1, 2]})
    >>> block = Block.build(rows, "ts")[0]
    >>> rows_of(block, ((Interval('"a"', "integer", 6, None),),)).tolist()
    [1, 2]
    """
    high_row = len(block) if high_row is None else min(high_row, len(block))
    low_row = max(low_row, 0)
    if low_row >= high_row or not boxes:
        return np.empty(0, np.uint16)
    indexes = _indexes_of(block, boxes)
    parts = [_rows_of_box(indexes, box, low_row, high_row) for box in boxes]
    parts = [p for p in parts if len(p)]
    if not parts:
        return np.empty(0, np.uint16)
    # Alternatives exclude each other by contract; `unique` costs no more than the sort that is needed anyhow.
    return parts[0] if len(parts) == 1 else distinct(np.concatenate(parts))


def _none_explicit(n: int, version: int) -> Matches:
    none = np.empty(0, np.int64)
    return Matches(none, none.astype(np.uint32), none.astype(np.uint16), none.astype(np.int32), n, version, True)


def _nothing(snapshot: Compiled, n: int) -> Matches:
    count = 0 if n else len(snapshot.queries)  # without rows every query is known to match none
    return Matches(
        snapshot.queries[:count],
        np.zeros(count, np.uint32),
        np.empty(0, np.uint16),
        np.empty(0, np.int32),
        n,
        snapshot.version,
    )


def _affordable(expected: npt.NDArray[np.float64], budget: float) -> npt.NDArray[np.int64]:
    """Places of the queries to make explicit, ascending."""
    if float(expected.sum()) <= budget:
        return np.arange(len(expected))
    order = np.argsort(expected, kind="stable")
    count = int(np.searchsorted(np.cumsum(expected[order]), budget, "right"))
    return np.sort(order[:count])


def _indexes_of(block: Block, boxes: Iterable[Iterable[Interval]]) -> dict[tuple[str, str], OrderedIndex]:
    keys = list({(i.attribute, i.kind): None for box in boxes for i in box})
    return dict(zip(keys, block.indexes(keys), strict=True))


def _rows_of_box(
    indexes: Mapping[tuple[str, str], OrderedIndex], box: Sequence[Interval], low_row: int, high_row: int
) -> Rows:
    factors: list[tuple[int, OrderedIndex, int, int]] = []
    for i in box:
        index = indexes[i.attribute, i.kind]
        first, end = index.bounds(i.low, i.high, i.low_closed, i.high_closed, i.null)
        rows = int(index.starts[end]) - int(index.starts[first]) if first < end else 0
        if not rows:
            return np.empty(0, np.uint16)
        if rows < len(index.codes):
            factors.append((rows, index, first, end))
    if not factors:
        return np.arange(low_row, high_row, dtype=np.uint16)
    factors.sort(key=lambda f: f[0])
    rows, index, first, end = factors[0]
    if rows * 24 < high_row - low_row:
        found = index.order[index.starts[first] : index.starts[end]]
        for _, index, first, end in factors[1:]:
            found = found[_inside(index.codes[found], first, end)]
        if factors[0][3] - factors[0][2] > 1:
            found = np.sort(found)
        if low_row == 0 and high_row == len(index.codes):
            return found
        return found[np.searchsorted(found, low_row) : np.searchsorted(found, high_row)]
    mask = _inside(index.codes[low_row:high_row], first, end)
    for _, index, first, end in factors[1:]:
        mask &= _inside(index.codes[low_row:high_row], first, end)
    return (np.flatnonzero(mask) + low_row).astype(np.uint16)


def _inside(codes: Rows, first: int, end: int) -> npt.NDArray[np.bool_]:
    """Codes in [first, end), which is never all codes: one wrapping subtraction and one comparison."""
    inside: npt.NDArray[np.bool_]
    if end - first == 1:
        inside = codes == np.uint16(first)
    elif first == 0:
        inside = codes < np.uint16(end)
    else:
        inside = (codes - np.uint16(first)) < np.uint16(end - first)
    return inside
