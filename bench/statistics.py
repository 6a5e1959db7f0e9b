"""What `statistics = on` adds to epochs: the same batches in two ponds in turns, with statistics and without.

    python -m bench.statistics [--epochs 60] [--rows 20000] [--queries 20] [--executor inline]

Prints a JSON object a line: median seconds of an epoch with and without, their ratio, and rows and files of reports.
An epoch's own time holds the writing of its report, and the taking in of those before.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

import millpond
from bench.common import emit, scratch

START = 1_767_225_600_000_000


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.statistics", description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--executor", default="inline")
    options = parser.parse_args(arguments)
    with scratch() as home:
        ponds = {
            on: millpond.open(home / f"pond-{on}", executor=options.executor, statistics=on, master="local[2]")
            for on in (False, True)
        }
        try:
            emit(measure(ponds, options.epochs, options.rows, options.queries))
        finally:
            for pond in ponds.values():
                pond.close()
    return 0


def measure(ponds: dict[bool, Any], epochs: int, rows: int, queries: int) -> dict[str, Any]:
    """Run the batches in both ponds in turns; the first five epochs do not count."""
    made = [
        f"CREATE QUERY q{n} AS SELECT k, sum(v) AS v FROM s [RANGE {10 * (n + 1)} SECONDS SLIDE 10 SECONDS] GROUP BY k"
        for n in range(queries)
    ]
    for pond in ponds.values():
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE) WITH (event_time='ts');" + ";".join(made))
    rng = np.random.default_rng(1)
    taken: dict[bool, list[float]] = {False: [], True: []}
    for epoch in range(epochs + 5):
        times = START + epoch * 10_000_000 + np.arange(rows) * 10_000_000 // rows
        columns = {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "k": rng.integers(0, 100, rows),
            "v": rng.random(rows),
        }
        for on in (False, True) if epoch % 2 else (True, False):
            pond = ponds[on]
            pond.ingest("s", pa.table(columns))
            before = pond.status()["epochs"]
            begun = time.perf_counter()
            if not hasattr(pond._loop, "query"):
                pond.step()
            else:
                pond._core.epochs.wait(lambda core=pond._core, n=before: core.published.epoch > n, 60)
            if epoch >= 5:
                taken[on].append(time.perf_counter() - begun)
    for pond in ponds.values():
        pond.drain()
    [(reports, told)] = ponds[True].sql("SELECT count(*) AS n, count(DISTINCT ts) AS t FROM sysstream").rows()
    medians = {on: statistics.median(seconds) for on, seconds in taken.items()}
    return {
        "bench": "statistics",
        "case": f"{rows} rows, {queries} queries",
        "rows_per_s": round(rows / medians[True]),
        "seconds_off": round(medians[False], 4),
        "seconds_on": round(medians[True], 4),
        "added": round(medians[True] / medians[False] - 1, 3),
        "report_rows_per_epoch": round(reports / max(1, told), 1),
        "correct": told >= epochs,
    }


if __name__ == "__main__":
    raise SystemExit(main())
