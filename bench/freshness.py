"""Freshness: from a durable small ingest to its visible answer, idle and beside an ad hoc query over all the archive.

    python -m bench.freshness [--files 24] [--rows 500000] [--trials 40]

Two ways to see an answer are timed, each from the moment `pond.ingest` returned: *pushed*, the closed window arrives
at a subscription; *asked*, `INVOKE` of the query shows the row. Two lines are printed, `idle` and `beside`; in the
second, a thread asks for an aggregate over the whole archive again and again. Targets: medians of .35 s and .8 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases import BASE, STEP, STREAM, Data, table
from bench.common import RunnerFailed, emit, log, report, run_isolated, scratch

#: Rows of a trial; window of the query, one second, so that each trial closes the window of its own rows.
TRIAL_ROWS = 100
SECOND = 1_000_000
TARGETS = {"idle": 0.35, "beside": 0.8}
PATIENCE = 60.0
#: Which archive the trials run beside.
ARCHIVE = Data("ordered")
AD_HOC = f"SELECT k, count(*) AS c, sum(v) AS s FROM {STREAM} GROUP BY k"


class Pushed(threading.Thread):
    """Notes when a subscription delivers each window: its count and the moment."""

    def __init__(self, pond: Any, query: str) -> None:
        super().__init__(daemon=True)
        self._pond, self._query = pond, query
        self._news = threading.Condition()
        self._seen: dict[int, tuple[int, float]] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for batch in self._pond.subscribe(self._query):
                moment = time.perf_counter()
                answers = batch.rows
                ends = answers["window_end"].cast(pa.int64()).to_pylist()
                with self._news:
                    for end, count in zip(ends, answers["c"].to_pylist(), strict=True):
                        self._seen.setdefault(end, (count, moment))
                    self._news.notify_all()
        except BaseException as failure:
            with self._news:
                self.failure = failure
                self._news.notify_all()

    def wait(self, end: int) -> tuple[int, float]:
        """Count of the window that ends at `end` (microseconds), and the moment it was delivered."""
        with self._news:
            if not self._news.wait_for(lambda: end in self._seen or self.failure is not None, PATIENCE):
                raise TimeoutError(f"the window that ends at {end} was not delivered within {PATIENCE:.0f} s")
            if self.failure is not None:
                raise self.failure
            return self._seen[end]


class AdHoc(threading.Thread):
    """Asks for an aggregate over the whole archive again and again."""

    def __init__(self, pond: Any, least: int) -> None:
        super().__init__(daemon=True)
        self._pond, self._least, self._over = pond, least, threading.Event()
        self.seconds: list[float] = []
        self.right, self.failure = True, ""

    def run(self) -> None:
        try:
            while not self._over.is_set():
                begin = time.perf_counter()
                answer = self._pond.sql(AD_HOC).table
                self.seconds.append(time.perf_counter() - begin)
                self.right = self.right and sum(answer["c"].to_pylist()) >= self._least
        except Exception as failure:
            self.right, self.failure = False, repr(failure)

    def stop(self) -> None:
        """End after the query that is running."""
        self._over.set()
        self.join(PATIENCE)


def freshness_run(job: dict[str, Any]) -> dict[str, Any]:
    """Load an archive, then run the trials. Arguments: job with folder, files, rows, trials, executor, settings."""
    import millpond

    with millpond.open(str(Path(job["folder"]) / "pond"), executor=job["executor"], **job["settings"]) as pond:
        pond.ready()
        pond.sql(f"CREATE STREAM {STREAM} (ts TIMESTAMP, k INTEGER, v DOUBLE) WITH (event_time='ts');")
        begin = time.perf_counter()
        for index in range(job["files"]):
            pond.ingest(STREAM, table(ARCHIVE, job["rows"], index))
            if index % 4 == 3:  # keeps the landing log small
                pond.drain()
        pond.drain()
        archived = job["files"] * job["rows"]
        log(f"  {archived:,} rows archived in {time.perf_counter() - begin:.1f} s")
        pond.sql(f"CREATE QUERY fresh AS SELECT count(*) AS c FROM {STREAM} [RANGE 1 SECOND SLIDE 1 SECOND];")
        trials = Trials(pond, BASE + archived * STEP + SECOND)
        pushed = Pushed(pond, "fresh")
        pushed.start()
        for _ in range(5):  # warm-up
            trials.pushed(pushed)
            trials.asked()
        outcome = {"idle": _measure(trials, pushed, job["trials"])}
        beside = AdHoc(pond, archived)
        beside.start()
        while not beside.seconds and beside.is_alive():  # its own warm-up
            time.sleep(0.05)
        outcome["beside"] = _measure(trials, pushed, job["trials"])
        beside.stop()
        outcome["beside"]["correct"] = outcome["beside"]["correct"] and beside.right and len(beside.seconds) > 1
        outcome["beside"]["ad_hoc_queries"] = len(beside.seconds)
        outcome["beside"]["ad_hoc_median_s"] = round(statistics.median(beside.seconds), 3) if beside.seconds else None
        if beside.failure:
            outcome["beside"]["problems"] = [beside.failure]
        report({"phase": "measured"})
    return {"archived": archived, **outcome}


class Trials:
    """Small ingests, each a second of event time after the one before; its last row closes the window of the rest."""

    def __init__(self, pond: Any, start: int) -> None:
        self._pond, self._next, self._rng = pond, start - start % SECOND, np.random.default_rng(1)
        self.right, self.ingests = True, list[float]()
        self._first = True

    def _ingest(self) -> tuple[int, int, float]:
        """Take in one second of rows: its end, the count of its window, the moment `ingest` returned."""
        # A pause of random length, so that trials do not fall in step with anyone's polling.
        time.sleep(float(self._rng.uniform(0.05, 0.25)))
        start, end = self._next, self._next + SECOND
        ts = np.append(np.linspace(start + 1, end - 1, TRIAL_ROWS).astype(np.int64), end)
        rows = pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us")),
                "k": self._rng.integers(0, 100, len(ts)).astype(np.int32),
                "v": self._rng.random(len(ts)),
            }
        )
        begin = time.perf_counter()
        self._pond.ingest(STREAM, rows)
        moment = time.perf_counter()
        self.ingests.append(moment - begin)
        # The row at `start` came with the trial before.
        expected = TRIAL_ROWS + (0 if self._first else 1)
        self._first, self._next = False, end
        return end, expected, moment

    def pushed(self, subscription: Pushed) -> float:
        """Seconds until the window of the rows arrives at the subscription."""
        end, expected, moment = self._ingest()
        count, seen = subscription.wait(end)
        self.right = self.right and count == expected
        return seen - moment

    def asked(self) -> float:
        """Seconds until INVOKE shows the last row (NOW is the stream's largest event time)."""
        end, _, moment = self._ingest()
        target = datetime.fromtimestamp(end / SECOND, UTC).replace(tzinfo=None)
        while time.perf_counter() - moment < PATIENCE:
            answer = self._pond.sql("INVOKE fresh;").table
            if answer.num_rows and max(answer["window_end"].to_pylist()) >= target:
                return time.perf_counter() - moment
            time.sleep(0.005)
        raise TimeoutError(f"INVOKE did not show the row at {target} within {PATIENCE:.0f} s")


def _measure(trials: Trials, subscription: Pushed, count: int) -> dict[str, Any]:
    trials.ingests.clear()
    pushed = [trials.pushed(subscription) for _ in range(count)]
    asked = [trials.asked() for _ in range(count)]
    return {
        "median_s": round(statistics.median(pushed), 3),
        "p95_s": round(float(np.quantile(pushed, 0.95)), 3),
        "asked_median_s": round(statistics.median(asked), 3),
        "asked_p95_s": round(float(np.quantile(asked, 0.95)), 3),
        "ingest_median_s": round(statistics.median(trials.ingests), 4),
        "trials": count,
        "correct": trials.right,
    }


def measure(
    home: Path, files: int, rows: int, executor: str, settings: dict[str, Any], trials: int = 40
) -> list[dict[str, Any]]:
    """Run the trials in a process of their own; the lines to print."""
    home.mkdir(parents=True, exist_ok=True)
    job = {"folder": str(home), "files": files, "rows": rows, "trials": trials, "executor": executor}
    lines: list[dict[str, Any]] = []
    try:
        run = run_isolated("bench.freshness", {**job, "settings": settings})
    except RunnerFailed as error:
        return [{"bench": "freshness", "case": case, "correct": False, "problems": [str(error)]} for case in TARGETS]
    for case, target in TARGETS.items():
        outcome = run.result[case]
        met = max(outcome["median_s"], outcome["asked_median_s"]) <= target
        line = {"bench": "freshness", "case": case, "peak_mb": run.peak_mb, **outcome}
        lines.append({**line, "archived_rows": run.result["archived"], "target": target, "met": met})
    return lines


def main(arguments: list[str]) -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.freshness", description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--executor", default="spark")
    options = parser.parse_args(arguments)
    with scratch() as home:
        lines = measure(home / "freshness", options.files, options.rows, options.executor, {}, options.trials)
    for line in lines:
        emit(line)
    return 0 if all(line["correct"] for line in lines) else 1


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        report({"result": freshness_run(json.loads(sys.argv[1]))})
    else:
        sys.exit(main(sys.argv[1:]))
