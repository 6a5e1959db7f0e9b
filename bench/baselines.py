"""The two systems that Millpond is measured against, each in a process of its own (`python -m bench.baselines JOB`).

*native* is Spark Structured Streaming as its manual writes such a query: the Parquet file source with
`maxFilesPerTrigger`, a watermark, `window` and `groupBy`, append mode, the Parquet file sink; everything stays inside
the JVM. *duckdb* is the limit: the same answers from DuckDB over the same files, no stream, no state, no archive.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.cases import CASES, WindowQuery, sample
from bench.common import log, place_files, report

#: Fair to both state stores: as many shuffle partitions as cores, no user interface, deltas instead of snapshots.
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
STORES = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def native(job: dict[str, Any]) -> dict[str, Any]:
    """Run a case's queries on Structured Streaming, all at once, each as a streaming query of its own.

    Arguments: job with case, files, folder (scratch), per_epoch (files a batch), cores, store, queries (how many of
    the case's queries to run), memory (driver heap).
    Returns: rows_per_s of the stream as if *all* queries of the case ran, epochs, the folder of its answers.
    """
    import pyspark
    from pyspark.sql import SparkSession

    case = CASES[job["case"]]
    home, cores = Path(job["folder"]), int(job["cores"])
    queries = sample(case.queries, int(job["queries"]))
    place_files([Path(p) for p in job["files"]], home / "input")
    builder = SparkSession.builder.master(f"local[{cores}]").appName("millpond-bench-native")
    settings = {
        **SPARK,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.stateStore.providerClass": STORES[job["store"]],
        "spark.driver.memory": str(job["memory"]),
        "spark.local.dir": str(home / "spark"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        running = [_start(spark, query, case.data.disorder, home, int(job["per_epoch"])) for query in queries]
        for stream in running:
            stream.awaitTermination()
        marks = [_marks(stream.recentProgress) for stream in running]
        for entry in running[0].recentProgress:
            log(f"  native batch {entry['batchId']}: {entry['numInputRows']:,} rows, {entry['durationMs']}")
    finally:
        report({"phase": "measured"})
        spark.stop()
    share = len(queries) / len(case.queries)
    return {
        "rows_per_s": _combined_rate(marks) / len(queries) * share,
        "epochs": max(len(m) for m in marks),
        "queries": [query.name for query in queries],
        "answers": [[query.name, str(home / "answers" / query.name)] for query in queries],
        "version": pyspark.__version__,
    }


def _start(spark: Any, query: WindowQuery, disorder: int, home: Path, per_epoch: int) -> Any:
    from pyspark.sql import functions as f

    frame = (
        spark.readStream.schema("ts TIMESTAMP, k INT, v DOUBLE")
        .option("maxFilesPerTrigger", per_epoch)
        .parquet(str(home / "input"))
        .withWatermark("ts", f"{disorder} seconds")
    )
    if query.where:
        frame = frame.where(query.where)
    keys = [query.spark(f).alias("w")] + ([f.expr(query.key).cast("long").alias("g")] if query.key else [])
    answers = (
        frame.groupBy(*keys)
        .agg(f.count(f.lit(1)).alias("c"), f.sum("v").alias("s"))
        .select(
            f.col("w.end").alias("e"),
            f.col("g") if query.key else f.lit(None).cast("long").alias("g"),
            "c",
            "s",
        )
    )
    return (
        answers.writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(home / "answers" / query.name))
        .option("checkpointLocation", str(home / "checkpoint" / query.name))
        .trigger(availableNow=True)
        .start()
    )


def _marks(progress: list[Any]) -> list[tuple[float, int]]:
    """(end of batch in seconds, rows so far) for each batch that took rows."""
    from datetime import datetime

    marks: list[tuple[float, int]] = []
    for entry in progress:
        rows = int(entry["numInputRows"])
        if rows == 0:
            continue
        begin = datetime.fromisoformat(entry["timestamp"].replace("Z", "+00:00")).timestamp()
        end = begin + entry["durationMs"]["triggerExecution"] / 1000
        marks.append((end, rows + (marks[-1][1] if marks else 0)))
    return marks


def _combined_rate(marks: list[list[tuple[float, int]]]) -> float:
    """Rows per second that all streaming queries together take once each has finished its first batch."""
    if any(len(m) < 2 for m in marks):
        raise ValueError("a native query ended within its first batch: more files or smaller batches are needed")
    start, end = min(m[0][0] for m in marks), max(m[-1][0] for m in marks)
    return sum(m[-1][1] - m[0][1] for m in marks) / (end - start)


def duckdb_limit(job: dict[str, Any]) -> dict[str, Any]:
    """Answer a case's queries with DuckDB over the files, one query after the other, all answers kept in memory.

    Arguments: job with case, files, folder, cores. The better of two runs counts: the first warms the file cache.
    """
    import duckdb
    import pyarrow.parquet as pq

    case, home = CASES[job["case"]], Path(job["folder"])
    home.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.execute(f"SET threads = {int(job['cores'])}; SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
    names = ", ".join(f"'{path}'" for path in job["files"])
    rows = connection.sql(f"SELECT count(*) FROM read_parquet([{names}])").fetchall()[0][0]
    last = connection.sql(f"SELECT epoch_us(max(ts)) FROM read_parquet([{names}])").fetchall()[0][0]
    seconds = float("inf")
    tables: list[Any] = []
    for _ in range(2):
        tables = []
        begin = time.perf_counter()
        for query in case.queries:
            tables.append(connection.sql(query.duckdb(f"read_parquet([{names}])")).to_arrow_table())
        seconds = min(seconds, time.perf_counter() - begin)
    report({"phase": "measured"})
    for query, answer in zip(case.queries, tables, strict=True):
        (home / "answers" / query.name).mkdir(parents=True, exist_ok=True)
        pq.write_table(answer, home / "answers" / query.name / "0.parquet")
    return {
        "rows_per_s": rows / seconds,
        "rows": rows,
        "last": last,
        "answers": [[query.name, str(home / "answers" / query.name)] for query in case.queries],
        "version": duckdb.__version__,
    }


SYSTEMS = {"native": native, "duckdb": duckdb_limit}

if __name__ == "__main__":
    parsed = json.loads(sys.argv[1])
    report({"result": SYSTEMS[parsed["system"]](parsed)})
