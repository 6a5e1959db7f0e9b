"""Streaming DataFrames as sources: each row once, whatever Spark repeats, and what does not fit is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millpond.support.errors import SourceError
from tests.pages import run_page

pytestmark = pytest.mark.spark

NOW = {"availableNow": True}
SCHEMA = "ts TIMESTAMP_NTZ, n BIGINT, d DECIMAL(5, 2), k STRUCT<a: STRING, b: ARRAY<INT>>"


def _drop(folder: Path, name: str, *rows: tuple[str | None, int]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"ts": ts, "n": n, "d": n / 2, "k": {"a": "x", "b": [n]}}) for ts, n in rows]
    (folder / name).write_text("\n".join(lines))


def _frame(spark: Any, folder: Path, files: int = 1) -> Any:
    reader = spark.readStream.format("json").schema(SCHEMA).option("maxFilesPerTrigger", files)
    return reader.load(str(folder))


def _numbers(pond: Any) -> list[int]:
    pond.drain()
    return sorted(pond.sql("SELECT n FROM s").to_arrow()["n"].to_pylist())


def test_each_row_once_over_restarts_and_repetitions(
    tmp_path: Path, inline_pond: Callable[..., Any], spark_session: Any
) -> None:
    folder = tmp_path / "in"
    _drop(folder, "1.json", ("2026-01-01 00:00:01", 1), ("2026-01-01 00:00:02", 2))
    _drop(folder, "2.json", (None, 3), ("2026-01-01 00:01:05", 4))
    pond = inline_pond()
    query = pond.stream_from(_frame(spark_session, folder), "s", trigger=NOW, event_time="ts", lateness="5s")
    query.awaitTermination()
    assert query.exception() is None
    types = [c["type"] for c in pond.describe("s")["columns"]]
    assert types == ["TIMESTAMP", "BIGINT", "DECIMAL(5,2)", "STRUCT(a VARCHAR, b INTEGER[])"]
    assert _numbers(pond) == [1, 2, 4]
    assert pond.sql("SELECT reason FROM dead(s)").to_arrow().num_rows == 1  # no event time
    pond.sql("CREATE QUERY q WITH (since = 'start') AS SELECT sum(n) AS n FROM s [RANGE TUMBLING 1 MINUTE]")
    pond.close()

    # Spark forgets that it had done the last batch: it repeats it.
    feeds = next((tmp_path / "pond" / "intake").glob("s-*")) / "feeds" / "main"
    shutil.rmtree(feeds / "commits")
    _drop(folder, "3.json", ("2026-01-01 00:02:10", 5))
    pond = inline_pond()
    pond.stream_from(_frame(spark_session, folder), "s", trigger=NOW).awaitTermination()
    assert _numbers(pond) == [1, 2, 4, 5]
    pond.drain(final=True)
    assert pond.sql("SELECT n FROM q").to_arrow()["n"].to_pylist() == [3, 4, 5]
    with pytest.raises(SourceError, match=r"has ended \(DRAIN FINAL\)"):
        pond.stream_from(_frame(spark_session, folder), "s")


def test_a_batch_in_many_files_is_taken_whole(
    tmp_path: Path, inline_pond: Callable[..., Any], spark_session: Any
) -> None:
    folder = tmp_path / "in"
    for n in range(4):
        _drop(folder, f"{n}.json", (f"2026-01-01 00:00:0{n}", n))
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, n BIGINT, d DECIMAL(5, 2), k JSON) WITH (event_time = 'ts')")
    frame = _frame(spark_session, folder, 4).drop("k").repartition(3)
    pond.stream_from(frame, "s", trigger=NOW, partition="p").awaitTermination()
    items = pond._core.streams[pond._core.catalog.stream("s").id].log.items()
    assert sum(i.rows for i in items) == 4 and {i.partition for i in items} == {"p"}
    assert [i.more for i in items] == [True] * (len(items) - 1) + [False]
    assert _numbers(pond) == [0, 1, 2, 3]


def test_what_does_not_fit(tmp_path: Path, inline_pond: Callable[..., Any], spark_session: Any) -> None:
    folder = tmp_path / "in"
    _drop(folder, "1.json", ("2026-01-01 00:00:01", 1))
    frame = _frame(spark_session, folder)
    pond = inline_pond()
    with pytest.raises(SourceError, match=r"pond\.ingest\(stream, frame\.toArrow\(\)\)"):
        pond.stream_from(spark_session.range(3), "s")
    with pytest.raises(SourceError, match="map<string,int>, which no column of a stream can be"):
        pond.stream_from(frame.selectExpr("ts", "map('a', 1) AS m"), "s", event_time="ts")
    for trigger in ({"available": True}, {"processingTime": 5}, {"processingTime": "soon"}):
        with pytest.raises(SourceError, match=r"is none of Spark's: .*; \{'availableNow': True\}"):
            pond.stream_from(frame, "s", trigger=trigger, event_time="ts")
    assert pond.status()["streams"] == {}
    pond.sql("CREATE STREAM s (ts TIMESTAMP, number BIGINT) WITH (event_time = 'ts')")
    with pytest.raises(SourceError, match=r"has no column 'numbr': did you mean 'number'\?"):
        pond.stream_from(frame.selectExpr("ts", "n AS numbr"), "s")
    with pytest.raises(SourceError, match="lateness cannot be set here"):
        pond.stream_from(frame.select("ts"), "s", lateness="5s")
    with pytest.raises(SourceError, match="a feed's name is letters"):
        pond.stream_from(frame.select("ts"), "s", name="../x")

    # A value that fits no BIGINT is a dead letter; a stream that is dropped ends its feed, and status says why.
    query = pond.stream_from(frame.selectExpr("ts", "'one' AS number"), "s", name="text")
    with pytest.raises(SourceError, match="runs already"):
        pond.stream_from(frame.select("ts"), "s", name="text")
    query.processAllAvailable()
    pond.drain()
    letters = pond.sql("SELECT reason FROM dead(s)").to_arrow()
    assert "BIGINT" in letters["reason"][0].as_py()
    assert pond.status()["streams"]["s"]["feeds"] == [{"name": "text", "active": True, "error": None}]
    pond.close()
    assert not query.isActive


def test_the_page_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_session: Any) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("docs/spark-streams.md", tmp_path)
