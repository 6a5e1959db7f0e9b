"""Window ends with very many groups: the longest epoch beside the usual one, for each flush policy (the shape of X8).

    python -m bench.smoothing [--groups 260000,520000]

Every window has one row per group, which comes in epochs of equal size; the clock is virtual, half a second per epoch.
Epochs run in this process, so that their times are those of the engine's own work. Prints one JSON line per size and
policy: the largest and the median time of an epoch in seconds, their ratio, and whether all answers were given.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import millpond
from bench.common import emit, log, scratch
from millpond.testing import VirtualClock

SECOND = 1_000_000
EPOCHS = 16
WINDOWS = 3
POLICIES = ("at once", "lazy", "slow")


def rows(groups: int, window: int, epoch: int) -> pa.Table:
    """The rows of one epoch: those groups of a window whose turn it is, in an order of their own."""
    size = groups // EPOCHS
    group = (np.arange(size, dtype=np.int64) * EPOCHS + epoch) * 2_654_435_761 % 2**40
    stamp = np.full(size, (window * 10 * SECOND) + epoch * (10 * SECOND // EPOCHS), np.int64)
    return pa.table({"ts": pa.array(stamp).cast(pa.timestamp("us")), "k": group, "v": np.ones(size)})


def measure(groups: int, policy: str) -> dict[str, Any]:
    """Run one policy: the line to print."""
    clock, seconds = VirtualClock(), []
    begun = time.perf_counter()
    with scratch() as home, millpond.open(str(home / "pond"), executor="inline", clock=clock) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE) WITH (progress='ts');"
            f"CREATE QUERY q WITH (flush='{policy}', flush_delay='7s') AS"
            " SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k"
        )
        for window in range(WINDOWS):
            for epoch in range(EPOCHS):
                pond.ingest("s", rows(groups, window, epoch))
                clock.advance(SECOND // 2)
                start = time.perf_counter()
                pond.step()
                if window:  # the first window warms up and closes none
                    seconds.append(time.perf_counter() - start)
        pond.drain(final=True)
        given = pond.sql("SELECT count(*), sum(n) FROM q").rows()[0]
    expected = groups // EPOCHS * EPOCHS * WINDOWS
    return {
        "bench": "smoothing",
        "case": f"{groups} groups, {policy}",
        "rows_per_s": round(expected / (time.perf_counter() - begun)),
        "correct": tuple(map(int, given)) == (expected, expected),
        "largest_epoch_s": round(max(seconds), 3),
        "median_epoch_s": round(median(seconds), 3),
        "ratio": round(max(seconds) / median(seconds), 2),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run all sizes and policies; 0 when all answers were right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--groups", default="260000,520000", help="groups per window, separated by commas")
    options = parser.parse_args(arguments)
    right = True
    for groups in map(int, options.groups.split(",")):
        for policy in POLICIES:
            log(f"{groups} groups, {policy}")
            line = measure(groups, policy)
            emit(line)
            right = right and bool(line["correct"])
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
