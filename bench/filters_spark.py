"""One system of `bench.filters` over a flip of selectivities: Millpond, or native Structured Streaming in one order.

Eight filters of equal cost over one column, as vectorised functions in both systems (NumPy on the values of a batch).
Two of them drop almost everything, one before the flip and the other behind it; the others drop little. What differs
besides the order: Structured Streaming gets the rows over the JVM, and filters that must keep an order run each in a
Python step of its own (`asNondeterministic`); written as one condition (`together`) it evaluates all for every row.
Millpond reads the files in its Python tasks, and also writes its archive.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N = 8
FILES = 20
DROPS = ([0.97, 0.05] + [0.05] * 6, [0.05, 0.97] + [0.05] * 6)
ORDERS = {"best": (0, 1, 2, 3, 4, 5, 6, 7), "given": (2, 3, 4, 0, 5, 6, 1, 7), "worst": (2, 3, 4, 5, 6, 7, 0, 1)}


def values(file: int, rows: int) -> Any:
    """The values of a file: bit i is set where filter i lets a row pass; the flip is in the middle."""
    rng = np.random.default_rng(file)
    passes = rng.random((rows, N)) >= np.array(DROPS[2 * file >= FILES])
    return (passes * (1 << np.arange(N))).sum(axis=1) + (rng.integers(0, 1 << 40, rows) << N)


def write(folder: Path, rows: int, files: range) -> None:
    """The input as Parquet files."""
    folder.mkdir()
    for file in files:
        start = 1_700_000_000_000_000 + file * 10_000_000
        times = pa.array(start + np.arange(rows) * (10_000_000 // rows), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times, "v": values(file, rows)}), folder / f"{file:03d}.parquet")


def holds(number: int, rounds: int) -> Any:
    """Filter `number`: it mixes the bits of the value `rounds` times before it looks at one of them."""

    def over(array: Any) -> Any:
        import numpy

        own = numpy.asarray(array, dtype=numpy.uint64)
        passed = numpy.empty(len(own), bool)
        for low in range(0, len(own), 4096):  # what it works on stays in the cache, whatever the batch
            part = own[low : low + 4096]
            mixed = part.copy()
            for _ in range(rounds):
                mixed ^= mixed >> numpy.uint64(13)
                mixed *= numpy.uint64(0x9E3779B97F4A7C15)
            passed[low : low + 4096] = ((part >> numpy.uint64(number)) & numpy.uint64(1) == 1) & (mixed != 1)
        return passed

    return over


def millpond_runs(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Millpond with its defaults (A-Greedy), written in the worst order."""
    import millpond

    rows = job["rows"] // FILES
    with millpond.open(folder / "pond", rows_per_epoch=2 * rows) as pond:
        pond.ready()
        for i in range(N):
            pond.register_function(f"f{i}", holds(i, job["rounds"]), arguments=["BIGINT"], vectorised=True)
        where = " AND ".join(f"f{i}(v)" for i in ORDERS["worst"])
        evaluations, orders = 0, []
        core = pond._core
        learn = core.filters.learn

        def counted(catalog: Any, plans: Any, epoch: int, clock: int, reports: Any) -> None:
            nonlocal evaluations
            for report in reports:
                for each in report.get("filters", {}).values():
                    evaluations += sum(each["rows"])
            orders.extend("".join(map(str, (ORDERS["worst"][i] for i in p.order))) for p in plans.values())
            learn(catalog, plans, epoch, clock, reports)

        for name in ("warm", "input"):
            started = time.perf_counter()
            core.filters.learn = counted
            evaluations, orders = 0, []
            pond.sql(f"""
                CREATE STREAM s_{name} (ts TIMESTAMP, v BIGINT)
                    WITH (path = '{folder / name}/*.parquet', progress = 'ts', lateness = '1 minute');
                CREATE QUERY q_{name} AS SELECT count(*) AS n, sum(v % 1000003) AS total
                    FROM s_{name} [TUMBLING 10 SECONDS] WHERE {where};
                DRAIN FINAL;
            """)
            seconds = time.perf_counter() - started
            if name == "warm":
                pond.sql("DROP QUERY q_warm; DROP STREAM s_warm")
        answer = pond.sql("SELECT sum(n)::BIGINT, sum(total)::BIGINT FROM q_input").rows()[0]
    return {"seconds": seconds, "answer": list(answer), "evaluations": evaluations, "orders": orders}


def spark_runs(folder: Path, job: dict[str, Any], order: str) -> dict[str, Any]:
    """Native Structured Streaming with a static order."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def filter_of(number: int) -> Any:
        over = holds(number, job["rounds"])

        def on_series(v: Any) -> Any:
            import pandas

            return pandas.Series(over(v.to_numpy()))

        made = f.pandas_udf(on_series, "boolean", f.PandasUDFType.SCALAR)
        return made if order == "together" else made.asNondeterministic()

    def once(name: str) -> tuple[float, list[int]]:
        rows = spark.readStream.schema("ts timestamp, v bigint").option("maxFilesPerTrigger", 2)
        frame = rows.parquet(str(folder / name))
        if order == "together":
            condition = None
            for i in ORDERS["given"]:
                each = filter_of(i)("v")
                condition = each if condition is None else condition & each
            frame = frame.filter(condition)
        else:
            for i in ORDERS[order]:
                frame = frame.filter(filter_of(i)("v"))
        summed = frame.groupBy(f.window("ts", "10 seconds")).agg(
            f.count("*").alias("n"), f.sum(f.col("v") % 1000003).alias("total")
        )
        started = time.perf_counter()
        query = (
            summed.writeStream.format("memory").queryName(name).outputMode("complete").trigger(availableNow=True)
        ).start()  # fmt: skip
        query.awaitTermination()
        seconds = time.perf_counter() - started
        found = spark.sql(f"SELECT sum(n), sum(total) FROM {name}").first()
        return seconds, [int(found[0] or 0), int(found[1] or 0)]

    once("warm")
    seconds, answer = once("input")
    spark.stop()
    return {"seconds": seconds, "answer": answer, "evaluations": evaluated(job["rows"] // FILES, order), "orders": []}


def evaluated(rows: int, order: str) -> int:
    """How often filters are evaluated for a row in a static order, from the data."""
    total = 0
    for file in range(FILES):
        v = values(file, rows)
        left = np.ones(rows, bool)
        for i in ORDERS.get(order, ORDERS["given"]):
            total += int(left.sum())
            if order != "together":
                left &= (v >> i) & 1 == 1
    return total


def main() -> None:
    """Run the job of the command line."""
    job = json.loads(sys.argv[1])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = job["rows"] // FILES
        write(folder / "input", rows, range(FILES))
        write(folder / "warm", rows, range(2))
        system, _, order = job["system"].partition(":")
        result = millpond_runs(folder, job) if system == "millpond" else spark_runs(folder, job, order)
    print(json.dumps({"phase": "measured"}))
    print(json.dumps({"result": result}), flush=True)


if __name__ == "__main__":
    main()
