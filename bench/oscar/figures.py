"""Figures 11 to 18: insert, scan, both at once, and how often."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import Any

from bench.common import Budget, emit
from bench.oscar.archives import BATCH, HYBRID, REDUCTIONS, Archive, model, tuples

Lines = list[dict[str, Any]]

#: How often a scan is timed; the median counts.
REPEATS = 3


def inserts(archives: dict[str, Archive], rows: int) -> Lines:
    """Figure 11. Every batch goes into one design after the other, so that all of them see the same machine."""
    for batch in tuples(rows):
        for archive in archives.values():
            archive.insert_batch(batch)
    lines: Lines = []
    for name, archive in archives.items():
        lines.append({
            "bench": "oscar", "case": "insert", "design": name, "rows": rows, "bytes": archive.size(),
            "seconds": round(archive.seconds, 3), "rows_per_s": round(rows / archive.seconds),
        })  # fmt: skip
    plain = lines[0]
    for line in lines:
        line["bytes_share"] = round(line["bytes"] / plain["bytes"], 3)
        line["seconds_share"] = round(line["seconds"] / plain["seconds"], 3)
        emit(line)
    return lines


def scans(archives: dict[str, Archive], rows: int) -> Lines:
    """Figure 12."""
    lines: Lines = []
    for name, archive in archives.items():
        left = 0.0
        for reduction in REDUCTIONS:
            states = ("first", "second", "vacuumed") if name == "modify" and reduction else ("",)
            for state in states:
                if state == "vacuumed":
                    archive.vacuum()
                times = []
                for _ in range(1 if state == "first" else REPEATS):
                    archive.forget()
                    seconds, read = archive.count(reduction)
                    archive.check(read["estimate"], reduction)
                    times.append(seconds)
                share = read["bytes"] / read["full_bytes"] if read.get("full_bytes") else 1.0
                line = {
                    "bench": "oscar", "case": "scan", "design": name, "reduction": reduction, "state": state,
                    "bytes": read.get("bytes"), "groups": read.get("groups"), "full_bytes": read.get("full_bytes"),
                    "full_groups": read.get("full_groups"), "share": round(share, 4),
                    "rows_share": round(read.get("read", 0) / rows, 4),
                    "model": round(model(name, reduction, state, left), 4), "estimate": read["estimate"], "rows": rows,
                    "seconds": round(statistics.median(times), 3), "all_seconds": [round(t, 3) for t in times],
                    "cache": "dropped by fadvise", "correct": not archive.faults,
                }  # fmt: skip
                emit(line)
                lines.append(line)
            left = reduction
    return lines


def rates(archives: dict[str, Archive], seconds: float) -> Lines:
    """Figures 17-18: scans in a stretch of time."""
    lines: Lines = []
    for name, archive in archives.items():
        for reduction in REDUCTIONS:
            until, done, before = time.perf_counter() + seconds, 0, time.perf_counter()
            while time.perf_counter() < until or not done:
                archive.check(archive.count(reduction)[1]["estimate"], reduction)
                done += 1
            rate = done / (time.perf_counter() - before)
            lines.append({
                "bench": "oscar", "case": "rate", "design": name, "reduction": reduction,
                "scans_per_1000_s": round(1000 * rate, 1), "cache": "files were cached", "correct": not archive.faults,
            })  # fmt: skip
            emit(lines[-1])
    return lines


def beside(folder: Path, rows: int, scanners: list[int], budget: Budget, faults: list[str]) -> Lines:
    """Figures 13-16: inserts together with scans, on an archive of a few rows."""
    lines: Lines = []
    longest = 1.0
    for threads in scanners:
        for name in ("plain", HYBRID, "replicate", "modify"):
            for reduction in (0.25, 0.75):
                if not budget.room(1.5 * longest, f"{name} at {reduction} beside {threads} scans"):
                    continue
                begun = time.perf_counter()
                archive = Archive(folder / f"beside-{name}-{reduction}-{threads}", name)
                archive.insert(tuples(rows))
                if name == "modify":
                    archive.count(reduction)
                    archive.vacuum()
                seconds, done = _together(archive, rows, threads, reduction)
                archive.check(archive.count(0.0)[1]["estimate"], 0.0)
                faults += archive.faults
                archive.pond.close()
                lines.append({
                    "bench": "oscar", "case": "beside", "design": name, "reduction": reduction, "scanners": threads,
                    "rows": rows, "insert_seconds": round(seconds, 3), "scans": done,
                    "scans_per_s": round(done / seconds, 2), "cache": "files were cached",
                    "correct": not archive.faults,
                })  # fmt: skip
                emit(lines[-1])
                longest = max(longest, time.perf_counter() - begun)
    return lines


def _together(archive: Archive, rows: int, threads: int, reduction: float) -> tuple[float, int]:
    """Seconds to insert rows again while threads scan, and how often they did."""
    over, done = threading.Event(), [0] * max(threads, 1)

    def scan(place: int) -> None:
        while not over.is_set():
            archive.count(reduction)
            done[place] += 1

    workers = [threading.Thread(target=scan, args=(n,), daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    quarters = [
        q
        for batch in tuples(rows, 2, rows)
        for q in (batch.slice(at, BATCH // 4) for at in range(0, batch.num_rows, BATCH // 4))
    ]
    seconds = archive.insert(iter(quarters))
    scanned = sum(done)
    over.set()
    for worker in workers:
        worker.join()
    return seconds, scanned
