"""Live rows beside eight queries over all of history, with REDUCE load() and without: how long rows wait."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.common import emit
from bench.oscar.archives import BASE, Archive
from millpond.engine.control.loop import UPKEEP

#: Queries, and how often each is asked: every so many times what one takes alone. Two processors are full then.
QUERIES, EVERY = 8, 4.0

#: Live rows come at this share of what the engine takes in when nothing else runs.
SHARE = 0.25

#: Seconds between batches, and the setting `target` of the pond: rows may wait for twice as long.
TICK, TARGET = 0.25, 0.5


def lags(archive: Archive, seconds: float) -> list[dict[str, Any]]:
    """Both runs on one archive, without reduction first."""
    capacity = archive.rows / archive.seconds
    archive.pond.close()
    archive.open(target=TARGET)
    question = "SELECT count(*) AS n, avg(userattr) AS a FROM s"
    begun = time.perf_counter()
    archive.pond.sql(question)
    period = EVERY * max(time.perf_counter() - begun, 0.05)
    lines = []
    for reduce in ("", " REDUCE load()"):
        line = _run(archive, question + reduce, period, max(1000, round(capacity * SHARE * TICK)), seconds)
        line |= {"reduce": reduce.strip() or "nothing", "queries": QUERIES, "asked_every_s": round(period, 2)}
        archive.pond.drain()
        archive.check(archive.count(0.0)[1]["estimate"], 0.0)
        emit(line | {"correct": not archive.faults})
        lines.append(line)
    return lines


def _run(archive: Archive, question: str, period: float, each: int, seconds: float) -> dict[str, Any]:
    pond, over = archive.pond, threading.Event()
    answered: list[float] = []

    def ask(number: int) -> None:
        due = time.perf_counter() + period * number / QUERIES
        while not over.wait(max(0.0, due - time.perf_counter())):
            begun = time.perf_counter()
            pond.sql(question)
            answered.append(time.perf_counter() - begun)
            due = max(due + period, time.perf_counter())

    def run() -> None:
        while not over.is_set():
            if not pond.step():
                time.sleep(0.01)

    def keep_up() -> None:  # as a pond that runs does beside its epochs: else every epoch's file stays
        while not over.wait(UPKEEP):
            pond.maintain()

    workers = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(QUERIES)]
    workers += [threading.Thread(target=work, daemon=True) for work in (run, keep_up)]
    for worker in workers:
        worker.start()
    at: list[float] = []
    waits: list[float] = []
    came, start = 0, time.perf_counter()
    while (now := time.perf_counter() - start) < seconds:
        numbers = BASE + (archive.rows + np.arange(each)) * 1000
        batch = {
            "ts": pa.array(numbers, pa.timestamp("us")),
            "timestamp": np.zeros(each),
            "userattr": np.zeros(each, "i4"),
        }
        pond.ingest("s", pa.table(batch))
        archive.rows, came = archive.rows + each, came + each
        oldest = pond._core.storage.oldest_waiting(pond._core.published.intake)
        at.append(now)
        waits.append(0.0 if oldest is None else max(0.0, (pond._core.now() - oldest) / 1e6))
        time.sleep(max(0.0, TICK - (time.perf_counter() - start - now)))
    took = time.perf_counter() - start
    over.set()
    for worker in workers:
        worker.join()
    half = len(waits) // 2
    slope = float(np.polyfit(at[half:], waits[half:], 1)[0]) if len(waits) - half > 1 else 0.0
    return {
        "bench": "oscar", "case": "lag", "rows_per_s": round(came / took), "history_rows": archive.rows - came,
        "target_s": 2 * TARGET, "waits_s": [round(w, 2) for w in waits[:: max(1, len(waits) // 20)]],
        "growth_s_per_s": round(slope, 3), "longest_in_last_half_s": round(max(waits[half:], default=0.0), 2),
        "answers": len(answered), "median_answer_s": round(float(np.median(answered)), 3) if answered else None,
        "dropped_at_end": pond._core.controllers.load.decider.drop,
    }  # fmt: skip
