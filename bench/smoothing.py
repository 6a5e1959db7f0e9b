"""Window ends with very many groups: the burst of their answers, and what flush policies make of it (X8).

    python -m bench.smoothing [--groups 260000,520000] [--windows 4]

Counts and sums per group in tumbling windows (Gigascope's Q8-1): every group comes some four times in a window, in
epochs of equal size, on a virtual clock that advances half a second per epoch. Epochs run in this process and are
measured in processor time, so that nothing else on the machine has a say. An epoch's place in its window decides what
it has to do, so the windows are laid over each other and the median is taken place by place: the peak of that profile
is the burst at window ends.

X8 raises the rate until packets are lost, which a burst decides: what can be kept up is an epoch's rows in the time of
the peak. Prints one JSON line per size and policy: peak and median of the profile in seconds, their ratio, the place of
the peak (0: the epoch in which a window closes), how the closing epoch compares with the median, the largest share of
a window's answers that one epoch gives, the rate that is kept up, also relative to answers at once, and whether all
answers were right. Then one line per size with `case: trends`:

- `answers_are_spread`: the sweep (slow) gives at most half of a window's answers in one epoch, which is what the policy
  is for. At once all come together.
- `bursts_are_smaller`, `more_is_kept_up`: with the sweep the peak is smaller for its median, and more rows are kept up
  with, than with answers at once (X8: twice as many). There is nothing to flatten where closing a window is no burst
  (`closing` of answers at once below BURST): both are null then.

The lazy policy is there for comparison: what no collision evicts goes out when the delay is over. Exit status 1 when an
answer is wrong or a trend fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import millpond
from bench.common import emit, log, scratch, whole_numbers
from millpond.testing import VirtualClock

SECOND = 1_000_000

#: Epochs of a window: no multiple of 8, so that state files are not put together at the same places of each.
EPOCHS = 15
POLICIES = ("at once", "lazy", "slow")

#: How many times longer than the median the epoch that closes a window is, if that is a burst.
BURST = 1.5


@dataclass(frozen=True)
class Measured:
    """seconds, given: of each epoch, and how many answers it gave. right: whether these are. size: rows of an epoch."""

    seconds: list[float]
    given: list[int]
    right: bool
    size: int


def rows(groups: int, window: int, epoch: int) -> pa.Table:
    """The rows of one epoch: the next stretch of the groups, which come round some four times in a window."""
    size = 4 * groups // EPOCHS
    group = (epoch * size + np.arange(size, dtype=np.int64)) % groups * 2_654_435_761 % 2**40
    stamp = np.full(size, (window * 10 * SECOND) + epoch * (10 * SECOND // EPOCHS), np.int64)
    length = 40 + group % 1_460
    return pa.table({"ts": pa.array(stamp).cast(pa.timestamp("us")), "source": group, "length": length})


def run(groups: int, policy: str, windows: int) -> Measured:
    """Feed one pond; the first window warms up and closes none."""
    clock, seconds, told = VirtualClock(), [], [0]
    options = f"flush='{policy}'" + ("" if policy == "at once" else ", flush_delay='6s'")
    with scratch() as home, millpond.open(str(home / "pond"), executor="inline", clock=clock) as pond:
        pond.sql(
            "CREATE STREAM packet (ts TIMESTAMP, source BIGINT, length BIGINT) WITH (event_time='ts');"
            f"CREATE QUERY q WITH ({options}) AS"
            " SELECT source, count(*) AS n, sum(length) AS bytes FROM packet [RANGE TUMBLING 10 SECONDS]"
            " GROUP BY source"
        )
        for window in range(windows + 1):
            for epoch in range(EPOCHS):
                pond.ingest("packet", rows(groups, window, epoch))
                clock.advance(SECOND // 2)
                start = time.process_time()
                pond.step()
                seconds.append(time.process_time() - start)
                told.append(pond.sql("SHOW QUERIES").to_arrow()["rows"][0].as_py())
        pond.drain(final=True)
        given = pond.sql("SELECT count(*), sum(n) FROM q").rows()[0]
    size = 4 * groups // EPOCHS
    right = tuple(map(int, given)) == (groups * (windows + 1), size * EPOCHS * (windows + 1))
    return Measured(seconds[EPOCHS:], np.diff(told)[EPOCHS:].tolist(), right, size)


def line(groups: int, policy: str, measured: Measured, at_once: float | None) -> dict[str, Any]:
    """What is printed. at_once: the rate that is kept up with answers at once."""
    laid = [measured.seconds[place::EPOCHS] for place in range(EPOCHS)]
    profile = [median(times) for times in laid]
    peak = max(profile)
    given = [median(measured.given[place::EPOCHS]) for place in range(EPOCHS)]
    kept_up = measured.size / peak
    return {
        "bench": "smoothing",
        "case": f"{groups} groups, {policy}",
        "rows_per_s": round(measured.size * len(measured.seconds) / sum(measured.seconds)),
        "correct": measured.right,
        "peak_s": round(peak, 3),
        "median_s": round(median(profile), 3),
        "ratio": round(peak / median(profile), 2),
        "place": profile.index(peak),
        "closing": round(profile[0] / median(profile), 2),
        "largest_share": round(max(given) / groups, 2),
        "longest_s": round(max(measured.seconds), 3),
        "kept_up_rows_per_s": round(kept_up),
        "to_at_once": round(kept_up / (at_once or kept_up), 2),
    }


def trends(groups: int, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether the figures of one size have the shape that X8 states."""
    once, slow = lines[POLICIES.index("at once")], lines[POLICIES.index("slow")]
    burst = once["closing"] >= BURST
    found = {
        "answers_are_spread": slow["largest_share"] <= once["largest_share"] / 2,
        "bursts_are_smaller": slow["ratio"] < once["ratio"] if burst else None,
        "more_is_kept_up": slow["kept_up_rows_per_s"] > once["kept_up_rows_per_s"] if burst else None,
    }
    right = all(value is not False for value in found.values())
    return {"bench": "smoothing", "case": "trends", "groups": groups, "burst": burst, **found, "correct": right}


def main(arguments: list[str] | None = None) -> int:
    """Run all sizes and policies; 0 when all answers were right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--groups", type=whole_numbers, default=[260_000, 520_000], help="groups per window, separated by commas"
    )
    parser.add_argument("--windows", type=int, default=4, help="windows that are measured")
    options = parser.parse_args(arguments)
    right = True
    for groups in options.groups:
        at_once = None
        lines = []
        for policy in POLICIES:
            log(f"{groups} groups, {policy}")
            found = line(groups, policy, run(groups, policy, options.windows), at_once)
            at_once = at_once or found["kept_up_rows_per_s"]
            emit(found)
            lines.append(found)
        lines.append(trends(groups, lines))
        emit(lines[-1])
        right = right and all(each["correct"] for each in lines)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
