"""The engine on Spark gives what it gives in one process: few tests, each of much."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millpond.engine.spark.executor import SparkExecutor, starting
from millpond.tables.executors import Parcel
from tests.engine.scenario import QUERIES, comparable, drop_file, rows, run

Factory = Callable[..., Any]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_main_scenario(spark_pond: Factory, inline_pond: Factory, tmp_path: Path) -> None:
    """Files and ingest, all kinds of windows, revisions, back-fill, pause and resume, drop, ad hoc, INVOKE."""
    expected = comparable(run(inline_pond("inline"), tmp_path / "a"))
    found = comparable(run(spark_pond("spark"), tmp_path / "b"))
    assert all(expected.values()), "no part of the scenario is empty"
    for name, table in expected.items():
        assert found[name] == table, name


def test_a_subscription_that_comes_and_goes(spark_pond: Factory, tmp_path: Path) -> None:
    """Resumed by cursor, also behind a restart: every answer once, in order, while epochs run by themselves."""
    folder = tmp_path / "src"
    folder.mkdir()
    pond = spark_pond()
    pond.sql(
        f"CREATE STREAM f (ts TIMESTAMP, k TEXT, v DOUBLE, i BIGINT) WITH (path='{folder}/*.parquet', lateness='5s')"
    )
    pond.sql(f"CREATE QUERY q AS {QUERIES['alert']}")
    seen: list[Any] = []
    cursor = None
    for number in range(4):
        drop_file(folder, number, late=number == 3)
        deadline = time.monotonic() + 300
        taken = len(seen)
        while len(seen) == taken and time.monotonic() < deadline:
            for batch in pond.subscribe("q", cursor, timeout=0.5):
                seen += batch.rows.to_pylist()
                cursor = str(batch.cursor)
                break  # a consumer that dies after each batch
        if number == 1:
            pond.close()
            pond = spark_pond()
    pond.drain(final=True)
    for batch in pond.subscribe("q", cursor, timeout=0.5):
        seen += batch.rows.to_pylist()
    log = pond.sql("SELECT * FROM q ALL REVISIONS").to_arrow().to_pylist()
    assert seen == log and len(log) > 8
    assert max(r["revision"] for r in log) >= 1


def test_answers_come_without_drain_and_upkeep_runs_beside(spark_pond: Factory) -> None:
    """Many small ingests from another thread's point of view: visible soon, few files in the end, nothing lost."""
    pond = spark_pond(target=0.5)
    pond.sql("CREATE STREAM g (ts TIMESTAMP, k TEXT, v DOUBLE, i BIGINT) WITH (event_time='ts')")
    pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM g [RANGE TUMBLING 10 SECONDS]")
    for number in range(40):
        pond.ingest("g", rows(10 * number, 200, number, disorder=0))
        if number % 10 == 9:
            pond.maintain()
            assert pond.sql("SELECT count(*) FROM g").rows()[0][0] <= 200 * (number + 1)
    deadline = time.monotonic() + 300
    while pond.sql("SELECT count(*) FROM q").rows()[0][0] < 39 and time.monotonic() < deadline:
        time.sleep(0.05)
    pond.drain(final=True)
    assert pond.sql("SELECT sum(n), count(*) FROM q").rows() == [(8000, 40)]
    assert pond.sql("SELECT count(*), count(DISTINCT ts) FROM g").rows() == [(8000, 8000)]


def _parcels(task: int) -> Iterator[Parcel]:
    """Large and small parcels for each of three shards, and who made them."""
    yield Parcel(task % 3, "mine", task, pa.py_buffer(bytes([task]) * 200_000))
    yield Parcel(1, "", task, json.dumps([os.getpid(), gc.get_freeze_count(), len(gc.get_objects())]).encode())


def _merged(shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], bytes]:
    sent = sorted((p.owner, p.task, bytes(p.payload)) for p in parcels)
    return {"shard": shard, "sent": [[o, t, len(d)] for o, t, d in sent]}, b"\n".join(d for o, _, d in sent if not o)


def test_the_exchange_and_workers_that_stay(spark_pond: Factory) -> None:
    """Every parcel comes to its shard; workers stay for the next job, with little to collect."""
    spark_pond().ready()
    executor = SparkExecutor(starting(None))
    assert executor.run(_parcels, 1, _merged, 3)[2][0] == {"shard": 2, "sent": []}
    seen: list[set[int]] = []
    for _ in range(3):
        outcomes = executor.run(_parcels, 4, _merged, 3)
        assert [report["sent"] for report, _ in outcomes] == [
            [["mine", 0, 200_000], ["mine", 3, 200_000]],
            [["", t, len(d)] for t, d in enumerate(outcomes[1][1].split(b"\n"))] + [["mine", 1, 200_000]],
            [["mine", 2, 200_000]],
        ]
        workers = [json.loads(line) for line in outcomes[1][1].split(b"\n")]
        seen.append({pid for pid, _, _ in workers})
    assert seen[1] & seen[2]
    assert all(frozen > left for _, frozen, left in workers)
