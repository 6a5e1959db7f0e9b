"""Tables under names that stay: any order of questions is answered as by a DuckDB that was asked nothing before."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.answers.bounded_sql import bounded_table
from millpond.synopses import connection, query_table
from millpond.synopses.kernel import asking_connection
from millpond.synopses.standing_views import MOST, _Slot, views_of
from tests.quick import many, plain_duckdb

TYPES = {
    "BIGINT": pa.int64(),
    "VARCHAR": pa.string(),
    "DOUBLE": pa.float64(),
    "ENUM": pa.dictionary(pa.int8(), pa.string()),
    "TIMESTAMP": pa.timestamp("us"),
    "BLOB": pa.binary(),
}
VALUES: dict[str, Any] = {
    "BIGINT": st.integers(-9, 9),
    "VARCHAR": st.text("aé", max_size=2),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.5, float("inf")]),
    "ENUM": st.sampled_from(["x", "y"]),
    "TIMESTAMP": st.integers(0, 5),
    "BLOB": st.binary(max_size=2),
}
QUESTIONS = (
    "SELECT * FROM {0}",
    "SELECT count(*) AS n, min(a) AS low FROM {0}",
    "SELECT a, count(*) AS n FROM {0} GROUP BY a ORDER BY a",
    "SELECT x.a, y.a AS b FROM {0} x JOIN {1} y ON x.a::VARCHAR = y.a::VARCHAR ORDER BY ALL",
    "SELECT * FROM (PIVOT {0} ON a USING count(*)) ORDER BY ALL",
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=2))
    count = draw(st.integers(0, 4))
    columns = [pa.array([draw(st.none() | VALUES[k]) for _ in range(count)], TYPES[k]) for k in kinds]
    return pa.table(columns, names=["a", "b"][: len(kinds)])


def asked_before_nothing(sql: str, given: dict[str, pa.Table]) -> pa.Table:
    db = plain_duckdb()
    db.execute("SET TimeZone = 'UTC'")
    for name, table in given.items():
        db.register(name, table)
    return db.sql(sql).to_arrow_table()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(QUESTIONS), st.permutations(["t", "T", "é", "É", "u"]), tables(), tables(), st.booleans()
        ),
        max_size=8,
    )
)
@many(2, 2)
def test_any_order_of_questions(steps: list[tuple[str, list[str], pa.Table, pa.Table, bool]]) -> None:
    for question, names, one, other, large in steps:
        second = names[1] if names[1].lower() != names[0].lower() else "v"
        if large and "PIVOT" not in question:
            one = pa.concat_tables([one] * 3000)
        given = {names[0]: one, second: other}
        sql = question.format(names[0], second)
        try:
            expected = asked_before_nothing(sql, given)
        except duckdb.Error as error:
            with pytest.raises(type(error)):
                query_table(connection(), sql, **given)
            continue
        got = query_table(connection(), sql, **given)
        assert got.schema == expected.schema and got.equals(expected)


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_plans_are_those_of_tables_that_are_registered(rows: int) -> None:
    """So the order of rows is the same, where SQL says nothing of it."""
    sql = "EXPLAIN SELECT x.k, count(*) FROM planned x JOIN beside y ON x.k = y.k WHERE x.k > 3 GROUP BY x.k"
    tables = {"planned": pa.table({"k": range(rows), "v": range(rows)}), "beside": pa.table({"k": range(40)})}
    db = plain_duckdb()
    for name, table in tables.items():
        db.register(name, table)
    expected = db.sql(sql).to_arrow_table()
    for _ in range(2):
        assert query_table(connection(), sql, **tables).equals(expected)


def test_tables_are_let_go_and_names_are_nobody_elses() -> None:
    table = pa.table({"k": [1, 2]})
    alive = weakref.ref(table)
    assert query_table(connection(), "SELECT sum(k)::BIGINT AS s FROM letgo", letgo=table)["s"].to_pylist() == [3]
    del table
    gc.collect()
    assert alive() is None
    assert query_table(connection(), "SELECT count(*) AS n FROM letgo", letgo=pa.table({"k": [7]}))["n"][0].as_py() == 1


def test_users_sql_takes_names_over() -> None:
    """On the same connection, with tables under the same names."""
    small, other = pa.table({"k": [1, 2]}), pa.table({"k": [5]})
    for _ in range(3):
        assert query_table(asking_connection(), "SELECT k FROM mine", mine=small)["k"].to_pylist() == [1, 2]
        assert bounded_table("SELECT k FROM mine", 10, 10.0, {"mine": other})["k"].to_pylist() == [5]
        with pytest.raises(duckdb.CatalogException):
            asking_connection().sql("SELECT * FROM mine")


def test_a_failed_question_leaves_nothing_behind() -> None:
    for _ in range(2):
        with pytest.raises(duckdb.Error):
            query_table(connection(), "SELECT CAST(k AS INTEGER) AS k FROM failing", failing=pa.table({"k": ["x"]}))
        found = query_table(connection(), "SELECT CAST(k AS INTEGER) AS k FROM failing", failing=pa.table({"k": ["4"]}))
        assert found["k"].to_pylist() == [4]


def test_a_thread_takes_its_connection_with_it() -> None:
    kept: list[weakref.ref[Any]] = []

    def ask() -> None:
        query_table(connection(), "SELECT * FROM gone", gone=pa.table({"k": [1]}))
        views = views_of(connection())
        assert views is not None
        kept.append(weakref.ref(views))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    gc.collect()
    assert kept[0]() is None


def test_what_is_kept_is_bounded() -> None:
    for number in range(MOST + 20):
        table = pa.table({f"c{number}": [number]})
        assert query_table(connection(), f"SELECT c{number} AS k FROM many", many=table)["k"].to_pylist() == [number]
    views = views_of(connection())
    assert views is not None and len(views._slots) <= MOST and len(views._bound) <= MOST
    assert query_table(connection(), "SELECT c0 AS k FROM many", many=pa.table({"c0": [3]}))["k"].to_pylist() == [3]


def test_a_slot_refuses_what_only_tables_have() -> None:
    """It is no table of its own: another version of DuckDB that asks it for more gets an error, not a crash."""
    slot = _Slot(pa.schema({"a": pa.int64()}))
    assert (slot.schema.names, slot.num_rows, len(slot)) == (["a"], 0, 0)
    names = [name for name in dir(pa.Table) if not name.startswith("__") and name not in vars(_Slot)]
    assert {"column_names", "to_batches", "nbytes"} <= set(names)
    for name in names:
        with pytest.raises(AttributeError, match="a slot for a table has no"):
            getattr(slot, name)
