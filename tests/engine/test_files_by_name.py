"""A year of real flights in monthly files, in any order: answers by default options are those over the whole year."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.conftest import Factory

FLIGHTS = Path(__file__).parent.parent / "data" / "flights_every_200th.parquet"
#: As `ls` lists 1.parquet to 12.parquet.
BY_NAME = (1, 10, 11, 12, 2, 3, 4, 5, 6, 7, 8, 9)

#: Each query, with what it answers of flights before the last hour (`flown`), in the same columns.
QUERIES = {
    "days": (
        "SELECT origin, count(*) AS n, sum(dep_delay) AS d FROM flight [RANGE TUMBLING 1 DAY] GROUP BY origin",
        "SELECT origin, count(*) AS n, sum(dep_delay) AS d FROM flown GROUP BY time_bucket(INTERVAL 1 DAY, time_hour),"
        " origin",
    ),
    "weeks": (
        "SELECT count(DISTINCT carrier) AS n, max(dep_delay) AS d FROM flight [RANGE 7 DAYS SLIDE 1 DAY]",
        "SELECT count(DISTINCT carrier) AS n, max(dep_delay) AS d FROM flown, range(7) AS days(back)"
        " WHERE time_bucket(INTERVAL 1 DAY, time_hour) + to_days(back::INTEGER + 1) <= DATE '2014-01-01'"
        " GROUP BY time_bucket(INTERVAL 1 DAY, time_hour) + to_days(back::INTEGER)",
    ),
    "lulls": (
        "SELECT origin, count(*) AS n FROM flight [SESSION 690 MINUTES] GROUP BY origin",
        "SELECT origin, count(*) AS n FROM (SELECT *, sum(CASE WHEN gap <= INTERVAL 690 MINUTES THEN 0 ELSE 1 END) OVER"
        " (PARTITION BY origin ORDER BY time_hour) AS number FROM (SELECT *, time_hour - lag(time_hour) OVER (PARTITION"
        " BY origin ORDER BY time_hour) AS gap FROM flown)) GROUP BY origin, number"
        " HAVING max(time_hour) + INTERVAL 690 MINUTES < TIMESTAMPTZ '2014-01-01 00:00:00+00'",
    ),
    "carriers": (
        "SELECT carrier, count(*) AS n FROM flight [RANGE UNBOUNDED] GROUP BY carrier",
        "SELECT carrier, count(*) AS n FROM flown GROUP BY carrier",
    ),
    "tens": (
        "SELECT carrier, count(*) AS n FROM flight [PARTITION BY carrier ROWS 10 SLIDE 10]",
        "SELECT carrier, 10 AS n FROM (SELECT carrier, row_number() OVER (PARTITION BY carrier ORDER BY time_hour) AS n"
        " FROM flown) WHERE n % 10 = 0",
    ),
}


def oracle() -> duckdb.DuckDBPyConnection:
    """The flights, and those before the last hour, whose windows the watermark has closed."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute(f"CREATE TABLE flight AS FROM '{FLIGHTS}'")
    db.execute("CREATE TABLE flown AS FROM flight WHERE time_hour < (SELECT max(time_hour) FROM flight)")
    return db


def answered(pond: Any, db: duckdb.DuckDBPyConnection) -> None:
    """Whether standing, invoked and ad hoc answers are DuckDB's over the whole year."""
    for name, (query, sql) in QUERIES.items():
        columns, right = db.sql(sql).columns, Counter(db.sql(sql).fetchall())
        assert Counter(pond.sql(f"SELECT {', '.join(columns)} FROM {name}").rows()) == right, name
        if name not in ("carriers", "tens"):  # these count the last hour when they are asked now
            asked = pond.sql(query).table.select(columns).to_pylist()
            assert Counter(tuple(row.values()) for row in asked) == right, name
    whole = db.sql("SELECT carrier, count(*) AS n FROM flight GROUP BY carrier").fetchall()
    rows = pond.sql("INVOKE carriers").table.select(["carrier", "n"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == sorted(whole)
    last = "time_hour >= (SELECT max(time_hour) FROM flight) - INTERVAL 1 DAY"
    invoked = db.sql(f"SELECT origin, count(*), sum(dep_delay) FROM flight WHERE {last} GROUP BY origin").fetchall()
    rows = pond.sql("INVOKE days").table.select(["origin", "n", "d"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == sorted(invoked)
    shown = {r["query"]: (r["status"], r["coverage"]) for r in pond.sql("SHOW QUERIES").table.to_pylist()}
    assert shown == dict.fromkeys(QUERIES, ("live", "complete"))


def begun(pond: Any, folder: Path) -> None:
    """The stream over a folder, and its queries."""
    pond.sql(f"""
        CREATE STREAM flight (time_hour TIMESTAMPTZ, carrier TEXT, origin TEXT, dep_delay INTEGER)
        WITH (path='{folder}/*.parquet', event_time='time_hour')
    """)
    for name, (query, _) in QUERIES.items():
        pond.sql(f"CREATE QUERY {name} AS {query}")


@pytest.mark.parametrize("months", [BY_NAME, (1, 2, 4, 3, 5, 6, 7, 8, 9, 10, 11, 12)], ids=["by name", "March late"])
def test_months_in_another_order(inline_pond: Factory, tmp_path: Path, months: Sequence[int]) -> None:
    pond, db = inline_pond(rows_per_epoch=1), oracle()  # a file an epoch
    folder = tmp_path / "in"
    folder.mkdir()
    begun(pond, folder)
    for month in months:
        db.execute(f"COPY (SELECT * EXCLUDE (month) FROM flight WHERE month = {month}) TO '{folder}/{month}.parquet'")
        pond.drain()
    answered(pond, db)
