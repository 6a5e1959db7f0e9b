"""A database that does not answer: it keeps neither other databases waiting nor epochs, and it is told."""

from __future__ import annotations

import sqlite3
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millpond
from millpond.engine.jobs.table_readings import refresh_databases
from millpond.sources.table_sources.readings import Readings, Waiting
from tests.engine.test_table_versions import row, shown

QUERY = "query='SELECT k, v FROM t', reload='1 second'"


class Slow:
    """A module for databases that answers like sqlite3, but not while `free` is not set."""

    def __init__(self) -> None:
        self.free, self.asked = threading.Event(), 0
        self.free.set()

    def connect(self, place: str) -> Any:
        self.asked += 1
        assert self.free.wait(300)
        return sqlite3.connect(place)


def fill(path: Path, rows: list[tuple[str, int]]) -> None:
    with sqlite3.connect(path) as link:
        link.execute("DROP TABLE IF EXISTS t")
        link.execute("CREATE TABLE t (k TEXT, v INTEGER)")
        link.executemany("INSERT INTO t VALUES (?, ?)", rows)
    link.close()


def test_a_database_that_hangs_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    module = types.ModuleType("slowdb")
    module.connect = slow.connect  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "slowdb", module)
    clock = [1_000_000_000]
    for name in ("hung", "good"):
        fill(tmp_path / name, [("a", 1)])
    with millpond.open(
        tmp_path / "p", executor="inline", shards=1, drivers="slowdb, sqlite3", table_timeout=50, clock=lambda: clock[0]
    ) as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT) WITH (event_time='ts')")
        pond.sql(f"CREATE TABLE hung (k TEXT, v INTEGER) WITH (driver='slowdb', uri='{tmp_path}/hung', {QUERY})")
        pond.sql(f"CREATE TABLE good (k TEXT, v INTEGER) WITH (driver='sqlite3', uri='{tmp_path}/good', {QUERY})")
        pond.sql("CREATE QUERY q AS SELECT max(h.v) AS h, max(g.v) AS g FROM s [RANGE TUMBLING 10 SECONDS]"
                 " JOIN hung h ON h.k = s.k JOIN good g ON g.k = s.k")  # fmt: skip
        pond.ingest("s", [row(1, "a")])
        pond.drain()
        slow.free.clear()
        pond.sql("ALTER SYSTEM SET table_timeout = 0.3")
        for name in ("hung", "good"):
            fill(tmp_path / name, [("a", 2)])
        clock[0] += 5_000_000
        refresh_databases(pond._core.tables, pond._core.catalog, pond._core.now, 0.1)
        while shown(pond, "good")["version"] != 2:  # a slow machine may need more than one round
            refresh_databases(pond._core.tables, pond._core.catalog, pond._core.now, 1)
        assert not slow.free.is_set()
        assert shown(pond, "hung")["version"] == 1
        with pytest.raises(millpond.support.errors.SourceError, match="has not answered for"):
            pond.sql("REFRESH TABLE hung")
        pond.ingest("s", [row(11, "a")])
        pond.drain()  # goes on with what was read last
        told = shown(pond, "hung")["problem"]
        assert "has not answered for" in told and told in str(pond.sql("EXPLAIN q").rows())
        with pytest.raises(millpond.support.errors.StatementError, match="has not answered"):
            pond.sql(f"CREATE TABLE more (k TEXT) WITH (driver='slowdb', uri='{tmp_path}/hung', {QUERY})")
        asked = slow.asked
        clock[0] += 60_000_000
        refresh_databases(pond._core.tables, pond._core.catalog, pond._core.now, 0.0)
        assert slow.asked == asked  # while one reading waits there is no other
        slow.free.set()
        pond.sql("ALTER SYSTEM SET table_timeout = 50")
        clock[0] += 60_000_000
        pond.ingest("s", [row(21, "a")])
        pond.drain(final=True)
        assert pond.sql("SELECT h, g FROM q ORDER BY window_end").rows() == [(1, 1), (1, 2), (2, 2)]
        assert (shown(pond, "hung")["version"], shown(pond, "hung")["problem"]) == (2, None)


def test_one_reading_at_a_time_and_what_comes_late_is_taken() -> None:
    free, made = threading.Event(), []

    def make() -> pa.Table:
        made.append(1)
        assert free.wait(300)
        return pa.table({"a": [1]})

    readings = Readings()
    for overdue, timeout in ((False, 60.0), (True, 0.0)):
        with pytest.raises(Waiting) as told:
            readings.ask("t", "t", make, timeout, 0)
        assert told.value.overdue is overdue
    assert readings.waits("t") is not None and readings.waits("u") is None
    free.set()
    assert readings.ask("t", "t", make, 60).num_rows == 1 and made == [1]
    assert not readings.has("t")

    def fail() -> pa.Table:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        readings.ask("t", "t", fail, 60)
