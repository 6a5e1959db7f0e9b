"""Spark as the executor, and the session it runs in."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millpond.engine.spark import jvm
from millpond.support.errors import PondError
from millpond.tables.chunks import Payload
from millpond.tables.executors import MapTask, MergeTask, Parcel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POOLS = Path(__file__).with_name("pools.xml")

#: Memory that Python workers have freed is not given back at once: the next epoch asks for as much again, and fetching
#: it anew from the system, page by page, was up to a third of the processor time of epochs with a million groups.
WORKER_MEMORY = {
    "MIMALLOC_PURGE_DELAY": "2000",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


class Starting:
    """The Spark session that ponds of this process run in, which starts in a thread of its own.

    Arguments:
        master: Spark master URL; None: this machine's cores.
        session: one that is there already.
    Raises: PondError when there is no Java that Spark runs on; what else goes wrong `session` raises.
    """

    def __init__(self, master: str | None, session: SparkSession | None = None) -> None:
        self.master = master
        self._session = session
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._java: jvm.Jvm | None = None
        if session is not None:
            self._ready.set()
            return
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if not jvm.has_own_way(master) and not _has_jvm():
            self._java = jvm.start(_settings(master))
        threading.Thread(target=self._start, name="millpond-spark", daemon=True).start()

    def ready(self, timeout: float | None = None) -> bool:
        """Wait until the session is there, or cannot be had; False after so many seconds."""
        return self._ready.wait(timeout)

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""
        if not self._ready.is_set() and self.master is None:
            return _cores()
        return int(self.session.sparkContext.defaultParallelism)

    @property
    def session(self) -> SparkSession:
        """The session, when it has started. Raises: what kept it from starting."""
        self._ready.wait()
        if self._session is None:
            assert self._failure is not None
            raise self._failure
        return self._session

    @property
    def usable(self) -> bool:
        """Whether it starts, or has started and was not stopped."""
        if not self._ready.is_set():
            return True
        return self._session is not None and self._session.sparkContext._jsc is not None

    def _start(self) -> None:
        try:
            if self._java is None:
                # A JVM of our own logs errors only, from the beginning.
                self._session = _make(_settings(self.master) | {"spark.log.level": "ERROR"})
            else:
                with jvm.gateway_of(self._java):
                    self._session = _make(_settings(self.master))
        except PondError as error:
            self._failure = error
        except Exception as error:
            self._failure = PondError(f"Spark did not start: {error}")
        finally:
            self._ready.set()


_lock = threading.Lock()
_current: Starting | None = None


def starting(master: str | None) -> Starting:
    """The session that ponds of this process run in; it is started when there is none."""
    global _current
    with _lock:
        active = _active()
        if active is not None:
            return Starting(master, active)
        if _current is None or not _current.usable:
            _current = Starting(master)
        return _current


def session(master: str | None) -> SparkSession:
    """The session as `starting` has it, when it has started."""
    return starting(master).session


def _active() -> SparkSession | None:
    """The session that somebody else has made in this process."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None and (_current is None or not _current.usable):
        return SparkSession.builder.getOrCreate()  # it was made in another thread
    return active


def _has_jvm() -> bool:
    """Whether PySpark has a JVM, although no session is left in it."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def _cores() -> int:
    return os.cpu_count() or 2


def _settings(master: str | None) -> dict[str, str]:
    """Spark's settings, by name."""
    return {
        "spark.master": master or f"local[{_cores()}]",
        "spark.app.name": "millpond",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(_cores()),
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": "millpond.engine.spark.daemon",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file://{_POOLS}",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",
        "spark.sql.streaming.numRecentProgressUpdates": "4",
        "spark.sql.streaming.minBatchesToRetain": "8",
        "spark.sql.streaming.pollingDelay": "10ms",
        "spark.driver.maxResultSize": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        **{f"spark.executorEnv.{name}": value for name, value in WORKER_MEMORY.items()},
    }


def _make(settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Before the JVM is torn down: Python workers that lose it in mid-sentence complain on standard error.
    atexit.register(spark.stop)
    return spark


class SparkExecutor:
    """Runs map tasks, the exchange and merge tasks as one Spark job; a job waits until Spark has started."""

    def __init__(self, start: Starting) -> None:
        self.start = start

    @property
    def spark(self) -> SparkSession:
        """The session; waits for it."""
        return self.start.session

    @property
    def cores(self) -> int:
        """See `Executor`."""
        return self.start.cores

    def run(
        self, map_task: MapTask, tasks: int, merge_task: MergeTask, shards: int, background: bool = False
    ) -> list[tuple[dict[str, Any], Payload]]:
        """See `Executor.run`. A background job occupies at most all cores but one."""
        context = self.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", "background" if background else "epochs")
        # RDDs and no data frames: there is nothing to plan, and planning took longer than many an epoch's tasks.
        if tasks <= 1:
            # Nothing to exchange: one task maps and merges, which spares a small epoch a stage and its workers' hops.
            reports = context.parallelize([0], 1).mapPartitions(_fused(map_task, tasks, merge_task, shards))
        else:
            width = max(1, min(tasks, self.cores - 1 if background else self.cores))
            parcels = context.parallelize(range(tasks), width).mapPartitions(_mapper(map_task))
            reports = parcels.partitionBy(shards, int).mapPartitions(_merger(merge_task))
        found = {shard: (json.loads(report), payload) for shard, report, payload in reports.collect()}
        # A shard to which nothing was sent has no rows and so no task of its own.
        return [found[s] if s in found else merge_task(s, []) for s in range(shards)]


#: What a merge task sends to the driver: shard, report as JSON, payload.
Merged = tuple[int, str, Payload]


def _fused(map_task: MapTask, tasks: int, merge_task: MergeTask, shards: int) -> Any:
    def run(alone: Iterator[int]) -> Iterator[Merged]:
        for _ in alone:  # a worker that has not read its input to the end is not used again
            parcels = [parcel for task in range(tasks) for parcel in map_task(task)]
            for shard in range(shards):
                yield _merged(merge_task, shard, [p for p in parcels if p.shard == shard])

    return run


def _merged(merge_task: MergeTask, shard: int, parcels: list[Parcel]) -> Merged:
    report, payload = merge_task(shard, parcels)
    return shard, json.dumps(report), payload


def _mapper(map_task: MapTask) -> Any:
    def run(tasks: Iterator[int]) -> Iterator[tuple[int, Parcel]]:
        for task in tasks:
            for parcel in map_task(task):
                yield parcel.shard, parcel

    return run


def _merger(merge_task: MergeTask) -> Any:
    def run(sent: Iterator[tuple[int, Parcel]]) -> Iterator[Merged]:
        by_shard: dict[int, list[Parcel]] = {}
        for shard, parcel in sent:
            by_shard.setdefault(shard, []).append(parcel)
        for shard, parcels in sorted(by_shard.items()):
            yield _merged(merge_task, shard, parcels)

    return run
