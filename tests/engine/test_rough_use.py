"""Rough use: what broke the engine once and must not again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millpond import QueryError, StatementError


def test_a_file_without_any_column_of_the_stream_is_a_dead_letter(inline_pond: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pond = inline_pond()
    for name, more in (("s", ""), ("n", ", missing='null'")):
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, v INTEGER) WITH (path='{tmp_path}/in', event_time='ts'{more})")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "in" / "a.parquet")
    pond.drain(final=True)
    streams = pond.status()["streams"]
    assert (streams["s"]["dead"], streams["n"]["dead"]) == (1, 2)  # the file; its rows, which have no event time


@pytest.mark.parametrize(("unit", "far"), [("s", 10**13), ("ms", 10**16)])
def test_instants_beyond_microseconds_are_dead_letters(inline_pond: Any, tmp_path: Path, unit: str, far: int) -> None:
    (tmp_path / "in").mkdir()
    rows = pa.table({"ts": pa.array([0, far, None], pa.timestamp(unit)), "v": [1, 2, 3]})
    pq.write_table(rows, tmp_path / "in" / "a.parquet", version="2.6")
    pond = inline_pond()
    pond.sql(f"CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (path='{tmp_path}/in', event_time='ts')")
    pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 SECOND]; DRAIN FINAL")
    assert pond.sql("SELECT n FROM q").rows() == [(1,)]
    assert pond.status()["streams"]["s"]["dead"] == 2


def test_wide_sums_are_exact_or_fail_alone(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql("""
        CREATE STREAM s (ts TIMESTAMP, v HUGEINT, d DECIMAL(38,0)) WITH (event_time='ts');
        CREATE QUERY counts AS SELECT count(v) AS n FROM s [RANGE TUMBLING 1 SECOND];
        CREATE QUERY sums AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 1 SECOND];
    """)
    large = 9 * 10**37
    pond.ingest("s", [{"ts": "2026-01-01", "v": v, "d": v} for v in (large, -large, 5, large, -large, 7)])
    pond.drain(final=True)
    assert pond.sql("SELECT n FROM counts").rows() == [(6,)]
    assert pond.sql("SELECT v FROM sums").rows() == [(12,)]


@pytest.mark.parametrize("later", [False, True])
def test_empty_windows_end_with_the_data(inline_pond: Any, later: bool) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP) WITH (event_time='ts')")
    query = "AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 MINUTE]"
    if not later:
        pond.sql(f"CREATE QUERY q WITH (empty='report') {query}")
    for minute in (0, 3, 1, 5):
        pond.ingest("s", [{"ts": f"2026-01-01 00:0{minute}:00"}])
        pond.drain()
    pond.drain(final=True)
    if later:
        pond.sql(f"CREATE QUERY q WITH (empty='report', since='start') {query}")
        pond.drain()
    assert [n for (n,) in pond.sql("SELECT n FROM q ORDER BY window_end").rows()] == [1, 1, 0, 1, 0, 1]


def test_invoke_knows_its_window_and_leaves_literals_alone(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql("""
        CREATE STREAM s (ts TIMESTAMP) WITH (event_time='ts');
        CREATE QUERY q AS SELECT epoch_us(window_end) AS e, 'window_end' AS word, count(*) AS n
          FROM s [RANGE TUMBLING 1 MINUTE] HAVING window_start IS NOT NULL;
    """)
    pond.ingest("s", [{"ts": "1970-01-01 00:00:30"}])
    pond.drain()
    _, _, end, word, n, final = pond.sql("INVOKE q").rows()[0]
    assert (end, word, n, final) == (30_000_000, "window_end", 1, False)


def test_threads_may_drain_at_once(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP) WITH (event_time='ts')")
    pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 SECOND]")
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                pond.ingest("s", [{"ts": f"2026-01-01 00:00:{10 * number + turn:02d}"}])
                pond.drain()
        except BaseException as fault:  # reported by the main thread
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    pond.drain(final=True)
    assert pond.sql("SELECT count(*), sum(n) FROM q").rows() == [(20, 20)]


def test_an_expression_that_fails_in_an_ad_hoc_query_is_an_error(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, t TEXT) WITH (event_time='ts')")
    pond.ingest("s", [{"ts": "2026-01-01", "t": "1"}, {"ts": "2026-01-01", "t": "x"}])
    pond.drain()
    for query in ("SELECT CAST(t AS INTEGER) FROM s", "SELECT sum(CAST(t AS INTEGER)) FROM s"):
        with pytest.raises(QueryError, match="Could not convert"):
            pond.sql(query)


@pytest.mark.parametrize("name", ["_id", "_epoch", "_bound", "__old"])
def test_names_of_the_engine_are_refused(inline_pond: Any, name: str) -> None:
    with pytest.raises(StatementError, match=name):
        inline_pond().sql(f"CREATE STREAM s (ts TIMESTAMP, {name} INTEGER)")
