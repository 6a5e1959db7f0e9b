"""Worked examples of row queries: E1, E2, E3 and E5 of PSoup, retention, arrival time, ended and dropped streams."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from millpond.answers.row_queries.ready import ready_of
from millpond.answers.row_queries.selection import evaluate
from millpond.support.errors import QueryError
from millpond.testing import VirtualClock

Factory = Callable[..., Any]
BASE = dt.datetime(2026, 1, 1)


def at(seconds: float) -> dt.datetime:
    return BASE + dt.timedelta(seconds=seconds)


def feed(pond: Any, rows: list[dict[str, Any]], stream: str = "r") -> None:
    pond.ingest(stream, rows)
    pond.step()


def ticks(pond: Any, *times: float) -> None:
    feed(pond, [{"ts": at(t), "n": int(t)} for t in times])


def numbers(answer: Any, column: str = "n") -> list[Any]:
    return list(answer.table[column].to_pylist())


@pytest.fixture
def pond(inline_pond: Factory) -> Any:
    made = inline_pond()
    made.sql("CREATE STREAM r (ts TIMESTAMP, n INTEGER) WITH (event_time='ts', lateness='5 seconds')")
    return made


def test_e1_old_data_meets_the_query_and_new_data_too(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM r (ts TIMESTAMP, id INTEGER, a INTEGER, b INTEGER) WITH (event_time='ts')")
    stored = [(48, 3, 10), (49, 6, 9), (50, 4, 7), (51, 0, 2), (52, 2, 1)]
    feed(pond, [{"ts": at(i), "id": i, "a": a, "b": b} for i, a, b in stored])
    handle = pond.register("SELECT id FROM r WHERE a > 0 AND a < 5 AND b > 4")
    assert numbers(handle.result(), "id") == [48, 50]
    feed(pond, [{"ts": at(53), "id": 53, "a": 1, "b": 8}])
    assert numbers(handle.result(), "id") == [48, 50, 53]


@pytest.mark.parametrize("hot_bytes", [0, 1 << 26])
def test_e2_joins(inline_pond: Factory, hot_bytes: int) -> None:
    pond = inline_pond(hot_bytes=hot_bytes)
    for stream, column in (("r", "a"), ("s", "b")):
        pond.sql(f"CREATE STREAM {stream} (ts TIMESTAMP, id TEXT, {column} INTEGER) WITH (event_time='ts')")
    handle = pond.register("SELECT r.id AS x, s.id AS y FROM r, s WHERE r.a < 5 AND r.a > s.b AND s.b > 1")
    count = pond.register("SELECT count(*) AS n FROM r, s WHERE r.a < 5 AND r.a > s.b AND s.b > 1")
    feed(pond, [{"ts": at(t), "id": f"r{t}", "a": a} for t, a in ((1, 4), (2, 7), (3, 2))])
    feed(pond, [{"ts": at(t), "id": f"s{t}", "b": b} for t, b in ((1, 3), (2, 1), (3, 2))], "s")
    first = [{"x": "r1", "y": "s1"}, {"x": "r1", "y": "s3"}]
    assert handle.result().to_pylist() == first and count.result().to_pylist() == [{"n": 2}]
    feed(pond, [{"ts": at(4), "id": "r4", "a": 3}])
    # NOW is the smaller of both streams' high watermarks: r4 lies behind it until s is there too.
    assert handle.result().to_pylist() == first
    feed(pond, [{"ts": at(5), "id": "s5", "b": 9}], "s")
    assert handle.result().to_pylist() == [*first, {"x": "r4", "y": "s3"}]
    assert handle.result(as_of=("epoch", 2)).to_pylist() == first
    assert handle.result(begin=at(2)).to_pylist() == [{"x": "r4", "y": "s3"}]
    both = pond.register("SELECT p.id AS x, q.id AS y FROM r AS p, r AS q WHERE p.a > q.a AND p.a < 5 AND q.a < 4")
    assert both.result().to_pylist() == [{"x": "r1", "y": "r3"}, {"x": "r1", "y": "r4"}, {"x": "r4", "y": "r3"}]


def test_e3_window_kinds(pond: Any) -> None:
    begin, end = f"TIMESTAMP '{at(2)}'", f"TIMESTAMP '{at(4)}'"
    snapshot = pond.register(f"SELECT n FROM r BEGIN {begin} END {end}")
    landmark = pond.register(f"SELECT n FROM r BEGIN TIMESTAMP '{at(5)}' END NOW")
    sliding = pond.register("SELECT n FROM r BEGIN NOW - INTERVAL 3 SECONDS END NOW")
    rows = pond.register("SELECT n FROM r BEGIN NOW - 4 ROWS END NOW")
    ticks(pond, *range(10))
    assert numbers(snapshot.result()) == [2, 3, 4]
    assert numbers(landmark.result()) == [5, 6, 7, 8, 9]
    assert numbers(sliding.result()) == numbers(rows.result()) == [6, 7, 8, 9]
    ticks(pond, 10)
    assert numbers(snapshot.result()) == [2, 3, 4]
    assert numbers(landmark.result()) == [5, 6, 7, 8, 9, 10]
    assert numbers(sliding.result()) == numbers(rows.result()) == [7, 8, 9, 10]
    assert numbers(sliding.result(as_of=at(5))) == [2, 3, 4, 5]
    assert numbers(sliding.result(as_of=("epoch", 1))) == [6, 7, 8, 9]
    assert numbers(sliding.result(begin=at(1), end=at(2))) == [1, 2]
    assert numbers(sliding.result(begin="NOW - 2 ROWS")) == [9, 10]
    assert numbers(sliding.result(as_of="watermark")) == [2, 3, 4]


def test_what_an_answer_says_of_its_prefix(pond: Any) -> None:
    handle = pond.register("SELECT n FROM r BEGIN NOW - INTERVAL 2 SECONDS END NOW - INTERVAL 1 SECOND")
    empty = handle.result()
    assert len(empty) == 0 and empty.table.schema.names == ["n"] and empty.epoch == 0 and empty.begin is None
    ticks(pond, *range(11))
    answer = handle.result()
    base = int(BASE.replace(tzinfo=dt.UTC).timestamp()) * 1_000_000
    assert (answer.now - base, answer.begin - base, answer.end - base) == (10_000_000, 8_000_000, 9_000_000)
    assert answer.watermark - base == 5_000_000 and not answer.final and answer.exact
    assert handle.result(as_of=at(5)).final
    assert pa.table(answer).equals(answer.table) and answer.to_pylist() == [{"n": 8}, {"n": 9}]


def test_late_rows_below_the_horizon_are_seen_once(inline_pond: Factory) -> None:
    pond = inline_pond(hot_bytes=30_000)
    pond.sql("CREATE STREAM r (ts TIMESTAMP, n INTEGER) WITH (event_time='ts', lateness='5 seconds')")
    handle = pond.register("SELECT n FROM r WHERE n % 2 = 0")
    everything: list[int] = []
    for start in range(0, 3000, 300):
        ticks(pond, *range(start, start + 300))
        everything += range(start, start + 300)
        handle.result()
    ready = ready_of(pond._core.view)
    view = next(iter(ready.hot.snapshot().views.values()))
    assert view.horizon > view.blocks[0].low - 1 and ready.hot.nbytes <= 15_000
    late = [{"ts": at(t + 0.5), "n": t} for t in (2, 1000, 2000)]
    feed(pond, late)
    expected = sorted([n for n in everything if n % 2 == 0] + [2, 1000, 2000])
    assert sorted(numbers(handle.result())) == expected
    assert numbers(handle.result(begin=at(1000), end=at(1001))) == [1000, 1000]


def test_tiny_epochs_make_few_blocks(pond: Any) -> None:
    handle = pond.register("SELECT n FROM r")
    for n in range(25):
        ticks(pond, n)
        handle.result()
    view = next(iter(ready_of(pond._core.view).hot.snapshot().views.values()))
    assert sum(len(b) for b in view.blocks) == 25 and len(view.blocks) <= 6
    assert numbers(handle.result()) == list(range(25))


def test_beyond_retention_nothing_is_seen_whether_files_are_there_or_not(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM r (ts TIMESTAMP, n INTEGER) WITH (event_time='ts', retention='10 seconds')")
    handle = pond.register("SELECT n FROM r")
    ticks(pond, *range(5))
    ticks(pond, *range(5, 16))
    before = numbers(handle.result())
    assert before == list(range(5, 16))
    pond.maintain()
    assert numbers(handle.result()) == before
    ticks(pond, 100)
    pond.maintain()
    assert numbers(handle.result()) == [100]


def test_arrival_time_and_ended_streams(inline_pond: Factory) -> None:
    clock = VirtualClock()
    pond = inline_pond(clock=clock)
    pond.sql("CREATE STREAM r (n INTEGER) WITH (event_time='arrival')")
    handle = pond.register("SELECT n FROM r BEGIN NOW - INTERVAL 3 SECONDS END NOW")
    for n in range(6):
        feed(pond, [{"n": n}])
        clock.advance(1_000_000)
    assert numbers(handle.result()) == [2, 3, 4, 5]
    pond.drain(final=True)
    answer = handle.result(as_of="watermark")
    assert numbers(answer) == [2, 3, 4, 5] and answer.final


def test_order_limit_distinct_and_failing_expressions(pond: Any) -> None:
    ticks(pond, 3, 1, 2, 2, 5)
    assert numbers(pond.register("SELECT n FROM r LIMIT 2 OFFSET 1").result()) == [2, 2]
    assert numbers(pond.register("SELECT n FROM r ORDER BY n DESC LIMIT 2").result()) == [5, 3]
    assert numbers(pond.register("SELECT DISTINCT n FROM r WHERE n < 5").result()) == [1, 2, 3]
    assert pond.register("SELECT 1 AS one FROM r WHERE n > 2").result().to_pylist() == [{"one": 1}] * 2
    assert pond.sql("SELECT n FROM r WHERE n > 1 BEGIN NOW - 3 ROWS END NOW").rows() == [(2,), (3,), (5,)]
    assert pond.register("SELECT CAST('x' || n AS INTEGER) AS c FROM r").result().to_pylist() == []
    with pytest.raises(QueryError, match="cannot be answered"):
        pond.sql("SELECT CAST('x' || n AS INTEGER) AS c FROM r BEGIN NOW - 3 ROWS END NOW")
    with pytest.raises(QueryError, match="at most 2"):
        evaluate(pond._core.view, pond._core.register.get(pond.register("SELECT n FROM r").id), most=2)


def test_an_answer_outlives_restart_and_compaction(inline_pond: Factory) -> None:
    pond = inline_pond(eager_rows=1)
    pond.sql("CREATE STREAM r (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    handle = pond.register("SELECT n FROM r WHERE n > 3", name="q")
    for n in range(0, 40, 4):
        ticks(pond, *range(n, n + 4))
    first = numbers(handle.result())
    pond.close()
    pond = inline_pond(eager_rows=1)
    assert numbers(pond.query("q").result()) == first == list(range(4, 40))
    pond.maintain()
    pond.close()
    pond = inline_pond()
    assert numbers(pond.query("q").result()) == first


def test_handles(pond: Any) -> None:
    handle = pond.register("SELECT n FROM r WHERE n > 1", name="q", owner="me")
    windows = pond.register("SELECT count(*) AS c FROM r [RANGE TUMBLING 10 SECONDS]", name="w")
    ticks(pond, 1, 2, 3, 12)
    assert handle.info()["name"] == "q" and handle.info()["kind"] == "rows" and windows.info()["kind"] == "windows"
    assert windows.result().to_pylist()[0]["c"] == 3 and windows.result().now > 0
    handle.pause()
    assert handle.info()["status"] == "paused" and numbers(handle.result()) == [2, 3, 12]
    assert list(handle.subscribe(timeout=0)) == []
    handle.resume()
    assert [b.rows["n"].to_pylist() for b in handle.subscribe(timeout=0)] == [[2, 3, 12]]
    with pytest.raises(QueryError, match="row queries"):
        windows.result(begin=at(0))
    with pytest.raises(QueryError, match="not kept"):
        handle.result(as_of=("epoch", 99))
    with pytest.raises(QueryError, match="invoke it"):
        pond.register("SELECT count(*) AS c FROM r").subscribe(timeout=0)
    with pytest.raises(QueryError, match="pass an instant"):
        handle.result(begin="NOW - 3 SECONDS; DROP QUERY q")
    windows.pause()
    assert windows.info()["status"] == "paused"
    windows.drop()
    handle.drop()
    for gone in (windows, handle):
        with pytest.raises(QueryError):
            gone.result()


def test_a_dropped_stream_takes_its_queries_along(pond: Any) -> None:
    handle = pond.register("SELECT n FROM r")
    ticks(pond, 1)
    assert len(handle.result()) == 1
    pond.sql("DROP STREAM r CASCADE")
    with pytest.raises(QueryError):
        handle.result()
    pond.sql("CREATE STREAM r (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    assert len(pond.register("SELECT n FROM r").result()) == 0
