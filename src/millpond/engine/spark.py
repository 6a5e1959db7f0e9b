"""Spark as the executor, and the session it runs in."""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from millpond.engine.executors import MapTask, MergeTask
from millpond.engine.mapping import Parcel
from millpond.tables.chunks import Payload, binary

_PARCELS = "shard int, owner string, task int, payload binary"
_REPORTS = "shard int, report string, payload binary"

FAIR_POOLS = """<?xml version="1.0"?>
<allocations>
  <pool name="epochs"><schedulingMode>FIFO</schedulingMode><weight>1000</weight><minShare>1</minShare></pool>
  <pool name="background"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""


def session(master: str | None, folder: str, cores: int | None = None) -> SparkSession:
    """The Spark session that ponds of this process run in; made when there is none.

    Arguments:
        master: Spark master URL; None: `local[cores]`.
        folder: where the pool file lies.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    pools = os.path.join(folder, "pools.xml")
    with open(pools, "w", encoding="utf-8") as file:
        file.write(FAIR_POOLS)
    cores = cores or os.cpu_count() or 2
    spark = (
        SparkSession.builder.master(master or f"local[{cores}]")
        .appName("millpond")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.daemon.module", "millpond.spark_daemon")
        .config("spark.scheduler.mode", "FAIR")
        .config("spark.scheduler.allocation.file", f"file://{pools}")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1024")
        .config("spark.sql.streaming.numRecentProgressUpdates", "4")
        .config("spark.sql.streaming.minBatchesToRetain", "8")
        .config("spark.sql.streaming.pollingDelay", "10ms")
        .config("spark.driver.maxResultSize", "4g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    # Before the JVM is torn down: Python workers that lose it in mid-sentence complain on standard error.
    atexit.register(spark.stop)
    return spark


class SparkExecutor:
    """Runs map tasks, the exchange and merge tasks as one Spark job."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.cores = spark.sparkContext.defaultParallelism

    def run(
        self, map_task: MapTask, tasks: int, merge_task: MergeTask, shards: int, background: bool = False
    ) -> list[tuple[dict[str, Any], Payload]]:
        """See `Executor.run`. A background job occupies at most all cores but one."""
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "background" if background else "epochs")
        if tasks <= 1:
            # Nothing to exchange: one task maps and merges, which spares a small epoch a stage and its workers' hops.
            reports = self.spark.range(0, 1, 1, 1).mapInArrow(_fused(map_task, tasks, merge_task, shards), _REPORTS)
        else:
            width = max(1, min(tasks, self.cores - 1 if background else self.cores))
            parcels = self.spark.range(0, tasks, 1, width).mapInArrow(_mapper(map_task), _PARCELS)
            reports = parcels.repartitionById(shards, "shard").mapInArrow(_merger(merge_task), _REPORTS)
        table = reports.toArrow()
        shard, report, payload = table.columns
        found = {
            shard[at].as_py(): (json.loads(report[at].as_py()), payload[at].as_buffer() or b"")
            for at in range(table.num_rows)
        }
        # A shard to which nothing was sent has no rows and so no task of its own.
        return [found[s] if s in found else merge_task(s, []) for s in range(shards)]


def _fused(map_task: MapTask, tasks: int, merge_task: MergeTask, shards: int) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            parcels = [parcel for task in range(tasks) for parcel in map_task(task)]
            for shard in range(shards):
                yield _report(shard, *merge_task(shard, [p for p in parcels if p.shard == shard]))

    return run


def _report(shard: int, report: dict[str, Any], payload: Payload) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "shard": pa.array([shard], pa.int32()),
            "report": pa.array([json.dumps(report)]),
            "payload": binary(payload),
        }
    )


def _mapper(map_task: MapTask) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for parcel in map_task(task):
                    yield pa.record_batch(
                        {
                            "shard": pa.array([parcel.shard], pa.int32()),
                            "owner": pa.array([parcel.owner]),
                            "task": pa.array([parcel.task], pa.int32()),
                            "payload": binary(parcel.payload),
                        }
                    )

    return run


def _merger(merge_task: MergeTask) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_shard: dict[int, list[Parcel]] = {}
        for batch in batches:
            shard, owner, task, payload = batch.columns
            for at in range(batch.num_rows):
                number = shard[at].as_py()
                by_shard.setdefault(number, []).append(
                    Parcel(number, owner[at].as_py(), task[at].as_py(), payload[at].as_buffer())
                )
        for number, parcels in sorted(by_shard.items()):
            yield _report(number, *merge_task(number, parcels))

    return run
