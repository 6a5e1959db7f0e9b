"""ENUMs come back as such from Arrow, and panes keep their order whatever the cut of the rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import language as lang
from millpond.catalog import Catalog
from millpond.synopses import connection, finish_windows, merge_partials, partial, query_ordered, query_table, spec_of
from millpond.synopses.finish import fold_windows
from millpond.types import Column, StreamDefinition, StreamOptions
from tests.synopses.names import Names

VALUES = ("zero", "one", "two", "ten", "many")  # as texts: many, one, ten, two, zero
KIND = "ENUM('zero', 'one', 'two', 'ten', 'many')"
STREAM = StreamDefinition(
    "s", (Column("ts", "TIMESTAMP"), Column("e", KIND), Column("v", "INTEGER")), StreamOptions(time="ts"), 1
)
SELECT = """SELECT min(e) AS a, max(e) AS b, arg_min(v, e) AS c, arg_max(v, e) AS d, median(e) AS f,
    quantile_disc(e, 0.3) AS g, mode(e) AS h, list(e ORDER BY e DESC, v) AS i, list(v ORDER BY e, v) AS j,
    list(DISTINCT e ORDER BY e) AS k, count(*) FILTER (WHERE e >= 'two') AS l, max([e]) AS m
  FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE e IS NOT NULL HAVING max(e) > 'zero'"""

Rows: TypeAlias = list[tuple[int, "str | None", int]]
ROWS = st.lists(st.tuples(st.integers(0, 9), st.none() | st.sampled_from(VALUES), st.integers(0, 9)), max_size=12)


def segment(rows: Rows, first: int) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([t * 1_000_000 for t, _, _ in rows], pa.timestamp("us")),
            "e": pa.array([e for _, e, _ in rows], pa.string()),
            "v": pa.array([v for _, _, v in rows], pa.int32()),
            "_id": pa.array(range(first, first + len(rows)), pa.int64()),
        }
    )


def expected(rows: Rows) -> list[dict[str, Any]]:
    """The definition: rank the values by their declaration."""
    answers = []
    for end in range(2, 15, 2):
        # in total order: event time, then order of arrival
        inside = sorted((r for r in rows if end - 4 <= r[0] < end and r[1] is not None), key=lambda r: r[0])
        ranks = sorted(VALUES.index(str(e)) for _, e, _ in inside)
        if not ranks or ranks[-1] == 0:
            continue
        names = [VALUES[r] for r in ranks]
        least = next(v for _, e, v in inside if e == names[0])
        most = next(v for _, e, v in inside if e == names[-1])
        often = max(names.count(n) for n in names)
        answers.append(
            {
                "a": names[0], "b": names[-1], "c": least, "d": most,
                "f": names[(len(names) - 1) // 2], "h": next(n for n in names if names.count(n) == often),
                "i": names[::-1], "j": [v for _, v in sorted((VALUES.index(str(e)), v) for _, e, v in inside)],
                "k": [v for v in VALUES if v in names], "l": sum(r >= 2 for r in ranks), "m": names[-1:],
            }
        )  # fmt: skip
    return answers


@given(ROWS, ROWS, ROWS)
def test_panes_keep_the_order_of_the_declaration(one: Rows, two: Rows, three: Rows) -> None:
    parts = (one, two, three)
    (statement,) = lang.parse(f"CREATE QUERY q AS {SELECT}")
    assert isinstance(statement, lang.CreateQuery)
    query = lang.bind_query(statement.select, Names(Catalog(streams={1: STREAM})))
    db, spec = connection(), spec_of(query, STREAM)
    segments = [segment(rows, 100 * i) for i, rows in enumerate(parts)]
    merged = merge_partials(db, spec, [partial(db, spec, s) for s in segments])
    rows = [r for p in parts for r in p]
    if not merged.num_rows:
        assert not expected(rows)
        return
    folded = fold_windows(db, spec, query, merged, -(2**40), 2**40)
    table = finish_windows(db, query, "ts", folded).sort_by("window_end")
    lower = table["g"].to_pylist()
    assert all(low in names for low, names in zip(lower, table["i"].to_pylist(), strict=True))
    assert table.select(list("abcdfhijklm")).to_pylist() == expected(rows)


@pytest.mark.parametrize(
    ("value", "order"),
    [
        ("e", "x"),
        ("[e, NULL]", "x[1]"),
        ("array_value(e, e)", "x[1]"),
        ("{'the \"e\"': e, 'n': 1}", 'x."the ""e"""'),
        ("[{'e': [e]}]", "x[1].e[1]"),
        ("map {e: 1}", "map_keys(x)[1]"),
        ("map {1: e}", "map_values(x)[1]"),
    ],
)
def test_dictionaries_are_enums_again(value: str, order: str) -> None:
    db = connection()
    made = f"SELECT {value} AS x, v FROM (SELECT unnest(['b', 'a''', 'c'])::ENUM('c', 'b', 'a''') AS e, 1 AS v)"
    table = query_table(db, made)
    twice = pa.concat_tables([table, table.slice(1, 1), table.slice(0, 0)])
    sql = f"SELECT x, typeof(x) AS kind, list({order}) AS found FROM rows GROUP BY x ORDER BY {order}"
    found = query_ordered(db, sql, rows=twice)
    assert found["found"].to_pylist() == [["c"], ["b"], ["a'", "a'"]]
    declared = query_table(db, f"SELECT DISTINCT typeof(x) AS kind FROM ({made})")["kind"][0].as_py()
    assert set(found["kind"].to_pylist()) == {declared.replace("[2]", "[]")}


def test_tables_without_values() -> None:
    db = connection()
    for sql in ("SELECT 'a'::ENUM('b', 'a') AS x WHERE false", "SELECT NULL::ENUM('b', 'a') AS x"):
        found = query_ordered(db, "SELECT count(x) AS n, min(x) AS m FROM t", t=query_table(db, sql))
        assert found.to_pylist() == [{"n": 0, "m": None}]
    empty = pa.table({"x": pa.array([], pa.dictionary(pa.uint8(), pa.string()))})
    full = query_table(db, "SELECT unnest(['a', 'b'])::ENUM('b', 'a') AS x")
    both = pa.concat_tables([empty, full])
    assert query_ordered(db, "WITH a AS (SELECT 1) SELECT min(x) AS m FROM t", t=both)["m"].to_pylist() == ["b"]
    other = query_table(db, "SELECT 'a'::ENUM('a', 'b') AS x")  # two ENUMs in one column are texts
    kinds = query_ordered(db, "SELECT DISTINCT typeof(x) AS k FROM t", t=pa.concat_tables([full, other]))
    assert kinds["k"].to_pylist() == ["VARCHAR"]
