"""What Millpond's row queries are measured against, each a runner (`python -m bench.psoup.baselines JOB`).

*duckdb*: all conditions as FILTER counts of one scan. *filters*: native Structured Streaming, a streaming query with a
filter for each standing query, rows into Parquet files. *joined*: native Structured Streaming, the stream joined with a
broadcast table of queries, pairs of query and row into Parquet files: a hash join on the values of each query's
narrowest factor, the other factors as bounds beside it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.baselines import SPARK, _combined_rate, _marks
from bench.common import place_files, report
from bench.psoup.workload import (
    ATTRIBUTES,
    MIXES,
    Condition,
    Factor,
    conditions,
    duckdb_counts,
    files_source,
    sample,
    sql,
)


def duckdb_limit(job: dict[str, Any]) -> dict[str, Any]:
    """FILTER counts of as many queries as `most`, spread evenly over all, after a run of a few that warms the file.

    Arguments: job with mix, queries, files, most, cores.
    Returns: rows_per_s as if all queries had run (the cost of each is the same), run (queries that did).
    """
    chosen = conditions(MIXES[job["mix"]], int(job["queries"]))
    some = [chosen[q] for q in sample(len(chosen), int(job["most"]))]
    source = files_source(job["files"])
    rows = sum(pq.read_metadata(path).num_rows for path in job["files"])
    duckdb_counts(source, some[:2], int(job["cores"]))
    begin = time.perf_counter()
    duckdb_counts(source, some, int(job["cores"]))
    seconds = time.perf_counter() - begin
    report({"phase": "measured"})
    return {"rows_per_s": rows / seconds * len(some) / len(chosen), "run": len(some)}


def native(job: dict[str, Any]) -> dict[str, Any]:
    """Run one of the native forms and check its counts.

    Arguments: job with system ('filters' or 'joined'), mix, queries, most (queries that run; joined: all), files,
    folder (scratch), cores, memory.
    Returns: rows_per_s beyond the first micro-batch, as if all queries had run; run; checked, wrong.
    """
    from pyspark.sql import SparkSession

    home, cores = Path(job["folder"]), int(job["cores"])
    chosen = conditions(MIXES[job["mix"]], int(job["queries"]))
    place_files([Path(p) for p in job["files"]], home / "input")
    builder = SparkSession.builder.master(f"local[{cores}]").appName("millpond-bench-psoup")
    settings = {
        **SPARK,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": str(job["memory"]),
        "spark.local.dir": str(home / "spark"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    numbers = sample(len(chosen), int(job["most"])) if job["system"] == "filters" else list(range(len(chosen)))
    try:
        stream = (
            spark.readStream.schema("ts TIMESTAMP, a INT, b INT, c INT, d INT")
            .option("maxFilesPerTrigger", str(cores))
            .parquet(str(home / "input"))
        )
        if job["system"] == "filters":
            frames = {str(q): stream.where(sql(chosen[q])) for q in numbers}
        else:
            frames = {"all": _joined(spark, stream, chosen, home / "queries.parquet", MIXES[job["mix"]].top)}
        running = [_start(frame, home, name) for name, frame in frames.items()]
        for query in running:
            query.awaitTermination()
        marks = [_marks(query.recentProgress) for query in running]
    finally:
        report({"phase": "measured"})
        spark.stop()
    some = numbers if job["system"] == "filters" else sample(len(chosen), 64)
    expected = duckdb_counts(files_source(job["files"]), [chosen[q] for q in some])
    found = _written(home / "answers", numbers if job["system"] == "filters" else None)
    wrong = [q for q, count in zip(some, expected, strict=True) if found.get(q, 0) != count]
    rate = _combined_rate(marks) / (len(running) if job["system"] == "filters" else 1)
    return {
        "rows_per_s": rate * len(numbers) / len(chosen),
        "run": len(numbers),
        "batches": len(marks[0]),
        "rows": marks[0][-1][1],
        "checked": len(some),
        "wrong": wrong,
    }


def narrowest(condition: Condition) -> Factor:
    """The factor that is looked up by value.

    >>> narrowest((("a", 0, 9), ("b", 4, 5)))
    ('b', 4, 5)
    """
    return min(condition, key=lambda factor: factor[2] - factor[1])


def _joined(spark: Any, stream: Any, chosen: list[Condition], path: Path, top: int) -> Any:
    """The stream joined with the table of queries; an attribute without a factor has bounds that all values meet."""
    from pyspark.sql import functions as f

    columns: dict[str, Any] = {}
    for name in ATTRIBUTES:
        found = [next(((lo, hi) for a, lo, hi in c if a == name), (0, top)) for c in chosen]
        columns[f"{name}0"], columns[f"{name}1"] = (np.array(ends, np.int32) for ends in zip(*found, strict=True))
    looked = [narrowest(c) for c in chosen]
    low, size = np.array([lo for _, lo, _ in looked]), np.array([hi - lo + 1 for _, lo, hi in looked])
    query = np.repeat(np.arange(len(chosen), dtype=np.int32), size)
    value = np.arange(len(query)) - np.repeat(np.cumsum(size) - size, size) + low[query]
    place = np.array([ATTRIBUTES.index(name) for name, _, _ in looked])
    table = {"query": query, "key": place[query] * top + value, **{n: v[query] for n, v in columns.items()}}
    pq.write_table(pa.table(table), path)
    queries = f.broadcast(spark.read.parquet(str(path)))
    keys = [f.col(name).cast("long") + f.lit(number * top) for number, name in enumerate(ATTRIBUTES)]
    probes = stream.withColumn("probe", f.explode(f.array(*keys)))
    condition = f.col("probe") == f.col("key")
    for name in ATTRIBUTES:
        condition = condition & f.col(name).between(f.col(f"{name}0"), f.col(f"{name}1"))
    return probes.join(queries, condition).select("query", "ts")


def _start(frame: Any, home: Path, name: str) -> Any:
    return (
        frame.writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(home / "answers" / name))
        .option("checkpointLocation", str(home / "checkpoint" / name))
        .trigger(availableNow=True)
        .start()
    )


def _written(folder: Path, separate: list[int] | None) -> dict[int, int]:
    """Rows by query that a native form wrote."""
    if separate is not None:
        return {q: sum(pq.read_metadata(p).num_rows for p in (folder / str(q)).glob("*.parquet")) for q in separate}
    import duckdb

    source = f"read_parquet('{folder}/all/*.parquet')"
    return dict(duckdb.sql(f"SELECT query, count(*) FROM {source} GROUP BY query").fetchall())


if __name__ == "__main__":
    parsed = json.loads(sys.argv[1])
    report({"result": duckdb_limit(parsed) if parsed["system"] == "duckdb" else native(parsed)})
