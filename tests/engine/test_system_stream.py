"""SysStream: any query runs over it, it counts every epoch once, and it does not feed on itself."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.cli.top import draw, look
from millpond.engine.control.reporting import Readings, Reporter
from millpond.engine.control.sizes import StateSizes
from millpond.support.errors import MillpondError
from millpond.testing import VirtualClock
from tests.quick import quick_folder

START = dt.datetime(2026, 1, 1)
SETUP = """
    CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts');
    CREATE STREAM big AS SELECT ts, v FROM s WHERE v > 1;
    CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path / "pond"


def put(pond: Any, second: float, *values: int) -> None:
    n = len(values)
    pond.ingest("s", {"ts": [START + dt.timedelta(seconds=second)] * n, "k": ["a"] * n, "v": list(values)})


def total(pond: Any, entity: str, kind: str, name: str) -> float | None:
    """The sum of a property of an entity over all that was reported."""
    where = f"entity = '{entity}' AND kind = '{kind}' AND property = '{name}'"
    found: float | None = pond.sql(f"SELECT sum(value) AS v FROM sysstream WHERE {where}").rows()[0][0]
    return found


def test_every_kind_of_query_runs_over_it_and_it_rests(folder: Path) -> None:
    clock = VirtualClock()
    with millpond.open(folder, executor="inline", statistics=True, clock=clock) as pond:
        pond.sql(SETUP)
        pond.sql("""
            CREATE QUERY rates AS SELECT entity, sum(value) AS rows FROM sysstream [RANGE TUMBLING 1 MINUTE]
              WHERE property = 'rows_in' AND kind = 'stream' GROUP BY entity;
            CREATE QUERY slow AS SELECT entity, value FROM sysstream WHERE property = 'waiting_rows' AND value > 3;
            CREATE QUERY changes AS SELECT ISTREAM(entity, value) FROM sysstream [NOW] WHERE property = 'late';
            CREATE STREAM answered AS SELECT ts, entity, value FROM sysstream WHERE property = 'rows_out'
        """)
        for second in range(4):
            put(pond, 10 * second, 1, 2, 3)
            pond.step()
            clock.advance(30_000_000)
        put(pond, 35, 5)
        put(pond, 5, 7)  # late
        pond.drain()
        epochs = pond.status()["epochs"]
        assert not pond.step() and not pond.step()  # what it reports of itself is no reason for another epoch
        assert pond.status()["epochs"] == epochs
        assert total(pond, "s", "stream", "rows_in") == 14
        assert total(pond, "s", "stream", "late") == 1
        assert total(pond, "big", "stage", "rows_in") == 14
        assert total(pond, "big", "stage", "rows_out") == 10
        assert total(pond, "sysstream", "stream", "rows_in") != 0
        n = pond.sql("SELECT sum(n) AS n FROM q ALL REVISIONS").rows()[0][0]
        assert n > 9 and total(pond, "q", "query", "rows_out") == len(pond.sql("SELECT * FROM q ALL REVISIONS").rows())
        rates = pond.sql("SELECT rows FROM rates WHERE entity = 's'").rows()
        assert rates == [(6.0,), (6.0,)]  # two epochs a minute, of three rows each
        assert pond.sql("INVOKE slow").rows() == []
        assert pond.sql("SELECT entity, value FROM changes").rows() == []
        put(pond, 50, 1)
        clock.advance(1_000_000)
        pond.drain()
        assert pond.sql("SELECT entity, value FROM changes").rows() == [("big", 1.0), ("s", 1.0)]
        answers = dict(pond.sql("SELECT entity, sum(value) AS n FROM answered GROUP BY entity").rows())
        assert answers["q"] >= 4 and answers["big"] == 10
        batch = next(iter(pond.subscribe("rates", timeout=0)))
        assert {"entity", "rows"} <= set(batch.rows.column_names)
        [(high,)] = pond.sql(
            "SELECT max(value) AS v FROM sysstream WHERE property = 'watermark' AND entity = 's'"
        ).rows()
        assert high == dt.datetime(2026, 1, 1, 0, 0, 50, tzinfo=dt.UTC).timestamp()
        synopses = pond.sql(
            "SELECT max(value) AS v FROM sysstream WHERE property = 'state_bytes' AND kind = 'synopsis'"
        )
        assert synopses.rows()[0][0] > 0


def test_an_epoch_is_counted_once_whatever_happens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the report and the publish record, and restarted before the report is taken in."""

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with millpond.open(folder, executor="inline", statistics=True) as pond:
        pond.sql(SETUP)
        put(pond, 0, 1, 2)
        pond.step()
        put(pond, 1, 3)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("millpond.manifests.epochs.write_published", killed)
            pond.step()
    with millpond.open(folder, executor="inline", statistics=True) as pond:  # which repeats the epoch
        pond._core.telemetry.reporter.forget()
    with millpond.open(folder, executor="inline") as pond:
        put(pond, 2, 4)  # statistics are off now, for this opening
        pond.drain()
        assert total(pond, "s", "stream", "rows_in") == 3
        assert total(pond, "pond", "pond", "epochs") == 2


def test_on_off_and_who_may(folder: Path) -> None:
    with millpond.open(folder, executor="inline") as pond:
        with pytest.raises(MillpondError, match="ALTER SYSTEM SET statistics = on begins it"):
            pond.sql("SELECT * FROM sysstream")
        with pytest.raises(MillpondError, match="the name 'sysstream' is taken"):
            pond.sql("CREATE STREAM sysstream (ts TIMESTAMP)")
        pond.sql(SETUP)
        pond.sql("ALTER SYSTEM SET statistics = on")
        put(pond, 0, 1)
        pond.drain()
        for text, reason in (
            ("DROP STREAM sysstream", "statistics = off first"),
            ("ALTER STREAM sysstream ADD COLUMN a INTEGER", "the system's"),
        ):
            with pytest.raises(MillpondError, match=reason):
                pond.sql(text)
        with pytest.raises(MillpondError, match="the system's"):
            pond.ingest("sysstream", [])
        pond.sql("ALTER STREAM sysstream SET (retention = '1 hour')")
        pond.sql("ALTER SYSTEM SET statistics = off")
        put(pond, 1, 2)
        pond.drain(final=True)
        assert total(pond, "s", "stream", "rows_in") == 1
        epochs = pond.status()["epochs"]
        assert not pond.step() and pond.status()["epochs"] == epochs
        pond.sql("ALTER SYSTEM SET statistics = on")  # after a DRAIN FINAL, too: the system does not end
        pond.step(force=True)
        pond.drain()
        pond.sql("ALTER SYSTEM SET statistics = off; DROP STREAM sysstream")
    with millpond.open(folder, executor="inline") as pond:
        assert [row[0] for row in pond.sql("SHOW STREAMS").rows()] == ["s", "big"]


def test_filters_tell_their_places(folder: Path) -> None:
    """Filters with registered functions: rows, and the order with those before it, also in `millpond top`."""
    with millpond.open(folder, executor="inline", statistics=True) as pond:
        pond.register_function("above", lambda v, n: v > n, arguments=["BIGINT", "BIGINT"])
        pond.sql("""
            CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts');
            CREATE QUERY f WITH (adapt_probability = 1, adapt_budget = 1, adapt_window = 50) AS
              SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] WHERE above(v, 0) AND above(v, 90)
        """)
        for epoch in range(4):
            put(pond, epoch, *range(1, 101))
            pond.drain()
        places = "SELECT entity, last(value) AS v FROM sysstream WHERE property = 'position' GROUP BY entity"
        told = dict(pond.sql(places).rows())
        assert sorted(told.values()) == [1.0, 2.0] and all(e.startswith("f: above(") for e in told)
        narrow = next(e for e in told if "90" in e)
        assert told[narrow] == 1.0
        assert total(pond, narrow, "filter", "rows_out") == 40
        [order] = look(pond)["filters"]
        assert order["queries"] == "f" and order["order"].startswith(narrow.removeprefix("f: "))
        assert order["changes"] >= 1 and "epoch " in order["history"]
        assert draw(look(pond)).renderables


def test_what_is_gone_is_not_remembered() -> None:
    reporter = Reporter(StateSizes(""))
    one: Readings = {("q", "query"): {"revisions": 0.0, "too_late": 0.0}}
    other: Readings = {("r", "query"): {"revisions": 0.0}}
    assert reporter.table({}, one | other, 1).num_rows == 3
    assert reporter.table({}, one | other, 2).num_rows == 0
    assert reporter.table({}, other, 3).num_rows == 0
    assert reporter.table({}, one | other, 4)["entity"].to_pylist() == ["q", "q"]
