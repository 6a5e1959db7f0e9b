"""A flood of old rows: what it costs that answers count them, beside a back-fill of the same query by a new pond.

    python -m bench.late_flood [--rows 2000000] [--old 200000] [--epochs 10]

Rows of 400 days are taken in order, then old ones over all of these days, epoch by epoch; then DRAIN. The baseline is a
back-fill: the query is made anew (`since = 'start'`) on the pond that has all rows. Both run in one process without
Spark. One JSON object on standard output:

    flood_s       the epochs of the old rows; drained_s: from then on until DRAIN returns: the answers are recomputed
    backfill_s    the back-fill of the same query over the same archive
    ratio         drained_s / backfill_s
    scans         how many scans recomputed the answers
    correct       whether the standing answers, those of the back-fill, and DuckDB's over all rows are the same
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time as clock
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import millpond
from bench.common import emit, log
from millpond.operators.panes.operator import PanesOperator

DAYS = 400
DAY = 86_400_000_000
QUERY = "SELECT k, count(*) AS n, sum(v) AS total FROM s [RANGE TUMBLING 1 DAY] GROUP BY k"


def rows_of(count: int, seed: int, days: int) -> pa.Table:
    """Rows at random instants of the first days."""
    draw = np.random.default_rng(seed)
    times = pa.array(draw.integers(0, days * DAY, count), pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"ts": times, "k": draw.integers(0, 100, count), "v": draw.integers(0, 1000, count)})


def answers(pond: millpond.Pond, name: str) -> list[tuple[Any, ...]]:
    """The latest answers of a query, in order."""
    return pond.sql(f"SELECT window_end, k, n, total::BIGINT FROM {name} ORDER BY ALL").rows()


def run(count: int, old: int, epochs: int) -> dict[str, Any]:
    """One run; see the module."""
    regular = rows_of(count, 1, DAYS).sort_by("ts")
    flood = rows_of(old, 2, DAYS - 30)
    scans = 0
    real = PanesOperator.retell

    def counting(self: PanesOperator, *given: Any) -> Any:
        nonlocal scans
        scans += 1
        return real(self, *given)

    PanesOperator.retell = counting  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            pond = millpond.open(folder, executor="inline")
            pond.sql("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (event_time = 'ts')")
            pond.sql(f"CREATE QUERY q AS {QUERY}")
            for part in range(20):
                size = -(-count // 20)
                pond.ingest("s", regular.slice(part * size, size))
                pond.step()
            log("rows in order are in")
            begun = clock.perf_counter()
            for part in range(epochs):
                size = -(-old // epochs)
                pond.ingest("s", flood.slice(part * size, size))
                pond.step()
            flooded = clock.perf_counter()
            pond.drain()
            drained = clock.perf_counter()
            pond.sql(f"CREATE QUERY anew WITH (since = 'start') AS {QUERY}")
            pond.drain()
            filled = clock.perf_counter()
            pond.drain(final=True)
            standing, anew = answers(pond, "q"), answers(pond, "anew")
            pond.close()
    finally:
        PanesOperator.retell = real  # type: ignore[method-assign]
    whole = pa.concat_tables([regular, flood])
    sql = "SELECT time_bucket(INTERVAL 1 DAY, ts) + INTERVAL 1 DAY, k, count(*), sum(v)::BIGINT FROM whole GROUP BY ALL"
    truth = duckdb.sql(f"{sql} ORDER BY ALL").fetchall()
    assert whole.num_rows == count + old
    return {
        "bench": "late_flood",
        "case": "tumbling_1_day",
        "rows": count,
        "old": old,
        "epochs": epochs,
        "flood_s": round(flooded - begun, 3),
        "drained_s": round(drained - flooded, 3),
        "backfill_s": round(filled - drained, 3),
        "ratio": round((drained - flooded) / (filled - drained), 2),
        "scans": scans,
        "answers": len(standing),
        "correct": standing == anew == truth,
    }


def main(argv: list[str] | None = None) -> int:
    """Run it; 1 when an answer is wrong, or the flood took more than one scan."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--old", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=10)
    given = parser.parse_args(argv)
    found = run(given.rows, given.old, given.epochs)
    emit(found)
    return 0 if found["correct"] and found["scans"] == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
