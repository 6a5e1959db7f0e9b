"""One system of `bench.filters` over a flip of selectivities: Millpond, or Structured Streaming in static orders.

Filters of equal cost over one column, as vectorised functions in both systems. Two of them drop almost everything, one
before the flip and the other behind it; the others drop little. A batch of Structured Streaming and an epoch of
Millpond take two files. Spark is started once; its orders run one after the other after a warm-up. What differs besides
the order is in `DIFFERS`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import run_isolated


@dataclass(frozen=True)
class Setting:
    """How many filters there are, what they do with each value, and which static orders are compared.

    per_batch: files of a batch and an epoch, one for each core.
    work: 'mix', rounds of mixing its bits with NumPy; 'digest', iterations of PBKDF2 over it, one value after the
        other: its cost is of rows alone, where NumPy's is of calls, too, when they have few.
    """

    filters: int
    work: str
    times: int
    rows: int
    files: int = 32
    per_batch: int = 2
    orders: tuple[str, ...] = ("best", "given", "worst")
    worst: float = 0.0


SETTINGS = {
    "cheap": Setting(8, "mix", 4_000, 160_000),
    "dear": Setting(12, "digest", 250, 160_000, orders=("best", "worst"), worst=5.0),
}


def orders_of(n: int) -> dict[str, tuple[int, ...]]:
    """Static orders: filters 0 and 1 are those that drop almost everything in one of the phases."""
    others = tuple(range(2, n))
    return {
        "best": (0, 1, *others),
        "given": (*others[:3], 0, *others[3:-1], 1, others[-1]),
        "worst": (*others, 0, 1),
    }


DIFFERS = (
    "Structured Streaming gets rows through the JVM, and a filter that must keep its place runs in a Python step of its"
    " own (asNondeterministic), to which rows are carried as Arrow; Millpond reads the files in its Python tasks, and"
    " also writes its archive, its state and its answers durably; the memory sink keeps answers in the driver"
)


def values(file: int, files: int, rows: int, n: int) -> Any:
    """The values of a file: bit i is set where filter i lets a row pass; the flip is in the middle of the files."""
    rng = np.random.default_rng(file)
    drops = np.full(n, 0.02)
    drops[1 if 2 * file >= files else 0] = 0.97
    passes = rng.random((rows, n)) >= drops
    return (passes * (1 << np.arange(n))).sum(axis=1) + (rng.integers(0, 1 << 40, rows) << n)


def write(folder: Path, rows: int, files: int, first: int, n: int) -> None:
    """The first of the files of the input, as Parquet."""
    folder.mkdir()
    for file in range(first):
        start = 1_700_000_000_000_000 + file * 10_000_000
        times = pa.array(start + np.arange(rows) * (10_000_000 // rows), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times, "v": values(file, files, rows, n)}), folder / f"{file:03d}.parquet")


def holds(number: int, work: str, times: int) -> Any:
    """Filter `number`: it works on the value before it looks at one of its bits."""

    def mixed(array: Any) -> Any:
        import numpy

        own = numpy.asarray(array, dtype=numpy.uint64)
        passed = numpy.empty(len(own), bool)
        for low in range(0, len(own), 4096):  # what it works on stays in the cache, whatever the batch
            part = own[low : low + 4096]
            found = part.copy()
            for _ in range(times):
                found ^= found >> numpy.uint64(13)
                found *= numpy.uint64(0x9E3779B97F4A7C15)
            passed[low : low + 4096] = ((part >> numpy.uint64(number)) & numpy.uint64(1) == 1) & (found != 1)
        return passed

    def digested(array: Any) -> Any:
        import hashlib

        import numpy

        own = numpy.asarray(array, dtype=numpy.int64)
        salt = b"filter %d" % number
        made = [hashlib.pbkdf2_hmac("sha256", value.to_bytes(8, "big"), salt, times) for value in own.tolist()]
        nothing = bytes(32)
        return (own >> number & 1 == 1) & numpy.array([each != nothing for each in made], bool)

    return {"mix": mixed, "digest": digested}[work]


def millpond_runs(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Millpond with its defaults (A-Greedy), written in the worst order."""
    import millpond

    rows, n = job["rows"] // job["files"], job["filters"]
    worst = orders_of(n)["worst"]
    with millpond.open(folder / "pond", rows_per_epoch=rows * job["per_batch"]) as pond:
        pond.ready()
        for i in range(n):
            filter_ = holds(i, job["work"], job["times"])
            pond.register_function(f"f{i}", filter_, arguments=["BIGINT"], vectorised=True)
        where = " AND ".join(f"f{i}(v)" for i in worst)
        evaluations, orders = 0, []
        core = pond._core
        learn = core.controllers.filters.learn

        def counted(catalog: Any, plans: Any, epoch: int, clock: int, reports: Any) -> None:
            nonlocal evaluations
            for report in reports:
                for each in report.get("filters", {}).values():
                    evaluations += sum(each["rows"])
            orders.extend(" ".join(str(worst[i]) for i in p.order) for p in plans.values())
            learn(catalog, plans, epoch, clock, reports)

        for name in ("warm", "input"):
            started = time.perf_counter()
            core.controllers.filters.learn = counted
            evaluations, orders = 0, []
            pond.sql(f"""
                CREATE STREAM s_{name} (ts TIMESTAMP, v BIGINT)
                    WITH (path = '{folder / name}/*.parquet', event_time = 'ts', lateness = '1 minute');
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
        over = holds(number, job["work"], job["times"])

        def on_series(v: Any) -> Any:
            import pandas

            return pandas.Series(over(v.to_numpy()))

        # Spark puts the deterministic filters of a query together and evaluates all of them for every row.
        return f.pandas_udf(on_series, "boolean", f.PandasUDFType.SCALAR).asNondeterministic()

    static = orders_of(job["filters"])
    filters = [filter_of(i) for i in range(job["filters"])]

    def once(name: str, order: str) -> tuple[float, list[int]]:
        rows = spark.readStream.schema("ts timestamp, v bigint").option("maxFilesPerTrigger", job["per_batch"])
        frame = rows.parquet(str(folder / name))
        for i in static[order]:
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
    once("warm", job["orders"][0])
    for order in job["orders"]:
        seconds, answer = once("input", order)
        found[order] = {"seconds": seconds, "answer": answer, "evaluations": evaluated(job, order)}
    spark.stop()
    return found


def evaluated(job: dict[str, Any], order: str) -> int:
    """How often filters are evaluated for a row in a static order, from the data."""
    total, rows = 0, job["rows"] // job["files"]
    for file in range(job["files"]):
        v = values(file, job["files"], rows, job["filters"])
        left = np.ones(rows, bool)
        for i in orders_of(job["filters"])[order]:
            total += int(left.sum())
            left &= (v >> i) & 1 == 1
    return total


def compare(setting: Setting) -> tuple[dict[str, Any], dict[str, bool]]:
    """Millpond with A-Greedy against Structured Streaming with static orders: what was seen, and what was wanted."""
    job, rows = asdict(setting), setting.rows
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
        **job,
        "taken": found["millpond"]["orders"],
        "differs": DIFFERS,
    }
    return seen, {
        "same_answers": all(a == answers[0] for a in answers),
        "best": ratios["spark:best"] >= 1.5,
        "worst": ratios["spark:worst"] >= setting.worst,
    }


def main() -> None:
    """Run the job of the command line."""
    job = json.loads(sys.argv[1])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = job["rows"] // job["files"]
        write(folder / "input", rows, job["files"], job["files"], job["filters"])
        write(folder / "warm", rows, job["files"], job["per_batch"], job["filters"])
        result = millpond_runs(folder, job) if job["system"] == "millpond" else spark_runs(folder, job)
    print(json.dumps({"phase": "measured"}))
    print(json.dumps({"result": result}), flush=True)


if __name__ == "__main__":
    main()
