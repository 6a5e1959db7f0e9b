"""CQL on Spark gives what it gives in one process: live, revised, over two streams, back-filled, restarted."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Factory = Callable[..., Any]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EPOCH = dt.datetime(2026, 1, 1)
QUERIES = {
    "elements": "SELECT ISTREAM(k, v + 1 AS w) FROM s [RANGE 5 SECONDS] WHERE v > 2",
    "grouped": "SELECT ISTREAM(k, count(*) AS n, sum(v) AS total) FROM s [RANGE 5 SECONDS] GROUP BY k",
    "joined": "SELECT DSTREAM(s.k, u.v) FROM s [PARTITION BY k ROWS 2], u [RANGE 4 SECONDS] WHERE s.k = u.k",
    "relation": "SELECT k, max(v) AS m FROM s [ROWS 7] GROUP BY k",
    "looked_up": "SELECT ISTREAM(s.k, s.v, t.n) FROM s [RANGE 2 SECONDS] LEFT JOIN t ON t.k = s.k AND t.n <> s.v",
    "pairs": "SELECT PAIRS(s.k, u.v AS w) FROM s [RANGE 4 SECONDS] FULL JOIN u [RANGE 2 SECONDS] ON s.k = u.k",
}


def _rows(count: int, start: int, step: int) -> list[dict[str, Any]]:
    return [
        {"ts": EPOCH + dt.timedelta(seconds=start + n * step % 31), "k": "abc"[n % 3], "v": n * 7 % 11}
        for n in range(count)
    ]


def _live(pond: Any, database: Path) -> dict[str, list[Any]]:
    pond.sql(
        "CREATE TABLE t (k TEXT, n BIGINT)"
        f" WITH (uri='{database}', driver='sqlite3', table='numbers', reload='1 second')"
    )
    for name in "su":
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts', lateness='3 s')")
    for name, sql in QUERIES.items():
        pond.sql(f"CREATE QUERY {name} AS {sql}")
    for start in (0, 20, 10, 60):
        pond.ingest("s", _rows(40, start, 3))
        pond.ingest("u", _rows(15, start, 5))
        pond.drain()
    for name, sql in QUERIES.items():
        pond.sql(f"CREATE QUERY filled_{name} AS {sql} WITH (since='start')")
    pond.drain(final=True)
    names = [*QUERIES, *(f"filled_{name}" for name in QUERIES)]
    # of streams of changes all but the revision number, which tells back-filled answers from live ones
    cut = {name: None if name.endswith("relation") else -1 for name in names}
    return {name: sorted(str(row[: cut[name]]) for row in pond.sql(f"SELECT * FROM {name}").rows()) for name in names}


def test_relations(spark_pond: Factory, inline_pond: Factory, tmp_path: Path) -> None:
    database = tmp_path / "numbers.sqlite"
    with sqlite3.connect(database) as link:
        link.execute("CREATE TABLE numbers (k TEXT, n INTEGER)")
        link.executemany("INSERT INTO numbers VALUES (?, ?)", [("a", 7), ("b", 3), ("b", 10)])
    expected = _live(inline_pond("inline", drivers="sqlite3"), database)
    found = _live(spark_pond("spark", drivers="sqlite3"), database)
    for name in QUERIES:
        assert found[name] == expected[name], name
        assert found[f"filled_{name}"] == found[name], name
    assert all(expected[name] for name in QUERIES)
