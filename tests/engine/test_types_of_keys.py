"""Values of every type as keys and as arguments, with late rows: what a query keeps saying is what its SELECT says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from millpond.testing import VirtualClock
from tests.conftest import Factory

#: Two values of each type, the first of them smaller.
TYPES = {
    "INTEGER": ("1", "2"),
    "BOOLEAN": ("false", "true"),
    "HUGEINT": ("1", "1180591620717411303424"),
    "DECIMAL(9,2)": ("1.25", "2"),
    "DECIMAL(38,2)": ("1.25", "2"),
    "DOUBLE": ("1.5", "'nan'::DOUBLE"),
    "VARCHAR": ("'a'", "'b'"),
    "BLOB": ("'a'::BLOB", "'b'::BLOB"),
    "DATE": ("DATE '2026-01-01'", "DATE '2026-01-02'"),
    "TIME": ("TIME '01:00'", "TIME '02:00'"),
    "TIMESTAMPTZ": ("TIMESTAMPTZ '2026-01-01 00:00:00+00'", "TIMESTAMPTZ '2026-01-02 00:00:00+00'"),
    "INTERVAL": ("INTERVAL 1 DAY", "INTERVAL 2 DAYS"),
    "UUID": ("'00000000-0000-0000-0000-000000000001'::UUID", "'00000000-0000-0000-0000-000000000002'::UUID"),
    "ENUM('b', 'a')": ("'b'", "'a'"),
    "JSON": ("'[1]'::JSON", "'{\"a\":1}'::JSON"),
    "INTEGER[]": ("[1]", "[2]"),
    "ENUM('b', 'a')[]": ("['b']", "['a']"),
    "INTEGER[2]": ("[1, 2]", "[2, 1]"),
    "STRUCT(z INTEGER)": ("{'z': 1}", "{'z': 2}"),
    "MAP(VARCHAR, INTEGER)": ("MAP {'x': 1}", "MAP {'x': 2}"),
}

FORMS = {
    "window": "SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
    "fewer": "SELECT k, count(*) AS n FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k HAVING count(*) < 3",
    "hidden": "SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
    "two": "SELECT v, k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k, v",
    "extremes": "SELECT v, min(k) AS low, max(k) AS high FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY v",
    "lists": "SELECT list(k) AS l, first(k) AS f, count(DISTINCT k) AS d FROM s [RANGE TUMBLING 10 SECONDS]",
    "most": "SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k ORDER BY n DESC, k LIMIT 1",
    "different": "SELECT DISTINCT k FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k, v",
    "landmark": "SELECT k, count(*) AS n FROM s [RANGE ALL SLIDE 10 SECONDS] GROUP BY k",
}

#: Options under which answers come at other times.
OPTIONS = {"early": "early='1s'", "flush": "flush='slow', flush_delay='1s'"}


@pytest.mark.parametrize("declared", TYPES)
def test_late_rows_with_keys_of_every_type(inline_pond: Factory, declared: str) -> None:
    clock = VirtualClock(int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000)
    pond = inline_pond(clock=clock)
    pond.sql(f"CREATE STREAM s (ts TIMESTAMP, k {declared}, v INTEGER) WITH (event_time='ts')")
    queries = dict(FORMS)
    for name, select in FORMS.items():
        pond.sql(f"CREATE QUERY {name} AS {select}")
    for name, options in OPTIONS.items():
        queries[name] = FORMS["window"]
        pond.sql(f"CREATE QUERY {name} WITH ({options}) AS {FORMS['window']}")
    low, high = TYPES[declared]
    on_time, late = [(1, low, 1), (2, high, 2), (13, low, 3)], [(3, low, 4), (4, "NULL", 5), (4, low, 6)]
    for rows in (on_time, late, [(45, high, 7)]):
        for second, value, v in rows:
            put(pond, declared, second, value, v)
        clock.advance(2_000_000)
        pond.step()
    pond.drain()
    clock.advance(60_000_000)  # what waits to go out goes out
    while pond.step():
        pass
    shown = {r["query"]: (r["status"], r["reason"]) for r in pond.sql("SHOW QUERIES").table.to_pylist()}
    assert shown == dict.fromkeys(queries, ("live", ""))
    for name, select in queries.items():
        columns = ", ".join(c for c in pond.sql(select).table.column_names if c != "covered_from")
        closed = " WHERE status = 'closed'" if name == "early" else ""
        kept = pond.sql(f"SELECT {columns} FROM {name}{closed}").table.to_pylist()
        asked = pond.sql(select).table.select(columns.split(", ")).to_pylist()
        assert kept and sorted(map(repr, kept)) == sorted(map(repr, asked)), name
        assert pond.sql(f"SELECT * FROM {name} ALL REVISIONS").table.num_rows >= len(kept)


def put(pond: Any, declared: str, second: int, value: str, v: int) -> None:
    """Take in one row whose value is written in SQL."""
    import duckdb

    cast = f"({value})::{declared}"
    if declared == "HUGEINT":  # Arrow has none
        cast = f"({value})::DECIMAL(38,0)"
    when = f"TIMESTAMP '2026-01-01' + INTERVAL {second} SECOND"
    pond.ingest("s", duckdb.sql(f"SELECT {when} AS ts, {cast} AS k, {v}::INTEGER AS v").to_arrow_table())
