"""What a small pond costs whatever it takes in: processor time of each operation, with ten rows an epoch.

    python -m bench.fixed_costs [--lives 6]

A life opens a pond without Spark, makes streams and a query, runs six epochs, asks, closes, and opens it again. One
line is printed for each kind of query and operation, with the median in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bench.common import emit, log, scratch

STREAM = "CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')"
OTHER = "CREATE STREAM r (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')"
AD_HOC = "SELECT count(*) AS n, sum(v)::BIGINT AS v FROM s"

#: By kind: what is created, and what is asked.
KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "window": (
        (
            STREAM,
            "CREATE QUERY q AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
        ),
        "SELECT * FROM q",
    ),
    "session": (
        (STREAM, "CREATE QUERY q AS SELECT k, count(*) AS n, sum(v) AS v FROM s [SESSION 5 SECONDS] GROUP BY k"),
        "SELECT * FROM q",
    ),
    "rows": ((STREAM, "CREATE QUERY q AS SELECT count(*) AS n, sum(v) AS v FROM s [ROWS 5]"), "SELECT * FROM q"),
    "relation": (
        (
            STREAM,
            OTHER,
            "CREATE QUERY q AS SELECT s.k, s.v, r.v AS w FROM s [RANGE 10 SECONDS], r [RANGE 10 SECONDS]"
            " WHERE s.k = r.k",
        ),
        "SELECT * FROM q",
    ),
    "derived": (
        (STREAM, "CREATE STREAM x AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k"),
        "SELECT * FROM x",
    ),
    "row query": ((STREAM, "CREATE QUERY q AS SELECT k, v FROM s WHERE v > 2"), "INVOKE q"),
}
ROWS, EPOCHS = 10, 6


class Watch:
    """Processor time by kind of query and operation, milliseconds."""

    def __init__(self) -> None:
        self.spent: dict[tuple[str, str], list[float]] = defaultdict(list)

    @contextmanager
    def of(self, kind: str, operation: str) -> Iterator[None]:
        """Time a block."""
        begun = time.process_time()
        yield
        self.spent[kind, operation].append((time.process_time() - begun) * 1e3)


def batch(number: int) -> list[dict[str, Any]]:
    """The rows of an epoch."""
    start = datetime(2026, 1, 1) + timedelta(seconds=20 * number)
    return [{"ts": start + timedelta(seconds=2 * i), "k": "ab"[i % 2], "v": i} for i in range(ROWS)]


def life(kind: str, home: Path, watch: Watch) -> bool:
    """One life of a pond with a query of a kind. Returns: whether the last answer counts every row."""
    import millpond

    statements, question = KINDS[kind]
    with watch.of(kind, "open"):
        pond = millpond.open(str(home), executor="inline")
    for statement in statements:
        with watch.of(kind, " ".join(statement.split()[:2])):
            pond.sql(statement)
    for number in range(EPOCHS):
        for stream in ("s", "r") if OTHER in statements else ("s",):
            pond.ingest(stream, batch(number))
        with watch.of(kind, "epoch"):
            pond.step()
    for asked in (question, AD_HOC):
        for _ in range(3):
            with watch.of(kind, " ".join(asked.split()[:2])):
                found = pond.sql(asked).rows()
    with watch.of(kind, "close"):
        pond.close()
    with watch.of(kind, "open again"), millpond.open(str(home), executor="inline"):
        pass
    return found == [(EPOCHS * ROWS, EPOCHS * sum(range(ROWS)))]


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.fixed_costs", description=__doc__.split("\n")[0])
    parser.add_argument("--lives", type=int, default=6, help="of each kind of query, after one that is not counted")
    options = parser.parse_args(arguments)
    right = True
    for kind in KINDS:
        watch = Watch()
        with scratch() as home:
            for number in range(options.lives + 1):
                if number == 1:  # modules are loaded
                    watch = Watch()
                right &= life(kind, home / f"{number}", watch)
        for (_, operation), spent in watch.spent.items():
            median = statistics.median(spent)
            log(f"  {kind:<12}{operation:<18}{median:>8.1f} ms")
            emit({"bench": "fixed_costs", "case": f"{kind}: {operation}", "correct": right, "cpu_ms": round(median, 2)})
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
