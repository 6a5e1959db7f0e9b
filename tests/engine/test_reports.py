"""What DRAIN tells: rows, dead letters by cause, files that were left out, and what windows wait for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millpond.answers.describe.happening import causes
from millpond.types.json_records import from_json
from millpond.types.results import DrainReport, QueryReport, StreamReport

DAY = "CREATE QUERY daily AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 DAY]"
STREAM = "CREATE STREAM s (ts TIMESTAMP, n INTEGER, x TEXT) WITH (event_time='ts')"


def rows(*minutes: int, x: str = "1") -> list[dict[str, Any]]:
    return [{"ts": f"2026-03-01 08:{minute:02}:00", "n": minute, "x": x} for minute in minutes]


def test_windows_that_are_open_say_what_they_wait_for(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(f"{STREAM}; {DAY}; CREATE QUERY again AS SELECT sum(n) AS n FROM s [RANGE TUMBLING 1 DAY]")
    pond.ingest("s", rows(0, 30, 59))
    assert str(pond.drain()).split("\n") == [
        "drained: 3 rows of s",
        "windows are open: daily, again wait for s to reach 2026-03-02 00:00:00",
        "DRAIN FINAL closes windows, when nothing more will come",
    ]
    nothing = pond.sql("SELECT * FROM daily")
    assert (nothing.rows(), nothing.message) == (
        [],
        "windows are open: daily waits for s to reach 2026-03-02 00:00:00; INVOKE daily answers what is open",
    )
    once = pond.sql("SELECT count(*) AS n FROM s [RANGE TUMBLING 1 DAY]")
    assert (once.rows(), once.message) == ([], "no window with a row has ended by 2026-03-01 08:59:00, the newest row")
    said = pond.sql("DRAIN FINAL")
    assert pond.sql("SELECT * FROM daily WHERE n > 5").message == ""
    assert said.message == "drained, all windows closed: no new rows"
    assert said.report == DrainReport(True, (StreamReport("s", total_rows=3),))


def test_sessions_that_are_open_say_when_the_last_of_them_is_over(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(f"{STREAM}; CREATE QUERY visit AS SELECT x, count(*) AS n FROM s [SESSION 30 MINUTES] GROUP BY x")
    pond.ingest("s", rows(0, 10))
    assert [q.waits_for for q in pond.drain().queries] == ["s to pass 2026-03-01 08:40:00"]
    pond.sql("DRAIN FINAL")
    assert [q.waits_for for q in pond.drain().queries] == []


def test_what_the_sources_lack_is_said_and_of_which_stream(inline_pond: Any) -> None:
    """Which row brings the watermark there; of a query over a query the stream that was declared."""
    pond = inline_pond()
    pond.sql(STREAM.replace("'ts')", "'ts', lateness='5s', step='1m')"))
    pond.sql("CREATE QUERY minutely AS SELECT sum(n) AS n FROM s [RANGE TUMBLING 90 SECONDS]")
    pond.sql("CREATE QUERY hourly AS SELECT max(n) AS n FROM minutely [RANGE TUMBLING 1 HOUR]")
    pond.ingest("s", rows(0, 3))  # 8:03:00 is where an empty window ends, and where one begins that has a row
    assert [(q.query, q.waits_for) for q in pond.drain().queries] == [
        ("minutely", "s to reach 2026-03-01 08:04:30 (a row at 2026-03-01 08:05:05 or later)"),
        ("hourly", "s to reach 2026-03-01 09:00:00 (a row at 2026-03-01 09:00:05 or later)"),
    ]
    told = {r["name"]: r["waiting_for"] for r in pond.sql("SHOW WATERMARKS").table.to_pylist() if r["kind"] == "query"}
    assert told["hourly"].startswith("s to reach 2026-03-01 09:00:00")
    pond.ingest("s", [{"ts": "2026-03-01 08:05:04.999999", "n": 1, "x": ""}])
    assert pond.drain() and pond.sql("SELECT n FROM minutely").rows() == [(0,)]
    pond.ingest("s", [{"ts": "2026-03-01 08:05:05", "n": 1, "x": ""}])
    assert pond.drain() and pond.sql("SELECT n FROM minutely").rows() == [(0,), (3,)]


def test_a_stream_that_is_shut_says_so_whenever_it_is_drained(inline_pond: Any, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("ts,v\n2026-01-01,1\n")
    pond = inline_pond()
    pond.sql(f"CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (path='{tmp_path}/*.csv', event_time='ts', late='drop')")
    assert "shut" not in str(pond.drain())
    for final in (True, False):
        assert "s: shut for good by DRAIN FINAL, late='drop'" in str(pond.drain(final=final))


def test_before_anything_was_announced_the_first_mark_is_waited_for(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(STREAM.replace("'ts')", "'ts', marks='record:x = ''end''')") + f"; {DAY}")
    pond.ingest("s", rows(1))
    assert [q.waits_for for q in pond.drain().queries] == ["s (the first mark)"]


def test_dead_letters_are_told_by_cause_and_once(inline_pond: Any, tmp_path: Path) -> None:
    pond = inline_pond()
    (tmp_path / "in").mkdir()
    pond.sql(
        f"CREATE STREAM f (ts TIMESTAMP, n INTEGER) WITH (event_time='ts', path='{tmp_path}/in'); {STREAM};"
        "CREATE QUERY q AS SELECT sum(CAST(x AS INTEGER)) AS n FROM s [RANGE TUMBLING 1 MINUTE]"
    )
    assert pond.drain().problems == [f"f: there is no file at {tmp_path}/in yet"]
    bad = "".join(f"2026-03-01,{n}x\n" for n in range(40))
    (tmp_path / "in" / "a.csv").write_text(f"ts,n\nnever,1\n{bad}2026-03-01,7\n2026-03-01,7,8\n")
    (tmp_path / "in" / "notes.txt").write_text("hello")
    pond.ingest("s", [*rows(1, x="seven"), *rows(2, x="it's"), *rows(3)])
    found = pond.drain()
    told = {s.stream: s for s in found.streams}
    assert [(c.cause, c.rows, c.source, c.position) for c in told["f"].causes] == [
        ("column 'n': a value does not fit INTEGER", 40, "a.csv", 1),
        ("3 fields where 2 are expected", 1, "a.csv", 42),
        ("column 'ts': a value does not fit TIMESTAMP", 1, "a.csv", 0),
    ]
    assert (told["f"].rows, told["f"].files, told["f"].dead, told["f"].skipped) == (1, 1, 42, 1)
    assert [(c.cause, c.rows, c.source) for c in told["s"].causes] == [
        ("Conversion Error: Could not convert string … to INT32 when casting from source column x", 2, "query q")
    ]
    assert found.problems[1] == "f: 1 file left out: their names tell no format"
    assert pond.drain().problems == []
    (tmp_path / "in" / "a.csv").write_text("ts,n\n2026-03-01,8\n2026-03-01,9\n")
    assert pond.drain().problems == [f"f: changed after they were taken, and not taken again: {tmp_path}/in/a.csv"]


def test_late_rows_and_queries_in_quarantine(inline_pond: Any) -> None:
    pond = inline_pond()
    late = STREAM.replace("'ts')", "'ts', late='drop')")
    pond.sql(f"{late}; CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 MINUTE]")
    pond.ingest("s", rows(10))
    pond.drain()
    pond.ingest("s", rows(5, 6, 11))
    found = pond.drain()
    assert (found.rows, found.streams[0].late, found.streams[0].total_rows) == (3, 2, 4)
    number = pond.query("q").id
    pond._core.catalogs.log.record({"do": "set_status", "id": number, "status": "quarantined", "reason": "it broke"})
    assert pond.drain().problems == ["q: quarantined: it broke"]
    assert pond.drain().problems == []  # said once


def test_a_teller_takes_no_news_from_drains(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(STREAM)
    tell = pond.teller()
    pond.ingest("s", [{"ts": None, "n": 1}, *rows(1)])
    assert pond.drain().streams[0].dead == tell(False).streams[0].dead == 1
    assert tell(False).streams[0].dead == 0


def test_create_says_what_is_there(inline_pond: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,n\n")
    (tmp_path / "b.txt").write_text("")
    pond = inline_pond()
    said = pond.sql(f"CREATE STREAM f (ts TIMESTAMP, n INTEGER) WITH (path='{tmp_path}/*')").message
    assert said == "stream f created: 1 file is there, 1 more whose names tell no format"
    said = pond.sql(f"CREATE TABLE t (n INTEGER) WITH (path='{tmp_path}/a.csv')").message
    assert said == "table t created: 1 file is there"


@given(st.text(), st.integers(0, 10**6))
def test_a_cause_is_the_same_whatever_the_value(value: str, line: int) -> None:
    import pyarrow as pa

    one_line = " ".join(value.split())
    found = causes(pa.chunked_array([[f"column 'n': '{one_line}' does not fit INTEGER", f"line {line}: not JSON"]]))
    assert found.to_pylist() == ["column 'n': a value does not fit INTEGER", "not JSON"]


def test_what_is_too_late_is_said() -> None:
    assert list(QueryReport("q", too_late=2).problems()) == [
        "q: 2 rows too late for any of its answers, which leave them out"
    ]


def test_a_report_survives_json() -> None:
    report = DrainReport(
        False, (StreamReport("s", 2, 3, changed=("a", "b")),), (QueryReport("q", waits_for="s to reach 1"),)
    )
    assert from_json(DrainReport, json.loads(json.dumps(report.to_dict()))) == report


def test_bytes_and_rates_are_those_of_the_stream(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(f"{STREAM}; {STREAM.replace('STREAM s', 'STREAM other')}; {STREAM.replace('STREAM s', 'STREAM none')}")
    pond.ingest("s", [row for _ in range(300) for row in rows(1, 2, 3)])
    pond.ingest("other", rows(1))
    pond.drain()
    streams = pond.status()["streams"]
    folder = Path(pond._core.streams[pond._core.catalog.stream("s").id].archive.folder)
    assert streams["s"]["bytes"] == sum(f.stat().st_size for f in folder.rglob("*.parquet"))
    assert streams["s"]["bytes_in"] > streams["s"]["bytes"]  # rows compress
    (epoch,) = [e for e in pond.status()["last_epochs"] if e["rows"]]  # both were taken by one
    rates = {name: round(n / epoch["seconds"], 1) for name, n in (("s", 900), ("other", 1), ("none", 0))}
    assert {name: of["rate"] for name, of in streams.items()} == rates
