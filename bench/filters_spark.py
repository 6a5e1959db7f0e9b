"""One system of `bench.filters` over a flip of selectivities: Millpond, or Structured Streaming in static orders.

Eight filters of equal cost over one column, as vectorised functions in both systems (NumPy on the values of a batch).
Two of them drop almost everything, one before the flip and the other behind it; the others drop little. A batch of
Structured Streaming and an epoch of Millpond take one file. Spark is started once; its orders run one after the other
after a warm-up. What differs besides the order is in `DIFFERS`.
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

from bench.common import run_isolated

N = 8
DROPS = ([0.97, 0.02] + [0.02] * 6, [0.02, 0.97] + [0.02] * 6)
DIFFERS = (
    "Structured Streaming gets rows through the JVM, and a filter that must keep its place runs in a Python step of its"
    " own (asNondeterministic), to which rows are carried as Arrow; Millpond reads the files in its Python tasks, and"
    " also writes its archive, its state and its answers durably; the memory sink keeps answers in the driver"
)
ORDERS = {"best": (0, 1, 2, 3, 4, 5, 6, 7), "given": (2, 3, 4, 0, 5, 6, 1, 7), "worst": (2, 3, 4, 5, 6, 7, 0, 1)}


def values(file: int, files: int, rows: int) -> Any:
    """The values of a file: bit i is set where filter i lets a row pass; the flip is in the middle of the files."""
    rng = np.random.default_rng(file)
    passes = rng.random((rows, N)) >= np.array(DROPS[2 * file >= files])
    return (passes * (1 << np.arange(N))).sum(axis=1) + (rng.integers(0, 1 << 40, rows) << N)


def write(folder: Path, rows: int, files: int, first: int) -> None:
    """The first of the files of the input, as Parquet."""
    folder.mkdir()
    for file in range(first):
        start = 1_700_000_000_000_000 + file * 10_000_000
        times = pa.array(start + np.arange(rows) * (10_000_000 // rows), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times, "v": values(file, files, rows)}), folder / f"{file:03d}.parquet")


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

    rows = job["rows"] // job["files"]
    with millpond.open(folder / "pond", rows_per_epoch=rows) as pond:
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


def spark_runs(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Native Structured Streaming with each static order: by order, what `millpond_runs` says."""
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

        # Spark puts the deterministic filters of a query together and evaluates all of them for every row.
        return f.pandas_udf(on_series, "boolean", f.PandasUDFType.SCALAR).asNondeterministic()

    filters = [filter_of(i) for i in range(N)]

    def once(name: str, order: str) -> tuple[float, list[int]]:
        rows = spark.readStream.schema("ts timestamp, v bigint").option("maxFilesPerTrigger", 1)
        frame = rows.parquet(str(folder / name))
        for i in ORDERS[order]:
            frame = frame.filter(filters[i]("v"))
        summed = frame.groupBy(f.window("ts", "10 seconds")).agg(
            f.count("*").alias("n"), f.sum(f.col("v") % 1000003).alias("total")
        )
        started = time.perf_counter()
        written = summed.writeStream.format("memory").queryName(f"{name}_{order}").outputMode("complete")
        query = written.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
        found = spark.sql(f"SELECT sum(n), sum(total) FROM {name}_{order}").first()
        return seconds, [int(found[0] or 0), int(found[1] or 0)]

    found = {}
    once("warm", "given")
    for order in ORDERS:
        seconds, answer = once("input", order)
        found[order] = {"seconds": seconds, "answer": answer, "evaluations": evaluated(job, order)}
    spark.stop()
    return found


def evaluated(job: dict[str, Any], order: str) -> int:
    """How often filters are evaluated for a row in a static order, from the data."""
    total, rows = 0, job["rows"] // job["files"]
    for file in range(job["files"]):
        v = values(file, job["files"], rows)
        left = np.ones(rows, bool)
        for i in ORDERS[order]:
            total += int(left.sum())
            left &= (v >> i) & 1 == 1
    return total


def compare(rows: int, files: int, rounds: int) -> tuple[dict[str, Any], dict[str, bool]]:
    """Millpond with A-Greedy against Structured Streaming with static orders: what was seen, and what was wanted."""
    job = {"rows": rows, "files": files, "rounds": rounds}
    found: dict[str, Any] = {"millpond": run_isolated("bench.filters_spark", job | {"system": "millpond"}).result}
    spark = run_isolated("bench.filters_spark", job | {"system": "spark"}).result
    found |= {f"spark:{order}": each for order, each in spark.items()}
    seconds = {system: round(r["seconds"], 2) for system, r in found.items()}
    evaluations = {system: round(r["evaluations"] / rows, 3) for system, r in found.items()}
    others = [s for s in found if s != "millpond"]
    ratios = {s: round(seconds[s] / seconds["millpond"], 2) for s in others}
    answers = [r["answer"] for r in found.values()]
    seen = {
        "seconds": seconds,
        "ratios": ratios,
        "evaluations_a_row": evaluations,
        "ratios_of_evaluations": {s: round(evaluations[s] / evaluations["millpond"], 2) for s in others},
        "rows": rows,
        "batches": files,
        "rounds": rounds,
        "orders": found["millpond"]["orders"],
        "differs": DIFFERS,
    }
    return seen, {
        "same_answers": all(a == answers[0] for a in answers),
        "best": ratios["spark:best"] >= 1.5,
        "worst": ratios["spark:worst"] >= 5,
    }


def main() -> None:
    """Run the job of the command line."""
    job = json.loads(sys.argv[1])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = job["rows"] // job["files"]
        write(folder / "input", rows, job["files"], job["files"])
        write(folder / "warm", rows, job["files"], 1)
        result = millpond_runs(folder, job) if job["system"] == "millpond" else spark_runs(folder, job)
    print(json.dumps({"phase": "measured"}))
    print(json.dumps({"result": result}), flush=True)


if __name__ == "__main__":
    main()
