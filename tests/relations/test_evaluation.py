"""Lifted evaluation of any SQL equals the oracle, which looks at every instant by itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.relations import evaluate, joining
from millpond.types import Column, Elements, Joined, Recomputed, StreamDefinition, TableDefinition
from tests.oracle.cql import Query, Stamped, Windowed
from tests.relations.setting import WINDOWS, Evaluated, bound, stored, stream
from tests.relations.shapes import JOINED, NESTED, ONE, TWO, millpond, naive

#: Each example looks at every instant.
FEW = max(4, settings.default.max_examples // 4)

AB = {"a": "INTEGER", "b": "INTEGER"}
S, U = stream("s", **AB), stream("u", **AB)
T = TableDefinition("t", (Column("a", "INTEGER"), Column("name", "VARCHAR")), "t.csv", "csv")
NAMED = [(1, "one"), (2, "two"), (None, "none")]
END = 16

values = st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.one_of(st.none(), st.integers(0, 3)))


@st.composite
def histories(draw: st.DrawFn) -> list[Stamped]:
    """Rows with few different stamps, in any order of arrival."""
    drawn = draw(st.lists(st.tuples(st.integers(0, 8), values), max_size=7))
    return [Stamped(t, n, v) for n, (t, v) in enumerate(drawn)]


def naive_query(shape: str, rows: list[list[Stamped]], windows: list[str]) -> Query:
    inputs = {}
    for n, (part, window) in enumerate(zip(rows, windows, strict=True)):
        form, partition = WINDOWS[window]
        inputs[f"w{n}"] = Windowed(AB, part, form, tuple({"a": 0, "b": 1}[c] for c in partition))
    return Query(naive(shape), inputs, {"t": ({"a": "INTEGER", "name": "VARCHAR"}, NAMED)})


def engine(shape: str, operator: str, rows: list[list[Stamped]], windows: list[str]) -> Evaluated:
    definitions: list[StreamDefinition] = [S, U]
    query = bound(millpond(shape, operator, *windows), *definitions, T)
    tables = {"t": pa.table({"a": pa.array([r[0] for r in NAMED], pa.int32()), "name": [r[1] for r in NAMED]})}
    return Evaluated(query, {d.name: stored(d, part) for d, part in zip(definitions, rows, strict=False)}, tables)


def check(shape: str, rows: list[list[Stamped]], windows: list[str], low: int) -> None:
    expected = naive_query(shape, rows, windows)
    assert engine(shape, "ISTREAM", rows, windows).stream(low, END) == expected.istream(low, END)
    assert engine(shape, "DSTREAM", rows, windows).stream(low, END) == expected.dstream(low, END)
    relation = engine(shape, "", rows, windows)
    both = Counter(expected.istream(low, END))
    both.subtract(expected.dstream(low, END))
    assert relation.changes(low, END) == {k: n for k, n in both.items() if n}
    assert relation.at(low + 3) == expected.at(low + 3)


@pytest.mark.parametrize("shape", ONE)
@given(data=st.data())
@settings(max_examples=FEW, deadline=None)
def test_one_stream(shape: str, data: Any) -> None:
    window = data.draw(st.sampled_from(sorted(WINDOWS)))
    check(shape, [data.draw(histories())], [window], data.draw(st.integers(-1, 8)))


@pytest.mark.parametrize("shape", (*TWO, *NESTED))
@given(data=st.data())
@settings(max_examples=FEW, deadline=None)
def test_two_streams(shape: str, data: Any) -> None:
    windows = data.draw(st.lists(st.sampled_from(sorted(WINDOWS)), min_size=2, max_size=2))
    check(shape, [data.draw(histories()), data.draw(histories())], windows, data.draw(st.integers(-1, 8)))


@pytest.mark.parametrize("shape", JOINED)
@given(data=st.data())
@settings(max_examples=FEW, deadline=None)
def test_joins_from_intervals(shape: str, data: Any) -> None:
    windows = data.draw(st.lists(st.sampled_from(sorted(WINDOWS)), min_size=3, max_size=3))
    relation = bound(millpond(shape, "ISTREAM", *windows), S, U, T)
    assert isinstance(relation.plan, Joined)
    first, second = data.draw(histories()), data.draw(histories())
    check(shape, [first, second, first], windows, data.draw(st.integers(-1, 8)))


@pytest.mark.parametrize("text", ["x, u [ROWS 9] y", "x LEFT JOIN u [ROWS 9] y ON x.b < y.b"])
def test_a_join_that_would_make_too_many_rows_says_so(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = bound(f"SELECT x.b, y.b FROM s [ROWS 9] {text}", S, U, T)
    rows = [Stamped(t, t, (1, t % 2)) for t in range(9)]
    evaluated = Evaluated(query, {"s": stored(S, rows), "u": stored(U, rows)})
    assert evaluated.changes(0, END)
    monkeypatch.setattr(joining, "ROWS_AT_MOST", 10)
    with pytest.raises(ValueError, match=r"the join would make more than 10 rows in one epoch"):
        evaluated.changes(0, END)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT * FROM s [ROWS 2] x SEMI JOIN u [ROWS 3] y ON x.a = y.a", ["ts", "a", "b"]),
        ("SELECT x.*, y.b FROM s [ROWS 2] x JOIN u [ROWS 3] y ON x.a = y.a", ["ts", "a", "b", "b_1"]),
        ("SELECT * FROM s [ROWS 2] x LEFT JOIN t ON x.a = t.a", ["ts", "a", "b", "a_1", "name"]),
    ],
)
def test_stars_in_joins_are_what_sql_says(text: str, names: list[str]) -> None:
    query = bound(text, S, U, T)
    assert isinstance(query.plan, Joined)
    assert [o.name for o in query.select] == names
    rows = {"s": stored(S, [Stamped(3, 0, (1, 5))]), "u": stored(U, [Stamped(4, 0, (1, 6))])}
    tables = {"t": pa.table({"a": pa.array([1], pa.int32()), "name": ["one"]})}
    found = Evaluated(query, rows, tables).changes(0, END)
    values = {"b": (5,), "b_1": (5, 6), "name": (5, 1, "one")}[names[-1]]
    assert [row[1:] for _, row in found] == [(1, *values)]


def test_what_distinct_on_leaves_out_is_no_partner() -> None:
    inner = "SELECT DISTINCT ON (a) b FROM u [ROWS 9] y ORDER BY a, b"
    query = bound(f"SELECT b FROM s [ROWS 9] x WHERE b IN ({inner})", S, U)
    assert isinstance(query.plan, Recomputed)
    rows = {"s": [Stamped(3, n, (1, n)) for n in range(3)], "u": [Stamped(2, n, (n // 2, n)) for n in range(3)]}
    evaluated = Evaluated(query, {d.name: stored(d, rows[d.name]) for d in (S, U)})
    assert sorted(evaluated.changes(0, END)) == [(3, (0,)), (3, (2,))]


@given(rows=histories(), every=st.integers(1, 4), low=st.integers(-1, 6), window=st.sampled_from(sorted(WINDOWS)))
@settings(max_examples=FEW, deadline=None)
def test_rstream(rows: list[Stamped], every: int, low: int, window: str) -> None:
    shape = ONE[3]
    expected = naive_query(shape, [rows], [window]).rstream(low, END, every)
    assert engine(shape, "RSTREAM", [rows], [window]).stream(low, END, every) == expected


@given(rows=histories(), limit=st.integers(1, 5))
@settings(max_examples=FEW, deadline=None)
def test_chunks_of_instants_make_no_difference(rows: list[Stamped], limit: int) -> None:
    shape, window = ONE[3], "[RANGE 5 MICROSECONDS]"
    whole = engine(shape, "ISTREAM", [rows], [window]).stream(0, END)
    before = evaluate.ROWS_AT_ONCE
    try:
        evaluate.ROWS_AT_ONCE = limit
        assert engine(shape, "ISTREAM", [rows], [window]).stream(0, END) == whole
    finally:
        evaluate.ROWS_AT_ONCE = before


def test_which_plan() -> None:
    plans = {shape: bound(millpond(shape, "ISTREAM", "[NOW]", "[NOW]"), S, U, T) for shape in (*ONE, *TWO)}
    assert [s for s, r in plans.items() if isinstance(r.plan, Elements)] == [ONE[0], ONE[1]]
    assert [s for s, r in plans.items() if r is not None and r.lifted is None] == [TWO[9]]


def test_work_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "ROWS_AT_MOST", 20)
    rows = [Stamped(t, t, (1, 1)) for t in range(8)]
    with pytest.raises(ValueError, match="a window with SLIDE helps"):
        engine(ONE[3], "ISTREAM", [rows], [""]).stream(0, END)
    assert engine(ONE[0], "ISTREAM", [rows], [""]).stream(0, END).total() == 8  # work per row
