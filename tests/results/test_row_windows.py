"""Windows that end with rows beside the rest of a pond: retention, sharing, rows that come too late, EXPLAIN."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from millpond.support.errors import StatementError
from tests.results.test_coverage import BASE, feed, second

Factory = Callable[..., Any]
COUNT = "SELECT count(*) AS n FROM s"


def made(inline_pond: Factory, **options: str) -> Any:
    pond = inline_pond()
    said = "".join(f", {k}='{v}'" for k, v in options.items())
    pond.sql(f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts'{said})")
    return pond


def covered(pond: Any, sql: str) -> dict[int, float | None]:
    return {r["window_number"]: second(r["covered_from"]) for r in pond.sql(sql).table.to_pylist()}


def test_windows_that_retention_has_cut(inline_pond: Factory) -> None:
    """Rows at 0, 5, … 95 of which those before 35 are gone: numbers start at 35, and short windows say so."""
    pond = made(inline_pond, retention="1 minute")
    pond.sql(f"CREATE QUERY live AS {COUNT} [ROWS 3 SLIDE 1]")
    for t in range(0, 100, 5):
        feed(pond, t)
    pond.maintain()
    assert pond.sql("SELECT min(v) FROM s").rows() == [(35,)]
    assert set(covered(pond, "SELECT * FROM live").values()) == {None}
    gone = 35.0
    assert covered(pond, f"{COUNT} [ROWS 3 SLIDE 1]") == {1: gone, 2: gone} | dict.fromkeys(range(3, 14))
    assert covered(pond, f"{COUNT} [ROWS 5 SLIDE 2]") == {1: gone, 2: gone} | dict.fromkeys(range(3, 7))
    # Over time: those that begin before it.
    timed = covered(pond, f"{COUNT} [RANGE 10 SECONDS SLIDE 1 ROW]")
    assert timed == {1: gone, 2: gone} | dict.fromkeys(range(3, 14))
    pond.sql(f"CREATE QUERY filled WITH (since='start') AS {COUNT} [ROWS 3 SLIDE 1]")
    pond.drain()
    assert covered(pond, "SELECT * FROM filled") == {1: gone, 2: gone} | dict.fromkeys(range(3, 13))


def test_rows_that_come_too_late_have_no_number(inline_pond: Factory) -> None:
    pond = made(inline_pond)
    pond.sql(
        "CREATE QUERY q WITH (revise_for='20 seconds', beyond='drop') AS SELECT sum(v) AS t FROM s [ROWS 2 SLIDE 1]"
    )
    feed(pond, 0, 50, 100)
    feed(pond, 79)  # more than 20 seconds behind
    feed(pond, 80)  # just not
    feed(pond, 101)
    rows = pond.sql("SELECT window_end, window_number, t FROM q").rows()
    assert [(second(end), number, int(total)) for end, number, total in rows] == [
        (0.0, 1, 0),
        (50.0, 2, 50),
        (80.0, 3, 130),
        (100.0, 4, 180),
    ]
    assert pond.status()["queries"]["q"]["too_late"] == 1


def test_sharing(inline_pond: Factory) -> None:
    pond = made(inline_pond)
    feed(pond, 0)
    for name, window, more in (
        ("long", "ROWS 10 SLIDE 1", ""),
        ("short", "ROWS 5 SLIDE 3", ""),
        ("longer", "ROWS 20 SLIDE 1", ""),
        ("arrived", "ROWS 5 SLIDE 1 BY ARRIVAL", ""),
        ("timed", "RANGE 10 SECONDS SLIDE 1 ROW", ""),
        ("soon", "ROWS 5 SLIDE 1", " WITH (revise_for='1 hour')"),
    ):
        pond.sql(f"CREATE QUERY {name}{more} AS {COUNT} [{window}]")
        pond.drain()
    users = {r["users"] for r in pond.sql("SHOW SYNOPSES").table.to_pylist()}
    assert users == {"long, short", "longer", "arrived", "timed", "soon"}
    feed(pond, 1, 2, 3, 4)
    assert pond.sql("SELECT window_number, n FROM short").rows() == [(1, 3)]
    assert pond.sql("SELECT window_number, n FROM long").rows() == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_explain_says_what_is_kept(inline_pond: Factory) -> None:
    pond = made(inline_pond)
    lines = [r["plan"] for r in pond.sql(f"EXPLAIN {COUNT} [ROWS 10 SLIDE 2] WHERE v > 1").table.to_pylist()]
    assert "window: the last 10 rows, ending with every 2th row by rank" in lines
    assert any(line.startswith("filter: ") and line.endswith("cannot go below it") for line in lines)
    assert "kept behind 1d before the watermark: the last 10 rows, and a number" in lines
    assert "shards: one has all rows, since numbers run through them" in lines


def test_a_silent_partition_keeps_its_rows(inline_pond: Factory) -> None:
    """What one partition's next window needs is there after days of others, upkeep and a restart."""
    pond = inline_pond("silent", compact_files=2)
    pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts')")
    pond.sql("CREATE QUERY q WITH (revise_for='1 hour') AS"
             " SELECT v % 2 AS odd, sum(v) AS t FROM s [PARTITION BY v ROWS 3 SLIDE 2] GROUP BY v")  # fmt: skip
    feed(pond, 1)
    for day in range(1, 12):
        pond.ingest("s", [{"ts": BASE + dt.timedelta(days=day, seconds=s), "v": 2} for s in range(20)])
        pond.step()
    pond.close()
    pond = inline_pond("silent", compact_files=2)
    pond.ingest("s", [{"ts": BASE + dt.timedelta(days=12), "v": 1}])
    pond.drain(final=True)
    found = pond.sql("SELECT window_number, window_start, t FROM q WHERE odd = 1").rows()
    assert [(n, second(start), int(t)) for n, start, t in found] == [(1, 1.0, 2)]
    assert pond.sql("SELECT max(window_number) FROM q WHERE odd = 0").rows() == [(110,)]


def test_what_is_refused(inline_pond: Factory) -> None:
    pond = made(inline_pond)
    with pytest.raises(StatementError, match="empty='report'"):
        pond.sql(f"CREATE QUERY q WITH (empty='report') AS {COUNT} [ROWS 3 SLIDE 1]")
