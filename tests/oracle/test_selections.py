"""The reference for row queries against answers worked out by hand (E1 to E3 of the digest, edges of windows)."""

from __future__ import annotations

from tests.oracle.rows import Row, Table
from tests.oracle.selections import NOW, Bound, Prefix, Reading, Selection

S = 1_000_000


def _table(rows: list[tuple[int, int | None, int | None]]) -> Table:
    found = tuple(Row(time * S, n, {"a": a, "b": b}) for n, (time, a, b) in enumerate(rows))
    return Table(found, {"a": "BIGINT", "b": "BIGINT"})


def _prefix(table: Table, bound: int = 0) -> Prefix:
    return Prefix(table, bound, max((r.time for r in table.rows), default=None))


def test_e1() -> None:
    stored = _table([(48, 3, 10), (49, 6, 9), (50, 4, 7), (51, 0, 2), (52, 2, 1)])
    query = Selection(("r.__time // 1000000", "a"), (Reading("r", "r"),), "r.a > 0 AND r.a < 5 AND r.b > 4")
    assert query.answer({"r": _prefix(stored)}) == [(48, 3), (50, 4)]
    more = _table([(48, 3, 10), (49, 6, 9), (50, 4, 7), (51, 0, 2), (52, 2, 1), (53, 1, 8)])
    assert query.answer({"r": _prefix(more)}) == [(48, 3), (50, 4), (53, 1)]


def test_e2() -> None:
    query = Selection(("r.a", "s.b"), (Reading("r", "r"), Reading("s", "s")), "r.a < 5 AND r.a > s.b AND s.b > 1")
    right = _prefix(_table([(9, 0, 3), (9, 0, 1), (9, 0, 2)]))
    left = _table([(9, 4, 0), (9, 7, 0), (9, 2, 0)])
    assert query.answer({"r": _prefix(left), "s": right}) == [(4, 3), (4, 2)]
    left = _table([(9, 4, 0), (9, 7, 0), (9, 2, 0), (9, 3, 0)])
    assert query.answer({"r": _prefix(left), "s": right}) == [(4, 3), (4, 2), (3, 2)]


def test_e3_and_edges() -> None:
    ten = _prefix(_table([(t, t, 0) for t in range(10)]), 5 * S)
    eleven = _prefix(_table([(t, t, 0) for t in range(11)]))

    def count(begin: Bound, end: Bound = NOW, prefix: Prefix = ten, as_of: object = None) -> int:
        return len(Selection(("a",), (Reading("r", "r", begin, end),)).answer({"r": prefix}, as_of))

    fixed = Bound("constant", 2 * S), Bound("constant", 4 * S)
    assert (count(*fixed), count(*fixed, eleven)) == (3, 3)
    assert (count(Bound("constant", 5 * S)), count(Bound("constant", 5 * S), prefix=eleven)) == (5, 6)
    assert (count(Bound("now", -3 * S)), count(Bound("now", -3 * S), prefix=eleven)) == (4, 4)
    assert (count(Bound("rows", 3)), count(Bound("rows", 3), Bound("now", -S)), count(Bound("rows", 99))) == (3, 2, 10)
    # Rows of the last three up to 4; and below progress, which is 5.
    assert (count(Bound("rows", 3), as_of=4 * S), count(Bound("now", -3 * S), as_of="watermark")) == (3, 3)
    assert count(Bound("now", -S), Bound("now", -5 * S)) == 0
