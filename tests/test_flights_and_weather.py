"""Every kind of window over real flights and weather in one script; its answers are those of DuckDB in one batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import millpond
from tests.pages import ROOT

SCRIPT = ROOT / "examples" / "flights" / "windows.sql"

#: Each query of the script, and DuckDB's account of the same; `f` are the landings in total order, `w` the weather.
CHECKS = {
    "SELECT window_end, origin, departures, worst FROM sliding": """
        SELECT e, origin, count(*), max(dep_delay)
        FROM f, LATERAL (SELECT unnest(range(date_trunc('hour', departed) + INTERVAL 1 HOUR,
            date_trunc('hour', departed) + INTERVAL 4 HOUR, INTERVAL 1 HOUR)) AS e) GROUP BY ALL""",
    "SELECT window_end, departures, miles FROM so_far": """
        WITH ends AS (SELECT unnest(range(min(date_trunc('hour', departed)) + INTERVAL 1 HOUR,
                max(date_trunc('hour', departed)) + INTERVAL 2 HOUR, INTERVAL 1 HOUR)) AS e FROM f),
            -- five o'clock in New York; summer time began on March 10
            marks AS (SELECT d + CASE WHEN d < '2013-03-10' THEN INTERVAL 10 HOUR ELSE INTERVAL 9 HOUR END AS m
                FROM (SELECT unnest(range(TIMESTAMP '2013-02-27', TIMESTAMP '2013-05-03', INTERVAL 1 DAY)) AS d)),
            -- a window that ends at a landmark belongs to the stretch before it
            since AS (SELECT e, max(m) AS s FROM ends JOIN marks ON m < e GROUP BY e)
        SELECT e, count(*), sum(distance) FROM since JOIN f ON departed >= s AND departed < e GROUP BY e""",
    "SELECT window_end, origin, last_hour, last_six FROM two_ranges": """
        SELECT e, origin, count(*) FILTER (departed >= e - INTERVAL 1 HOUR), count(*)
        FROM f, LATERAL (SELECT unnest(range(date_trunc('hour', departed) + INTERVAL 1 HOUR,
            date_trunc('hour', departed) + INTERVAL 7 HOUR, INTERVAL 1 HOUR)) AS e) GROUP BY ALL""",
    "SELECT window_start, window_end, tailnum, flights, miles FROM shifts": """
        WITH torn AS (SELECT *, departed > lag(departed) OVER w + INTERVAL 8 HOUR AS starts
            FROM f WINDOW w AS (PARTITION BY tailnum ORDER BY place)),
        numbered AS (SELECT *, count(*) FILTER (starts) OVER (PARTITION BY tailnum ORDER BY place) AS n FROM torn)
        SELECT min(departed), max(departed) + INTERVAL 8 HOUR, tailnum, count(*), sum(distance)
        FROM numbered GROUP BY tailnum, n""",
    "SELECT window_start, window_end, origin, departures FROM days": """
        -- midnight in New York; summer time began on March 10
        WITH places AS (SELECT *, CASE WHEN departed < '2013-03-10 07:00' THEN INTERVAL 5 HOUR ELSE INTERVAL 4 HOUR END
                AS behind FROM f),
        days AS (SELECT date_trunc('day', departed - behind) AS d, origin, count(*) AS n FROM places GROUP BY ALL)
        SELECT d + CASE WHEN d <= '2013-03-10' THEN INTERVAL 5 HOUR ELSE INTERVAL 4 HOUR END,
            d + CASE WHEN d < '2013-03-10' THEN INTERVAL 29 HOUR ELSE INTERVAL 28 HOUR END, origin, n FROM days""",
    "SELECT window_end, window_number, origin, departures, delay FROM hundreds": """
        SELECT max(departed), (n - 1) // 100 + 1, origin, count(*), sum(dep_delay)
        FROM (SELECT *, row_number() OVER (PARTITION BY origin ORDER BY place) AS n FROM f)
        GROUP BY ALL HAVING count(*) = 100""",
    "SELECT window_end, tailnum, flights, miles FROM aircraft": """
        SELECT DISTINCT departed, tailnum, count(*) OVER w, sum(distance) OVER w FROM f WINDOW w AS (
            PARTITION BY tailnum ORDER BY departed
            RANGE BETWEEN INTERVAL 1 DAY - INTERVAL 1 MICROSECOND PRECEDING AND CURRENT ROW)""",
    'SELECT "at", origin, dest, dep_delay FROM stranded': """
        SELECT departed, origin, dest, dep_delay FROM f WHERE dep_delay > 300""",
    'SELECT "at", tailnum, origin, dep_delay, observed, wind_speed FROM took_off': """
        SELECT departed, tailnum, f.origin, dep_delay, observed, wind_speed FROM f LEFT JOIN w
        ON w.origin = f.origin AND departed - INTERVAL 1 HOUR < observed AND observed <= departed""",
    "SELECT window_end, origin, wind, sight FROM stormy": """
        -- an hour's answer counts at the hour's end
        SELECT date_trunc('day', observed + INTERVAL 1 HOUR) + INTERVAL 1 DAY, origin, max(wind_speed), min(visib)
        FROM w GROUP BY ALL""",
}


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    script = SCRIPT.read_text(encoding="utf-8").replace("'examples/", f"'{ROOT}/examples/")
    with millpond.open(tmp_path_factory.mktemp("flights") / "pond", executor="inline") as opened:
        for _ in opened.run(script):
            continue
        yield opened


@pytest.fixture(scope="module")
def batch() -> Iterator[duckdb.DuckDBPyConnection]:
    landings = sorted(os.listdir(SCRIPT.parent / "landings"))
    with duckdb.connect() as db:
        parts = " UNION ALL ".join(
            f"SELECT *, {n} AS file, file_row_number AS at_row "
            f"FROM read_parquet('{SCRIPT.parent}/landings/{name}', file_row_number = true)"
            for n, name in enumerate(landings)
        )
        db.execute(
            f"CREATE TABLE f AS SELECT *, row_number() OVER (ORDER BY departed, file, at_row) AS place FROM ({parts})"
        )
        db.execute(f"CREATE TABLE w AS SELECT * FROM '{SCRIPT.parent}/weather.parquet'")
        yield db


@pytest.mark.parametrize("query", CHECKS)
def test_answers_are_those_of_batch_sql(query: str, pond: Any, batch: duckdb.DuckDBPyConnection) -> None:
    found = pond.sql(query).rows()
    expected = batch.execute(CHECKS[query]).fetchall()
    assert len(expected) > 50
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_the_script_runs_from_the_project_folder() -> None:
    assert Path(SCRIPT).is_file() and "path = 'examples/flights/" in SCRIPT.read_text(encoding="utf-8")
