"""What a derived stream does beside passing rows on: lulls, failing rows, retention, types, who may follow it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.support.errors import MillpondError, QueryError
from millpond.testing import VirtualClock
from tests.quick import quick_folder

START = dt.datetime(2026, 1, 1)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def opened(folder: Path, **settings: Any) -> Any:
    return millpond.open(folder / "pond", executor="inline", **settings)


def test_a_lull_closes_windows_behind_rows_and_answers(folder: Path) -> None:
    """On arrival time the clock alone moves progress, also that of streams of rows, and of answers of these."""
    clock = VirtualClock()
    with opened(folder, clock=clock) as pond:
        pond.sql(
            "CREATE STREAM a (v BIGINT) WITH (event_time='arrival');"
            "CREATE STREAM f AS SELECT arrival_ts AS t, v FROM a WHERE v > 1;"
            "CREATE STREAM x AS SELECT sum(v) AS v FROM f [RANGE TUMBLING 10 SECONDS];"
            "CREATE QUERY q AS SELECT sum(v) AS v FROM x [RANGE TUMBLING 30 SECONDS]"
        )
        pond.ingest("a", {"v": [1, 2, 3]})
        pond.drain()
        assert pond.sql("SELECT v FROM x").rows() == []
        clock.advance(120_000_000)
        while pond.step():
            pass
        assert pond.sql("SELECT v FROM x").rows() == [(5,)]
        assert pond.sql("SELECT v FROM q").rows() == [(5,)]


def test_a_row_that_fails_is_a_dead_letter_of_its_source(folder: Path) -> None:
    with opened(folder) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, t TEXT) WITH (event_time='ts');"
            "CREATE STREAM n AS SELECT ts, CAST(t AS INTEGER) AS n FROM s WHERE ts IS NOT NULL"
        )
        pond.ingest("s", [{"ts": at(i), "t": t} for i, t in enumerate(["1", "two", "3", "", "5"])])
        pond.drain()
        assert pond.sql("SELECT n FROM n").rows() == [(1,), (3,), (5,)]
        letters = pond.sql("SELECT source, position FROM dead(s) ORDER BY position").rows()
        assert letters == [("stream n", 1), ("stream n", 3)]


def test_it_keeps_its_rows_for_as_long_as_it_says(folder: Path) -> None:
    """Each stream has its own retention; a query attached later says what it did not find."""
    with opened(folder) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts', retention='1 minute');"
            "CREATE STREAM x WITH (retention='10 minutes') AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS]"
        )
        for minute in range(20):
            pond.ingest("s", [{"ts": at(60 * minute + i), "v": 1} for i in range(0, 60, 5)])
            pond.drain()
            pond.maintain()
        assert pond.sql("SELECT count(*) FROM s").rows()[0][0] <= 3 * 12
        oldest, count = pond.sql("SELECT min(window_end), count(*) FROM x").rows()[0]
        assert at(60 * 8) <= oldest <= at(60 * 11) and 54 <= count <= 72
        pond.sql("CREATE QUERY q AS SELECT sum(v) AS v FROM x [RANGE TUMBLING 1 MINUTE] WITH (since='start')")
        pond.drain()
        whole = pond.sql("SELECT v FROM q WHERE covered_from IS NULL").rows()
        assert whole and set(whole) == {(12,)}


def test_types_go_through_both_kinds(folder: Path) -> None:
    with opened(folder) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, e ENUM('low', 'high'), d DECIMAL(9, 2), u UUID, z TIMESTAMPTZ)"
            " WITH (event_time='ts');"
            "CREATE STREAM x AS SELECT e, sum(d) AS d, list(d ORDER BY d) AS ds, max(u) AS u, first(z) AS z,"
            "  {'n': count(*), 'e': max(e)} AS st, sum(1) AS big FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY e;"
            "CREATE STREAM y AS SELECT * FROM x WHERE e < 'high' OR d > 0;"
            "CREATE QUERY q AS SELECT e, max(st) AS st, sum(big) AS big, max(u) AS u FROM y [RANGE TUMBLING 20 SECONDS]"
            " GROUP BY e ORDER BY e"
        )
        u = "123e4567-e89b-12d3-a456-426614174000"
        rows = [
            {
                "ts": at(i),
                "e": ["high", "low", None][i % 3],
                "d": Decimal(i) / 4,
                "u": u,
                "z": at(i).replace(tzinfo=dt.UTC),
            }
            for i in range(12)
        ]
        pond.ingest("s", rows)
        pond.drain(final=True)
        columns = "e, d, ds, u, z, st, big"
        answers = pond.sql(f"SELECT {columns} FROM x").rows()
        assert pond.sql(f"SELECT {columns} FROM y").rows() == [r for r in answers if r[0] is not None or r[1] > 0]
        assert [r[0] for r in answers[:3]] == ["low", "high", None], "the order of an ENUM, NULL last"
        assert pond.sql("SELECT e, st, big FROM q").rows() == [
            ("low", {"n": 3, "e": "low"}, 3),
            ("high", {"n": 4, "e": "high"}, 4),
            (None, {"n": 3, "e": None}, 3),
            ("low", {"n": 1, "e": "low"}, 1),
            (None, {"n": 1, "e": None}, 1),
        ]


def test_rows_of_a_derived_stream_can_be_followed(folder: Path) -> None:
    """A subscription of a row query over it delivers every row once, corrections included."""
    with opened(folder) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts');"
            "CREATE STREAM x AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS]"
        )
        handle = pond.register("SELECT * EXCLUDE (window_start) FROM x WHERE v > 0")
        for times in ([1, 11], [2], [25]):
            pond.ingest("s", [{"ts": at(t), "v": t} for t in times])
            pond.drain()
        seen = [tuple(r.values()) for b in handle.subscribe(timeout=0) for r in b.rows.to_pylist()]
        assert seen == [(at(10), 1, 0, "+"), (at(10), 3, 1, "+"), (at(20), 11, 0, "+")]
        assert handle.result().to_pylist()[0] == {"window_end": at(10), "v": 1, "revision": 0, "op": "+"}


def test_its_query_is_not_to_be_had_alone(folder: Path) -> None:
    with opened(folder) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts');"
            "CREATE STREAM x AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS]"
        )
        with pytest.raises(QueryError, match="no query 'x'"):
            pond.query("x")
        hidden = pond.status()["queries"]["x"]["id"]
        with pytest.raises(MillpondError, match="not a query"):
            pond.query(hidden).drop()
        with pytest.raises(MillpondError, match="taken"):
            pond.register("SELECT * FROM s WHERE v > 1", name="x")
        plan = [line for (line,) in pond.sql("EXPLAIN x").rows()]
        assert plan[0] == "stream x: answers of s" and any("window: range 10s" in line for line in plan)
        shown = pond.sql("SHOW WATERMARKS").to_arrow().to_pylist()
        assert ("stream", "x", "as far as what it is derived from") in [
            (r["kind"], r["name"], r["generator"]) for r in shown
        ]
        assert pond.sql("SHOW STREAMS").to_arrow()["source"].to_pylist() == ["ingest", "answers of s"]


def test_it_outlives_a_move_of_the_pond(folder: Path) -> None:
    """What waits to be taken in lies in the pond, wherever that is now."""
    with opened(folder) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts');"
            "CREATE STREAM f AS SELECT * FROM s WHERE v > 1"
        )
        pond.ingest("s", [{"ts": at(i), "v": i} for i in range(5)])
        pond.step()
        assert pond.sql("SELECT v FROM f").rows() == []
    (folder / "pond").rename(folder / "moved")
    with millpond.open(folder / "moved", executor="inline") as pond:
        pond.drain()
        assert pond.sql("SELECT v FROM f").rows() == [(2,), (3,), (4,)]
