"""Soak: steady ingest for a long time while queries come and go; nothing may grow, and the answers must be right.

    python -m bench.soak --minutes 30 [--rate 20000]

One JSON object a line on standard output, one per minute (`case` is `minute`), and one at the end (`case` is `end`):
memory of the process tree, epoch time, number of files and lag, last third beside middle third of the samples, and
whether the long-lived queries' answers equal plain DuckDB over everything that was taken in. Exit status 1 when not
flat or not right.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.agreement import differences
from bench.cases import BASE, STREAM, WindowQuery
from bench.common import emit, log, scratch, tree_memory
from bench.subject import COLUMNS, save

#: Seconds of event time by which rows lag, the lateness announced, and by how much the few late rows are behind.
DISORDER, LATENESS, LATE = 2, 5, 60
#: One row in so many is late and revises closed windows.
LATE_EVERY = 2_000
KEYS = 100
#: Batches a second.
BEAT = 2
LONG_LIVED = (
    WindowQuery("steady_tumbling", 10, 10),
    WindowQuery("steady_sliding", 60, 5, key="k % 10"),
    WindowQuery("steady_uneven", 60, 40, key=None, where="v < 0.5"),
    WindowQuery("steady_filtered", 300, 60, where="k BETWEEN 10 AND 19"),
)
#: How much the last third may exceed the middle third: factor and allowance.
TOLERANCES = {"memory_mb": (1.10, 100.0), "epoch_s": (1.20, 0.05), "files": (1.20, 50.0), "lag_s": (1.20, 5.0)}


def batch(index: int, rows: int, rate: int) -> pa.Table:
    """The rows of one ingest, the same whenever it is asked for: `rate` rows are a second of event time."""
    rng = np.random.default_rng((7, index))
    position = np.arange(rows, dtype=np.int64) + index * rows
    ts = BASE + position * 1_000_000 // rate - rng.integers(0, DISORDER * 1_000_000, rows)
    late = position % LATE_EVERY == LATE_EVERY - 1
    ts[late] -= LATE * 1_000_000
    ts = np.maximum(ts, BASE)
    keys = rng.integers(0, KEYS, rows).astype(np.int32)
    return pa.table({"ts": pa.array(ts, pa.timestamp("us")), "k": keys, "v": rng.random(rows)})


class Ingest(threading.Thread):
    """Takes in batches at a steady beat until told to end; counts what it could not keep up with."""

    def __init__(self, pond: Any, rate: int) -> None:
        super().__init__(daemon=True)
        self._pond, self._rate, self.rows = pond, rate, rate // BEAT
        self.batches, self.behind, self.failure = 0, 0.0, ""
        self.over = threading.Event()

    def run(self) -> None:
        start = time.monotonic()
        try:
            while not self.over.is_set():
                self._pond.ingest(STREAM, batch(self.batches, self.rows, self._rate), key=f"soak-{self.batches}")
                self.batches += 1
                ahead = start + self.batches / BEAT - time.monotonic()
                self.behind = max(0.0, -ahead)
                self.over.wait(max(0.0, ahead))
        except Exception as failure:
            self.failure = repr(failure)


class Churn(threading.Thread):
    """Registers random queries, asks them now and then, and drops them after a while."""

    def __init__(self, pond: Any, most: int, pause: float) -> None:
        super().__init__(daemon=True)
        self._pond, self._most, self._pause = pond, most, pause
        self._rng = np.random.default_rng(3)
        self._lives: dict[str, float] = {}
        self.registered, self.dropped, self.asked, self.failure = 0, 0, 0, ""
        self.over = threading.Event()

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self._step()
                self.over.wait(self._pause)
            for name in self._lives:
                self._drop(name)
        except Exception as failure:
            self.failure = repr(failure)

    def _step(self) -> None:
        now = time.monotonic()
        for name in [name for name, end in self._lives.items() if end <= now]:
            self._drop(name)
            del self._lives[name]
        if len(self._lives) < self._most:
            name = f"churn{self.registered}"
            self._pond.sql(self._query(name).millpond())
            self._lives[name] = now + float(self._rng.uniform(10, 60))
            self.registered += 1
        elif self._lives:
            name = str(self._rng.choice(list(self._lives)))
            self._pond.sql(str(self._rng.choice([f"INVOKE {name};", f"SELECT count(*) AS n FROM {name};"])))
            self.asked += 1

    def _drop(self, name: str) -> None:
        self._pond.sql(f"DROP QUERY {name};")
        self.dropped += 1

    def _query(self, name: str) -> WindowQuery:
        slide = int(self._rng.choice([1, 2, 5, 10, 20]))
        span = slide * int(self._rng.integers(1, 7)) + (slide // 2 if slide > 1 and self._rng.random() < 0.3 else 0)
        key = (None, "k", "k % 10", "k % 7")[int(self._rng.integers(0, 4))]
        low = int(self._rng.integers(0, KEYS))
        where = (None, f"v < {self._rng.random():.3f}", f"k >= {low}", f"k % 9 = {low % 9}")[
            int(self._rng.integers(0, 4))
        ]
        return WindowQuery(name, span, slide, key=key, where=where)


@dataclass
class Samples:
    """What was seen over time."""

    memory_mb: list[float] = field(default_factory=list)
    epoch_s: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)
    log_mb: list[float] = field(default_factory=list)
    lag_s: list[float] = field(default_factory=list)
    _epoch: int = -1

    def take(self, pond: Any, folder: Path, taken: int, rate: int) -> None:
        """Look at the process tree, the pond's folder and the epochs since the last look.

        Arguments: taken, rows ingested so far; what is not yet committed of them is a lag in seconds of `rate` rows.
        """
        self.memory_mb.append(tree_memory(os.getpid()) / 1e6)
        files, log_bytes = folder_size(folder)
        self.files.append(float(files))
        self.log_mb.append(log_bytes / 1e6)
        status = pond.status()
        self.lag_s.append((taken - status["streams"][STREAM]["rows"]) / rate)
        fresh = [e for e in status["last_epochs"] if e["epoch"] > self._epoch]
        if fresh:
            self._epoch = max(e["epoch"] for e in fresh)
            self.epoch_s += [float(e["seconds"]) for e in fresh if e["rows"]]

    def flatness(self) -> dict[str, dict[str, Any]]:
        """Median of the last third beside that of the middle third, with the tolerance, for each measure."""
        found = {}
        for name, (factor, allowance) in TOLERANCES.items():
            values = getattr(self, name)
            third = len(values) // 3
            if third < 3:
                found[name] = {"flat": False, "reason": f"{len(values)} samples are too few"}
                continue
            middle, last = statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])
            bound = middle * factor + allowance
            found[name] = {
                "middle": round(middle, 3),
                "last": round(last, 3),
                "bound": round(bound, 3),
                "tolerance": f"x {factor} + {allowance:g}",
                "flat": last <= bound,
            }
        return found


def folder_size(folder: Path) -> tuple[int, int]:
    """Number of files under a pond, and bytes of its Delta logs. Files that vanish meanwhile are passed over."""
    files = log_bytes = 0
    for home, _, names in os.walk(folder):
        files += len(names)
        if os.path.basename(home) == "_delta_log":
            for name in names:
                try:
                    log_bytes += os.path.getsize(os.path.join(home, name))
                except OSError:
                    continue
    return files, log_bytes


def check(pond: Any, home: Path, batches: int, rows: int, rate: int) -> tuple[int, list[str]]:
    """Compare the long-lived queries' answers with plain DuckDB over all rows: number compared, problems."""
    import duckdb

    everything = home / "everything.parquet"
    schema = batch(0, rows, rate).schema
    with pq.ParquetWriter(everything, schema) as writer:
        for index in range(batches):
            writer.write_table(batch(index, rows, rate))
    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET memory_limit = '4GB'; SET TimeZone = 'UTC'")
    last = connection.sql(f"SELECT epoch_us(max(ts)) FROM read_parquet('{everything}')").fetchall()[0][0]
    compared, problems = 0, []
    for query in LONG_LIVED:
        expected, given = home / "expected" / query.name, home / "given" / query.name
        expected.mkdir(parents=True)
        pq.write_table(
            connection.sql(query.duckdb(f"read_parquet('{everything}')")).to_arrow_table(), expected / "0.parquet"
        )
        save(pond.sql(f"SELECT * FROM {query.name};").table, given)
        slide = query.slide * 1_000_000
        total, wrong, example = differences(expected, given, until=(last - LATENESS * 1_000_000) // slide * slide)
        compared += total
        if wrong:
            problems.append(f"{query.name}: {wrong} of {total} answers differ: {example}")
    return compared, problems


def soak(options: argparse.Namespace, home: Path) -> bool:
    """Run it; whether everything stayed flat and right."""
    import millpond

    folder, samples, peak = home / "pond", Samples(), 0.0
    with millpond.open(str(folder), executor=options.executor) as pond:
        pond.ready()
        pond.sql(
            f"CREATE STREAM {STREAM} ({COLUMNS}) WITH (source='ingest', event_time='ts', lateness='{LATENESS}s'"
            + (f", retention='{options.retention}'" if options.retention else "")
            + ");"
        )
        pond.sql("\n".join(query.millpond() for query in LONG_LIVED))
        ingest, churn = Ingest(pond, options.rate), Churn(pond, options.queries, options.churn)
        start = time.monotonic()
        ingest.start()
        churn.start()
        end, minute = start + options.minutes * 60, 1
        while (now := time.monotonic()) < end and not ingest.failure:
            samples.take(pond, folder, ingest.batches * ingest.rows, options.rate)
            peak = max(peak, samples.memory_mb[-1])
            if now >= start + minute * 60 * options.every:
                emit(_minute(minute * options.every, samples, ingest, churn, pond, now - start))
                minute += 1
            time.sleep(min(options.sample, max(0.0, end - now)))
        churn.over.set()
        churn.join(60)
        ingest.over.set()
        ingest.join(60)
        seconds = time.monotonic() - start
        pond.drain()
        problems = [f"{who}: {text}" for who, text in (("ingest", ingest.failure), ("churn", churn.failure)) if text]
        if churn.is_alive() or ingest.is_alive():
            problems.append("a thread did not come to its end")
        compared, wrong = check(pond, home, ingest.batches, ingest.rows, options.rate)
    flat = samples.flatness()
    fine = all(measure["flat"] for measure in flat.values())
    line = {
        "bench": "soak",
        "case": "end",
        "rows_per_s": round(ingest.batches * ingest.rows / seconds),
        "peak_mb": round(peak, 1),
        "correct": not wrong and not problems,
        "flat": fine,
        "measures": flat,
        "answers_compared": compared,
        "problems": problems + wrong,
        "rows": ingest.batches * ingest.rows,
        "behind_s": round(ingest.behind, 2),
        "queries_registered": churn.registered,
        "queries_dropped": churn.dropped,
    }
    emit(line)
    return fine and bool(line["correct"])


def _minute(minute: float, samples: Samples, ingest: Ingest, churn: Churn, pond: Any, seconds: float) -> dict[str, Any]:
    recent = samples.epoch_s[-60:]
    stream = pond.status()["streams"][STREAM]
    return {
        "bench": "soak",
        "case": "minute",
        "rows_per_s": round(ingest.batches * ingest.rows / seconds),
        "peak_mb": round(max(samples.memory_mb), 1),
        "correct": not ingest.failure and not churn.failure,
        "minute": minute,
        "memory_mb": round(samples.memory_mb[-1], 1),
        "epoch_median_s": round(statistics.median(recent), 3) if recent else None,
        "epochs": len(samples.epoch_s),
        "files": int(samples.files[-1]),
        "delta_log_mb": round(samples.log_mb[-1], 2),
        "rows_ingested": ingest.batches * ingest.rows,
        "rows_committed": stream["rows"],
        "behind_s": round(ingest.behind, 2),
        "queries_registered": churn.registered,
        "queries_dropped": churn.dropped,
        "queries_asked": churn.asked,
        "problems": [text for text in (ingest.failure, churn.failure) if text],
    }


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second")
    parser.add_argument("--queries", type=int, default=12, help="most queries that come and go at a time")
    parser.add_argument("--churn", type=float, default=2.0, help="seconds between two changes")
    parser.add_argument("--sample", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--every", type=float, default=1.0, help="minutes between two lines")
    parser.add_argument("--retention", help="of the stream's archive, e.g. '10m' (default: for ever)")
    parser.add_argument("--executor", default="spark")
    options = parser.parse_args(arguments)
    for name, (factor, allowance) in TOLERANCES.items():
        log(f"{name}: the last third may be {factor} x the middle third + {allowance:g}")
    with scratch("millpond-soak-") as home:
        return 0 if soak(options, home) else 1


if __name__ == "__main__":
    sys.exit(main())
