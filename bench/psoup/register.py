"""Registration: how many queries a second, and whether hundreds of thousands of them slow epochs.

*registered* lines: one at a time, by sixteen threads at once, and in batches, in an empty pond and beside a history.
*epoch* lines: seconds of an epoch with no query, with many, and with many while further ones are registered.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.common import Budget, RunnerFailed, emit, log, ratio, report, run_isolated
from bench.psoup.workload import COLUMNS, MIXES, STREAM, conditions, duckdb_counts, rows, statement

BENCH = "psoup.register"
THREADS = 16
#: How much slower an epoch may become.
TARGET_RATIO = 1.1
#: Rows of an epoch: below what map tasks match ahead, and well above.
SMALL, LARGE = 2_000, 131_072


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said about this part."""
    group = parser.add_argument_group("register")
    group.add_argument("--history", type=int, default=1_000_000, help="rows that registrations stand beside")
    group.add_argument("--registered", type=int, default=100_000, help="queries beside which epochs are timed")
    group.add_argument("--per-second", type=int, default=50, help="registrations a second beside epochs")
    group.add_argument("--epochs", type=int, default=24, help="small epochs that are timed; large ones: a quarter")


def run(options: argparse.Namespace, home: Path, budget: Budget) -> bool:
    """Print the lines; whether all was right."""
    right = True
    tiny = options.tiny
    job = {
        "history": 2_000 if tiny else options.history,
        "registered": 200 if tiny else options.registered,
        "per_second": options.per_second,
        "epochs": 3 if tiny else options.epochs,
        "large": 20_000 if tiny else LARGE,
        "settings": options.settings,
        "seconds": 0.3 if tiny else 4.0,
        "batch": 100 if tiny else 10_000,
        "executor": options.executor,
        "cores": options.cores,
    }
    for part, seconds in (("epochs", 60 + job["registered"] / 1_000), ("rates", 60.0)):
        if not budget.room(0.0 if tiny else seconds, f"register: {part}"):
            continue
        try:
            given = {**job, "part": part, "folder": str(home / part)}
            measured = run_isolated("bench.psoup.register", given, budget.timeout)
            lines = [{"peak_mb": measured.peak_mb, **line} for line in measured.result["lines"]]
        except RunnerFailed as error:
            lines = [{"case": f"{part}-failed", "correct": False, "problems": [str(error)]}]
        for line in lines:
            log(f"{budget.clock} {line['case']}")
            emit({"bench": BENCH, **line})
            right &= line["correct"]
    return right


def _opened(folder: str, executor: str, job: dict[str, Any]) -> Any:
    import millpond

    settings = dict(job["settings"])
    if executor == "spark":
        settings.setdefault("master", f"local[{job['cores']}]")
    pond = millpond.open(folder, executor=executor, **settings)
    pond.ready()
    pond.sql(f"CREATE STREAM {STREAM} ({COLUMNS}) WITH (event_time='ts')")
    return pond


def rates(job: dict[str, Any]) -> dict[str, Any]:
    """Registrations a second, alone and beside a history; the counts of some of them are compared.

    Arguments: job with history, seconds (how long each way is measured), batch, settings, folder, executor.
    """
    chosen = conditions(MIXES["selective"], 131_072)
    lines = []
    for beside in (0, int(job["history"])):
        with _opened(f"{job['folder']}-{beside}", "inline", job) as pond:
            data = rows(max(beside, 1_000))
            if beside:
                pond.ingest(STREAM, data)
                pond.drain()
            texts = iter([statement(c) for c in chosen])
            handles: list[Any] = []
            pond.register(next(texts))
            single = _count(lambda pond=pond, texts=texts, to=handles: to.append(pond.register(next(texts))), job)
            with ThreadPoolExecutor(THREADS) as pool:
                share = list(pool.map(lambda _, pond=pond, texts=texts: _many(pond, texts, job), range(THREADS)))
            threads = sum(n for n, _ in share) / max(t for _, t in share)
            batch = [next(texts) for _ in range(int(job["batch"]))]
            pond.register_many(batch[: len(batch) // 5])
            begin = time.perf_counter()
            made = pond.register_many(batch[len(batch) // 5 :])
            batched = len(made) / (time.perf_counter() - begin)
            if not beside:
                pond.ingest(STREAM, data)
                pond.drain()
            some = range(0, min(len(handles), 64))
            begin = time.perf_counter()
            found = [len(handles[i].result()) for i in some]
            first = 1000 * (time.perf_counter() - begin) / len(some)
            wrong = sum(a != b for a, b in zip(found, _expected(data, [chosen[i + 1] for i in some]), strict=True))
        lines.append(
            {
                "case": f"registered-beside-{beside}",
                "correct": not wrong,
                "history_rows": beside,
                "single_per_s": round(single),
                "threads_per_s": round(threads),
                "threads": THREADS,
                "batch_per_s": round(batched),
                "batch": len(made),
                "first_answer_ms": round(first, 2),
                "checked": len(some),
                "wrong": wrong,
            }
        )
    return {"lines": lines}


def _expected(data: Any, chosen: list[Any]) -> list[int]:
    import pyarrow.parquet as pq

    from bench.common import scratch

    with scratch() as home:
        pq.write_table(data, home / "rows.parquet")
        return duckdb_counts(f"read_parquet('{home}/rows.parquet')", chosen)


def _count(work: Any, job: dict[str, Any]) -> float:
    begin, done = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < float(job["seconds"]):
        work()
        done += 1
    return done / passed


def _many(pond: Any, texts: Any, job: dict[str, Any]) -> tuple[int, float]:
    begin, done = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < float(job["seconds"]):
        pond.register(next(texts))
        done += 1
    return done, passed


class Registering(threading.Thread):
    """Registers queries at a steady rate: all that became due at once, five times a second."""

    def __init__(self, pond: Any, texts: list[str], per_second: int) -> None:
        super().__init__(daemon=True)
        self._pond, self._texts, self._rate = pond, texts, per_second
        self._over = threading.Event()
        self.done = 0

    def run(self) -> None:
        begin = time.perf_counter()
        while not self._over.wait(0.2) and self.done < len(self._texts):
            due = min(len(self._texts), int((time.perf_counter() - begin) * self._rate))
            if due > self.done:
                self._pond.register_many(self._texts[self.done : due])
                self.done = due

    def stop(self) -> None:
        """End, and wait for the last registration."""
        self._over.set()
        self.join()


def epochs(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds from an ingest to the published epoch: no queries; many registered; many, and more coming.

    The three take turns over two ponds (one without queries), so that what else the machine does meets all alike.
    """
    count, per_second = int(job["registered"]), int(job["per_second"])
    mix = MIXES["selective"]
    texts = [statement(c) for c in conditions(mix, count)]
    more = [statement(c) for c in conditions(mix, count, seed=9)][: 600 * per_second]
    lines = []
    executor = job["executor"]
    with (
        _opened(f"{job['folder']}-none", executor, job) as empty,
        _opened(f"{job['folder']}-many", executor, job) as full,
    ):
        begin = time.perf_counter()
        handles = []
        for at in range(0, count, 10_000):
            handles += full.register_many(texts[at : at + 10_000])
        registered = time.perf_counter() - begin
        log(f"  registered {count:,} in {registered:.1f} s")
        none, many = _Fed(empty), _Fed(full)
        for size, turns in ((SMALL, int(job["epochs"])), (int(job["large"]), max(3, int(job["epochs"]) // 4))):
            seconds: dict[str, list[tuple[float, float]]] = {"none": [], "registered": [], "registering": []}
            arrived = 0
            for _ in range(2):  # the first epochs load code in workers
                none.epoch(size)
                many.epoch(size)
            for _ in range(3):
                for _ in range(turns // 3):
                    seconds["none"].append(none.epoch(size))
                    seconds["registered"].append(many.epoch(size))
                thread = Registering(full, more, per_second)
                thread.start()
                for _ in range(turns // 3):
                    seconds["registering"].append(many.epoch(size))
                thread.stop()
                more, arrived = more[thread.done :], arrived + thread.done
            medians = {name: statistics.median(epoch for epoch, _ in taken) for name, taken in seconds.items()}
            wholes = {name: statistics.median(whole for _, whole in taken) for name, taken in seconds.items()}
            some = list(range(0, count, max(1, count // 16)))
            data = pa.concat_tables(many.rows)
            found = [len(handles[i].result()) for i in some]
            expected = _expected(data, [conditions(mix, count)[i] for i in some])
            lines.append(
                {
                    "case": f"epoch-{size}",
                    "correct": found == expected,
                    "executor": executor,
                    "epoch_rows": size,
                    "registered": count,
                    "registration_s": round(registered, 2),
                    "registered_beside": arrived,
                    "per_second": per_second,
                    **{f"{name}_s": round(value, 4) for name, value in medians.items()},
                    **{f"{name}_visible_s": round(value, 4) for name, value in wholes.items()},
                    "epochs": {name: len(taken) for name, taken in seconds.items()},
                    "ratio_registered": ratio(medians["registered"], medians["none"]),
                    "ratio_registering": ratio(medians["registering"], medians["registered"]),
                    "ratio_both": ratio(medians["registering"], medians["none"]),
                    "target_ratio": TARGET_RATIO,
                    "met": medians["registering"] <= TARGET_RATIO * medians["none"],
                    "checked": len(some),
                }
            )
    return {"lines": lines}


class _Fed:
    """A pond that is given rows, an epoch at a time."""

    def __init__(self, pond: Any) -> None:
        self.pond = pond
        self.rows: list[Any] = []
        self._at = 0

    def epoch(self, size: int) -> tuple[float, float]:
        """Give it rows and wait until they are published: seconds that the epoch says, and from ingest to answer."""
        data = rows(size, self._at)
        self._at += size
        self.rows.append(data)
        begin = time.perf_counter()
        self.pond.ingest(STREAM, data)
        self.pond.drain()
        whole = time.perf_counter() - begin
        return float(self.pond.status()["last_epochs"][-1]["seconds"]), whole


if __name__ == "__main__":
    parsed = json.loads(sys.argv[1])
    report({"result": rates(parsed) if parsed["part"] == "rates" else epochs(parsed)})
