"""Ad hoc, a stream is a table: what DuckDB says of the same rows in tables is what the pond says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import millpond
from millpond import Pond, QueryError, StatementError

FORMS = [line for line in (Path(__file__).parent / "forms.sql").read_text().splitlines() if line and line[:2] != "--"]
START = datetime(2024, 1, 1)

S = [
    {"ts": START + timedelta(seconds=i), "k": "abc"[i % 3], "v": i * i % 7, "j": f'{{"a":{i},"b":[1,2]}}',
     "l": [i, i + 1], "st": {"a": i, "b": f"x{i}"}}
    for i in range(12)
]  # fmt: skip
O = [  # noqa: E741 - it is called as the stream is
    *({"ts": START + timedelta(seconds=i), "k": "abd"[i % 3], "w": i / 2} for i in range(0, 12, 3)),
    {"ts": START + timedelta(seconds=5), "k": "b", "w": 9.5},
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pond, duckdb.DuckDBPyConnection]]:
    """A pond, and DuckDB with the same rows."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "tt.csv").write_text("k,name\na,Anna\nb,Bob\nd,Dora\n")
    with millpond.open(folder / "pond", executor="inline") as pond:
        pond.sql(f"""
            CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, j JSON, l INTEGER[], st STRUCT(a INTEGER, b TEXT))
                WITH (lateness = '1 h');
            CREATE STREAM o (ts TIMESTAMP, k TEXT, w DOUBLE) WITH (lateness = '1 h');
            CREATE TABLE tt (k TEXT, name TEXT) WITH (path = '{folder}/tt.csv');
            CREATE QUERY q WITH (since = 'start') AS
                SELECT k, sum(v) AS total FROM s [RANGE TUMBLING 5 SECONDS] GROUP BY k;
        """)
        for at in range(0, 12, 4):  # several files, in another order than that of the event times
            pond.ingest("s", list(reversed(S[at : at + 4])))
            pond.drain()
        pond.ingest("o", list(reversed(O)))
        pond.drain(final=True)
        db = duckdb.connect()
        db.execute("SET TimeZone = 'UTC'")
        found = {name: pond.sql(f"SELECT * FROM {name}").table for name in ("s", "o", "tt", "q")}
        for name, table in found.items():
            db.register("given", table)
            db.execute(f"CREATE TABLE {name} AS FROM given")
        db.execute("ALTER TABLE s ALTER j TYPE JSON")
        yield pond, db


@pytest.mark.parametrize("form", FORMS)
def test_as_over_tables(both: tuple[Pond, duckdb.DuckDBPyConnection], form: str) -> None:
    pond, db = both
    got = pond.sql(form).table
    wanted = db.sql(form)
    types, want = wanted.types, wanted.to_arrow_table()
    assert len(types) == got.num_columns
    names = [f"c{i}" for i in range(len(types))]
    same = rows_of(db, got.rename_columns(names), names, types), rows_of(db, want.rename_columns(names), names, types)
    if re.search(r"ORDER BY [^()]*$", form):
        assert same[0] == same[1]
    else:
        assert sorted(map(repr, same[0])) == sorted(map(repr, same[1]))


def rows_of(db: duckdb.DuckDBPyConnection, table: pa.Table, names: list[str], types: list[Any]) -> list[Any]:
    """The rows of an answer in the types that DuckDB has for it."""
    db.register("answer", table)
    fields = ", ".join(f"CAST({n} AS {t})" for n, t in zip(names, types, strict=True))
    return db.execute(f"SELECT {fields} FROM answer").fetchall()


def test_ties_are_in_the_order_of_the_stream(both: tuple[Pond, duckdb.DuckDBPyConnection]) -> None:
    pond, _ = both
    assert pond.sql("SELECT k, v FROM s ORDER BY v FETCH FIRST 3 ROWS ONLY").rows() == [("a", 0), ("b", 0), ("b", 1)]


def test_arrows_bind_as_tightly_as_they_look(both: tuple[Pond, duckdb.DuckDBPyConnection]) -> None:
    """DuckDB takes `j ->> 'a' = '3'` for `j ->> ('a' = '3')`, which nobody means."""
    pond, _ = both
    assert pond.sql("SELECT k FROM s WHERE j ->> 'a' = '3'").rows() == [("a",)]
    assert pond.sql("SELECT max(v) AS v FROM s WHERE j -> 'a' = '3' OR j ->> '$.b[0]' = '0'").rows() == [(2,)]


def test_windows_stand_in_subqueries(both: tuple[Pond, duckdb.DuckDBPyConnection]) -> None:
    pond, _ = both
    rows = pond.sql("""
        WITH w AS (SELECT k, count(*) AS n FROM s [RANGE TUMBLING 6 SECONDS] GROUP BY k)
        SELECT w.window_end, sum(w.n), max(tt.name) FROM w JOIN tt USING (k) GROUP BY ALL ORDER BY 1
    """).rows()
    assert [(at.second, int(n), name) for at, n, name in rows] == [(6, 4, "Bob"), (12, 4, "Bob")]


def test_only_what_is_needed_is_read(both: tuple[Pond, duckdb.DuckDBPyConnection]) -> None:
    pond, _ = both
    plan = "\n".join(pond.sql("""
        EXPLAIN SELECT s.k, o.w FROM s JOIN o USING (k)
        WHERE s.v > 3 AND s.ts >= TIMESTAMP '2024-01-01 00:00:04' AND o.w < 5
    """).table["plan"].to_pylist())  # fmt: skip
    assert "columns: ts, k, v" in plan
    assert "columns: ts, k, w" in plan  # a name is read of each that has it
    assert "event times: from 2024-01-01 00:00:04" in plan
    assert '"w" < 5' in plan


def test_what_runs_for_too_long_is_stopped(both: tuple[Pond, duckdb.DuckDBPyConnection]) -> None:
    pond, _ = both
    pond.sql("ALTER SYSTEM SET select_timeout = 0.2")
    try:
        with pytest.raises(QueryError, match="select_timeout"):
            pond.sql("WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a) SELECT * FROM a")
        assert pond.sql("SELECT 1").rows() == [(1,)]
    finally:
        pond.sql("ALTER SYSTEM SET select_timeout = DEFAULT")


def test_too_many_rows_are_said(both: tuple[Pond, duckdb.DuckDBPyConnection], monkeypatch: pytest.MonkeyPatch) -> None:
    pond, _ = both
    for module in ("archive_jobs", "table_selects"):
        monkeypatch.setattr(f"millpond.answers.{module}.ANSWER_ROWS", 10)
    with pytest.raises(QueryError, match="rows of 's' would be needed as a table"):
        pond.sql("SELECT s.k, w FROM s LEFT JOIN o USING (k)")
    with pytest.raises(QueryError, match="more than 10 rows"):
        pond.sql("SELECT * FROM range(100)")
    assert len(pond.sql("SELECT s.k, w FROM s JOIN o USING (k) WHERE s.v > 3 AND o.w > 2").rows()) <= 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("SELECT s.k, nothing FROM s JOIN o USING (k)", "nothing"),
        ("SELECT s.k FROM s JOIN nowhere USING (k)", "there is no stream, table or query 'nowhere'"),
        ("SELECT s.k FROM s REDUCE sample(0.5) JOIN o USING (k)", "REDUCE"),
        ("SELECT * FROM s JOIN range(3, 'x') USING (k)", "range"),
        ("SELECT k, random() OVER () FROM s", "refused"),
        ("SELECT k FROM s USING SAMPLE 10%", "SAMPLE"),
        ("SELECT k FROM s ORDER BY k FETCH FIRST 2 ROWS WITH TIES", "WITH TIES"),
    ],
)
def test_errors_say_where(both: tuple[Pond, duckdb.DuckDBPyConnection], wrong: str, message: str) -> None:
    pond, _ = both
    with pytest.raises(StatementError, match=message):
        pond.sql(wrong)
