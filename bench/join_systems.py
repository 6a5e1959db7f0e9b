"""Joins of windows on three systems, each in a process of its own (`python -m bench.join_systems JOB`).

*millpond*: a fresh pond with its archive on, one CQL join over n streams. *native*: Structured Streaming's interval
joins, a left-deep tree of two-way joins for more streams, its state in the HDFS-backed store, answers to the Parquet
sink. *duckdb*: the limit: one batch join over all files, answers to Parquet.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.baselines import SPARK, STORES, _marks
from bench.common import place_files, report, steady_rate

#: Event time of a stream: a row each millisecond.
STEP = 1_000
START = 1_700_000_000_000_000


@dataclass(frozen=True)
class Join:
    """A case: `streams` streams, joined with the first (star) or each with the next (chain), over windows of `seconds`.

    keys: how many different ones; a chain has two key columns, whose values are independent.
    target: of the ratio to native.
    """

    name: str
    streams: int
    shape: str
    keys: int
    target: float
    seconds: int = 600

    @property
    def equalities(self) -> list[str]:
        if self.shape == "star":
            return [f"s0.k = s{n}.k" for n in range(1, self.streams)]
        return [f"s{n}.j = s{n + 1}.k" for n in range(self.streams - 1)]

    def close(self, n: int, interval: str) -> list[str]:
        """That stream n's row is within the window of the rows of the streams before."""
        return [f"s{n}.ts BETWEEN s{m}.ts - {interval} AND s{m}.ts + {interval}" for m in range(n)]

    @property
    def values(self) -> str:
        return ", ".join(f"s{n}.v AS v{n}" for n in range(self.streams))

    @property
    def latest(self) -> str:
        return f"greatest({', '.join(f's{n}.ts' for n in range(self.streams))})"


JOINS = {
    each.name: each
    for each in (
        Join("twoway", 2, "star", 100_000, 6.0),
        *(Join(f"{shape}{n}", n, shape, 1_000_000, 5.0) for n in (3, 5, 7) for shape in ("star", "chain")),
    )
}


def generate(case: Join, folder: Path, files: int, rows: int) -> list[list[str]]:
    """The files of each stream."""
    found = []
    for stream in range(case.streams):
        (folder / f"s{stream}").mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng([case.streams, stream])
        paths = []
        for number in range(files):
            at = START + (np.arange(rows, dtype=np.int64) + number * rows) * STEP
            columns = {"ts": pa.array(at, pa.timestamp("us"))}
            for name in ("k", "j") if case.shape == "chain" else ("k",):
                columns[name] = pa.array(random.integers(0, case.keys, rows).astype(np.int32))
            columns["v"] = pa.array(random.integers(0, 1_000, rows))
            path = folder / f"s{stream}" / f"{number:04d}.parquet"
            pq.write_table(pa.table(columns), path)
            paths.append(str(path))
        found.append(paths)
    return found


def checksum(case: Join, source: str, until: int) -> str:
    """SQL: how many joined rows there are up to an instant, and sums that any difference would change."""
    mixed = " + ".join(f"v{n} * {2 * n + 1}" for n in range(case.streams))
    return (
        f"SELECT count(*)::BIGINT AS n, coalesce(sum(k), 0)::BIGINT AS k, coalesce(sum({mixed}), 0)::BIGINT AS v,"
        f" coalesce(sum(({mixed}) * (k % 97)), 0)::BIGINT AS m FROM {source}"
        f" WHERE \"at\" < TIMESTAMP '{datetime.fromtimestamp(until / 1e6, UTC):%Y-%m-%d %H:%M:%S.%f}'"
    )


def millpond_run(case: Join, job: dict[str, Any]) -> dict[str, Any]:
    """One pond, one query; the files appear, and it drains."""
    import millpond
    from bench.subject import EpochMarks

    class Marks(EpochMarks):
        def look(self) -> None:
            rows = sum(int(s["rows"]) for s in self._pond.status()["streams"].values())
            if rows and (not self.marks or rows != self.marks[-1][1]):
                self.marks.append((time.perf_counter(), rows))

    home = Path(job["folder"])
    with millpond.open(str(home / "pond"), executor=job["executor"], **job["settings"]) as pond:
        pond.ready()
        second = ", j INTEGER" if case.shape == "chain" else ""
        for n in range(case.streams):
            (home / f"input{n}").mkdir(parents=True)
            pond.sql(
                f"CREATE STREAM s{n} (ts TIMESTAMP, k INTEGER{second}, v BIGINT) WITH (source='files',"
                f" path='{home}/input{n}/*.parquet', event_time='ts', late='drop')"
            )
        windows = ", ".join(f"s{n} [RANGE {case.seconds} SECONDS]" for n in range(case.streams))
        tests = " AND ".join(case.equalities)
        pond.sql(f"CREATE QUERY q AS SELECT ISTREAM(s0.k AS k, {case.values}) FROM {windows} WHERE {tests}")
        watch = Marks(pond)
        watch.start()
        begin = time.perf_counter()
        for n, paths in enumerate(job["files"]):
            place_files([Path(p) for p in paths], home / f"input{n}")
        pond.drain()
        drained = time.perf_counter() - begin
        marks = watch.stop()
        report({"phase": "measured"})
        answer = pond.sql(checksum(case, "q", job["last"])).rows()[0]
        status = pond.status()
    return {
        "rows_per_s": steady_rate(marks),
        "rows": marks[-1][1],
        "epochs": len(marks),
        "seconds": drained,
        "answer": [int(v) for v in answer],
        "last_epochs": status.get("last_epochs", []),
    }


def native_run(case: Join, job: dict[str, Any]) -> dict[str, Any]:
    """A tree of interval joins of Structured Streaming."""
    from pyspark.sql import SparkSession

    home, cores = Path(job["folder"]), int(job["cores"])
    settings = {
        **SPARK,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.stateStore.providerClass": STORES["hdfs"],
        "spark.driver.memory": str(job["memory"]),
        "spark.local.dir": str(home / "spark"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("millpond-bench-joins")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    schema = "ts TIMESTAMP, k INT, j INT, v BIGINT" if case.shape == "chain" else "ts TIMESTAMP, k INT, v BIGINT"
    from pyspark.sql import functions as f

    try:
        joined = None
        for n, paths in enumerate(job["files"]):
            place_files([Path(p) for p in paths], home / f"input{n}")
            read = spark.readStream.schema(schema).option("maxFilesPerTrigger", int(job["per_epoch"]))
            frame = read.parquet(str(home / f"input{n}")).withWatermark("ts", "0 seconds")
            frame = frame.selectExpr(f"ts AS t{n}", *(f"{c} AS {c}{n}" for c in frame.columns if c != "ts"))
            if joined is None:
                joined = frame
                continue
            equal = re.sub(r"s(\d+)\.(\w)", r"\2\1", case.equalities[n - 1])
            close = [f"t{n} BETWEEN t0 - INTERVAL {case.seconds} SECONDS AND t0 + INTERVAL {case.seconds} SECONDS"]
            close += [f"abs(unix_micros(t{n}) - u{m}) <= {case.seconds * 1_000_000}" for m in range(1, n)]
            # Streaming allows one column of event time behind a join: those of the other streams go on as numbers.
            joined = joined.join(frame, f.expr(" AND ".join([equal, *close])))
            joined = joined.withColumn(f"u{n}", f.expr(f"unix_micros(t{n})")).drop(f"t{n}")
        assert joined is not None
        times = ", ".join(["unix_micros(t0)", *(f"u{n}" for n in range(1, case.streams))])
        shown = ["k0 AS k", *(f"v{n}" for n in range(case.streams)), f"timestamp_micros(greatest({times})) AS at"]
        stream = (
            joined.selectExpr(*shown)
            .writeStream.format("parquet")
            .outputMode("append")
            .option("path", str(home / "answers"))
            .option("checkpointLocation", str(home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        stream.awaitTermination()
        marks = _marks(stream.recentProgress)
    finally:
        report({"phase": "measured"})
        spark.stop()
    return {
        "rows_per_s": steady_rate(marks),
        "rows": marks[-1][1],
        "epochs": len(marks),
        "answer": _sums(case, f"read_parquet('{home}/answers/*.parquet')", job["last"]),
    }


def duckdb_run(case: Join, job: dict[str, Any]) -> dict[str, Any]:
    """The join as one batch, the better of two runs."""
    import duckdb

    home = Path(job["folder"])
    home.mkdir(parents=True, exist_ok=True)
    db = duckdb.connect()
    db.execute(f"SET threads = {int(job['cores'])}; SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
    db.execute(f"SET temp_directory = '{home}/spill'")
    items, rows = [], 0
    for n, paths in enumerate(job["files"]):
        names = ", ".join(f"'{p}'" for p in paths)
        db.execute(f"CREATE VIEW s{n} AS SELECT * FROM read_parquet([{names}])")
        rows += db.sql(f"SELECT count(*) FROM s{n}").fetchall()[0][0]
        items.append(f"s{n}")
    tests = case.equalities + [
        t for n in range(1, case.streams) for t in case.close(n, f"INTERVAL {case.seconds} SECOND")
    ]
    sql = f"SELECT s0.k AS k, {case.values}, {case.latest} AS at FROM {', '.join(items)} WHERE {' AND '.join(tests)}"
    seconds = float("inf")
    for _ in range(2):
        begin = time.perf_counter()
        db.execute(f"COPY ({sql}) TO '{home}/answers.parquet'")
        seconds = min(seconds, time.perf_counter() - begin)
    report({"phase": "measured"})
    source = f"read_parquet('{home}/answers.parquet')"
    return {"rows_per_s": rows / seconds, "rows": rows, "answer": _sums(case, source, job["last"])}


def _sums(case: Join, source: str, last: int) -> list[int]:
    import duckdb

    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    return [int(v) for v in db.sql(checksum(case, source, last)).fetchall()[0]]


SYSTEMS = {"millpond": millpond_run, "native": native_run, "duckdb": duckdb_run}

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    report({"result": SYSTEMS[given["system"]](JOINS[given["case"]], given)})
