"""OSCAR, section 3 of its experiments: what archives of four designs cost to write, and to read at a reduction.

    python -m bench.oscar [--rows 20000000] [--minutes 10] [--scanners 0,1,2,3,4,6,8]

Tuples are `(ts TIMESTAMP, timestamp DOUBLE, userattr INTEGER)`, queries count rows and look at every column, so that a
scan reads whole tuples as a row store's count(*) does. Everything runs in one process; inserts are epochs of the
engine. One JSON object a line on standard output, counted bytes and row groups first, then seconds:

    case insert    Figure 11: design, rows, seconds, bytes on disk, as shares of plain
    case scan      Figure 12: design, reduction, state ('first', 'second', 'vacuumed' of modify), bytes and groups read,
                   share of a full scan, the model's share (digest, section 2), seconds with the files dropped from the
                   page cache
    case beside    Figures 13-16: inserts beside N scanning threads at 25 and 75 %: seconds of inserts, scans completed
    case rate      Figures 17-18: scans per 1,000 s against the reduction
    case lag       live ingest beside 8 full-history queries, with REDUCE load() and without: rows that wait
    case checks    whether the trends hold; exit status 1 if one that is counted (bytes, groups) does not

When the rows asked for would take longer than `--minutes`, fewer are used, and the first line says how many.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import millpond
from bench.common import emit, log, scratch
from millpond.engine.reducing import description

BASE = 1_767_225_600_000_000
RUN = 64
LEVELS = (0.2, 0.4, 0.6, 0.8)
DESIGNS = {
    "plain": "plain",
    "modify": "modify",
    f"randomize({RUN})": f"randomize({RUN})",
    "randomize(10)": "randomize(10)",
    "replicate": f"replicate({', '.join(map(str, LEVELS))})",
}
REDUCTIONS = (0.0, 0.25, 0.5, 0.75, 0.99)

#: Rows of an epoch.
BATCH = 1_000_000


def tuples(count: int, seed: int = 1) -> Iterator[pa.Table]:
    """The stream, batch by batch: tuples come at random, a millisecond apart on average; values do not compress."""
    draw = np.random.default_rng(seed)
    for start in range(0, count, BATCH):
        n = min(BATCH, count - start)
        yield pa.table(
            {
                "ts": pa.array(BASE + start * 1000 + np.sort(draw.integers(0, n * 1000, n)), pa.timestamp("us")),
                "timestamp": pa.array(draw.random(n)),
                "userattr": pa.array(draw.integers(-(2**31), 2**31, n).astype("int32")),
            }
        )


class Archive:
    """A pond with the stream in one design."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.pond = millpond.open(folder, executor="inline", rows_per_epoch=BATCH)
        columns = "ts TIMESTAMP, timestamp DOUBLE, userattr INTEGER"
        self.pond.sql(f"CREATE STREAM s ({columns}) WITH (progress='ts', archive='{DESIGNS[name]}')")

    def insert(self, rows: Iterator[pa.Table]) -> float:
        """Seconds of the epochs that take the rows in, landing them not included."""
        seconds = 0.0
        for batch in rows:
            self.pond.ingest("s", batch)
            before = time.perf_counter()
            self.pond.step()
            seconds += time.perf_counter() - before
        return seconds

    @property
    def files(self) -> list[Path]:
        """The files of the archive and its copies."""
        return [
            p
            for kind in ("streams", "copies")
            for p in (self.folder / kind).rglob("*.parquet")
            if "_delta" not in str(p)
        ]

    def size(self) -> int:
        """Their bytes."""
        return sum(p.stat().st_size for p in self.files)

    def forget(self) -> None:
        """Have the files leave the page cache."""
        for path in self.files:
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)

    def count(self, reduction: float) -> tuple[float, dict[str, Any]]:
        """SELECT count(*) at a reduction: seconds, and what was read."""
        reduce = f" REDUCE sample({reduction})" if reduction else " REDUCE sample(0)"
        before = time.perf_counter()
        table = self.pond.sql(f"SELECT count(*) AS n, max(timestamp) AS t, max(userattr) AS u FROM s{reduce}").table
        seconds = time.perf_counter() - before
        told = description(table) or {}
        return seconds, dict(told.get("read", {})) | {"estimate": table["n"][0].as_py()}


def model(design: str, reduction: float, state: str = "", before: float = 0.0) -> float:
    """The share of blocks that a scan reads (digest, section 2).

    before: of modify, how much the copy lacks that an earlier scan has left: a first and a second scan read that.
    """
    wanted = 1 - reduction
    if design == "replicate":
        return min([1.0, *(1 - d for d in LEVELS if d <= reduction + 1e-9)])
    if design.startswith("randomize"):
        run = int(design[10:-1])
        return math.ceil(round(wanted * run, 9)) / run
    return 1.0 if design == "plain" else wanted if state == "vacuumed" else 1 - before


def fitting(asked: int, minutes: float, folder: Path) -> int:
    """How many rows can be used in the time that there is; measured on one epoch of the dearest design."""
    archive = Archive(folder / "trial", "replicate")
    seconds = archive.insert(tuples(BATCH))
    scan = archive.count(0.0)[0]
    archive.pond.close()
    # Five designs are written, some 60 scans read, and the concurrent cases take about as long again.
    per_million = 2 * (5 * seconds + 60 * scan)
    return max(BATCH // 4, min(asked, int(minutes * 60 / max(per_million, 1e-9) * BATCH)))


def inserts(archives: dict[str, Archive], rows: int) -> list[dict[str, Any]]:
    """Figure 11."""
    lines: list[dict[str, Any]] = []
    for name, archive in archives.items():
        seconds = archive.insert(tuples(rows))
        lines.append(
            {
                "bench": "oscar",
                "case": "insert",
                "design": name,
                "rows": rows,
                "bytes": archive.size(),
                "seconds": round(seconds, 3),
            }
        )
    plain = lines[0]
    for line in lines:
        line["bytes_share"] = round(line["bytes"] / plain["bytes"], 3)
        line["seconds_share"] = round(line["seconds"] / plain["seconds"], 3)
        emit(line)
    return lines


def scans(archives: dict[str, Archive], rows: int) -> list[dict[str, Any]]:
    """Figure 12."""
    lines = []
    for name, archive in archives.items():
        left = 0.0
        for reduction in REDUCTIONS:
            states = ("first", "second", "vacuumed") if name == "modify" and reduction else ("",)
            for state in states:
                if state == "vacuumed":
                    for _ in range(4):
                        archive.pond.maintain()
                archive.forget()
                seconds, read = archive.count(reduction)
                share = read["bytes"] / read["full_bytes"] if read.get("full_bytes") else 1.0
                line = {
                    "bench": "oscar", "case": "scan", "design": name, "reduction": reduction, "state": state,
                    "bytes": read.get("bytes"), "groups": read.get("groups"), "full_bytes": read.get("full_bytes"),
                    "full_groups": read.get("full_groups"), "share": round(share, 4),
                    "rows_share": round(read.get("read", 0) / rows, 4),
                    "model": round(model(name, reduction, state, left), 4),
                    "estimate": read["estimate"], "rows": rows,
                    "seconds": round(seconds, 3), "cache": "dropped by fadvise",
                }  # fmt: skip
                emit(line)
                lines.append(line)
            left = reduction
    return lines


def beside(folder: Path, rows: int, scanners: list[int]) -> None:
    """Figures 13-16: inserts together with scans."""
    for name in ("plain", f"randomize({RUN})", "replicate", "modify"):
        for reduction in (0.25, 0.75):
            for threads in scanners:
                archive = Archive(folder / f"beside-{name}-{reduction}-{threads}", name)
                archive.insert(tuples(rows))
                if name == "modify":
                    archive.count(reduction)
                    archive.pond.maintain()
                over, done = threading.Event(), [0] * max(threads, 1)

                def scan(
                    place: int, archive: Archive = archive, over: Any = over, done: Any = done, d: float = reduction
                ) -> None:
                    while not over.is_set():
                        archive.count(d)
                        done[place] += 1

                workers = [threading.Thread(target=scan, args=(n,), daemon=True) for n in range(threads)]
                for worker in workers:
                    worker.start()
                seconds = archive.insert(tuples(rows, seed=2))
                over.set()
                for worker in workers:
                    worker.join()
                emit({
                    "bench": "oscar", "case": "beside", "design": name, "reduction": reduction, "scanners": threads,
                    "rows": rows, "insert_seconds": round(seconds, 3), "scans": sum(done) if threads else 0,
                    "cache": "files were cached",
                })  # fmt: skip
                archive.pond.close()


def rates(archives: dict[str, Archive], seconds: float) -> None:
    """Figures 17-18: scans in a stretch of time."""
    for name, archive in archives.items():
        for reduction in REDUCTIONS:
            until, done, before = time.perf_counter() + seconds, 0, time.perf_counter()
            while time.perf_counter() < until or not done:
                archive.count(reduction)
                done += 1
            rate = done / (time.perf_counter() - before)
            emit({
                "bench": "oscar", "case": "rate", "design": name, "reduction": reduction,
                "scans_per_1000_s": round(1000 * rate, 1), "cache": "files were cached",
            })  # fmt: skip


def lag(folder: Path, rows: int, seconds: float) -> list[dict[str, Any]]:
    """Live rows beside 8 threads that count all of history, with REDUCE load() and without."""
    lines = []
    for reduce in ("", " REDUCE load()"):
        archive = Archive(folder / f"lag{len(reduce)}", f"randomize({RUN})")
        took = archive.insert(tuples(rows))
        pond, over = archive.pond, threading.Event()
        # Rows come at two thirds of what the engine takes in when nothing else runs.
        each = max(1000, int(rows / max(took, 1e-6) * 2 / 3 / 4))

        def ask(reduce: str = reduce, pond: Any = pond, over: Any = over) -> None:
            while not over.is_set():
                pond.sql(f"SELECT count(*) AS n, avg(userattr) AS a FROM s{reduce}")

        def run(pond: Any = pond, over: Any = over) -> None:
            while not over.is_set():
                if not pond.step():
                    time.sleep(0.01)

        workers = [threading.Thread(target=t, daemon=True) for t in (*([ask] * 8), run)]
        for worker in workers:
            worker.start()
        waiting, at, before = [], rows, time.perf_counter()
        while time.perf_counter() - before < seconds:
            tick = time.perf_counter()
            pond.ingest("s", pa.table({
                "ts": pa.array(BASE + (at + np.arange(each)) * 1000, pa.timestamp("us")),
                "timestamp": pa.array(np.zeros(each)),
                "userattr": pa.array(np.zeros(each, np.int32)),
            }))  # fmt: skip
            at += each
            waiting.append(at - pond.status()["streams"]["s"]["rows"])
            time.sleep(max(0.0, 0.25 - (time.perf_counter() - tick)))
        over.set()
        for worker in workers:
            worker.join()
        half = waiting[len(waiting) // 2 :]
        line = {
            "bench": "oscar", "case": "lag", "reduce": reduce.strip() or "nothing", "rows_per_second": each * 4,
            "waiting": waiting[:: max(1, len(waiting) // 20)], "last_half_growth": half[-1] - half[0] if half else 0,
            "largest": max(waiting),
        }  # fmt: skip
        emit(line)
        lines.append(line)
        pond.close()
    return lines


def checks(written: list[dict[str, Any]], read: list[dict[str, Any]], lags: list[dict[str, Any]]) -> bool:
    """Whether the digest's trends hold. Those that are counted decide; those of the clock are shown."""
    by = {(r["design"], r["reduction"], r["state"]): r for r in read}
    hybrid, plain = f"randomize({RUN})", by["plain", 0.0, ""]
    deviations = {
        f"{r['design']} at {r['reduction']}{' ' + r['state'] if r['state'] else ''}": round(
            r["share"] / r["model"] - 1, 4
        )
        for r in read
        if r["model"] > 0.02
    }
    inserted = {line["design"]: line for line in written}
    errors = [abs(r["estimate"] / r["rows"] - 1) for r in read if r["reduction"] <= 0.75]
    counted = {
        "bytes_within_5_percent_of_model": all(abs(d) <= 0.05 for d in deviations.values()),
        "tuples_within_5_percent_of_model": all(
            abs(r["rows_share"] / r["model"] - 1) <= 0.05 for r in read if r["model"] > 0.02
        ),
        "plain_is_flat": all(by["plain", d, ""]["bytes"] == plain["bytes"] for d in REDUCTIONS),
        "replicate_is_a_step_function": by["replicate", 0.75, ""]["share"] > 0.35
        and by["replicate", 0.99, ""]["share"] > 0.15,
        "replicate_stops_gaining_where_hybrid_goes_on": by["replicate", 0.99, ""]["share"]
        > 3 * by[hybrid, 0.99, ""]["share"],
        "modify_falls_after_the_vacuum": by["modify", 0.75, "vacuumed"]["share"]
        < 0.6 * by["modify", 0.75, "second"]["share"],
        "replicate_writes_three_times": 2.7 < inserted["replicate"]["bytes_share"] < 3.3,
        "estimates_within_1_percent": max(errors) < 0.01,
    }
    timed = {
        "hybrid_insert_share": inserted[hybrid]["seconds_share"],
        "hybrid_insert_at_most_1_15": inserted[hybrid]["seconds_share"] <= 1.15,
        "hybrid_75_scan_share": round(by[hybrid, 0.75, ""]["seconds"] / by[hybrid, 0.0, ""]["seconds"], 3),
        "hybrid_75_scan_at_most_0_35": by[hybrid, 0.75, ""]["seconds"] <= 0.35 * by[hybrid, 0.0, ""]["seconds"],
        "eager_insert_sublinear_in_bytes": inserted["replicate"]["seconds_share"]
        < inserted["replicate"]["bytes_share"],
        "lag_bounded_with_load": lags[1]["last_half_growth"] <= 0.2 * max(1, lags[0]["last_half_growth"])
        if lags
        else None,
    }
    emit({"bench": "oscar", "case": "checks", "counted": counted, "timed": timed, "deviations": deviations})
    return all(counted.values())


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments; 0 when what is counted is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--scanners", default="0,1,2,3,4,6,8")
    parser.add_argument("--seconds", type=float, default=20, help="of each run of case lag")
    given = parser.parse_args(arguments)
    with scratch("oscar") as folder:
        rows = fitting(given.rows, given.minutes, folder)
        emit({"bench": "oscar", "case": "size", "rows": rows, "asked": given.rows, "minutes": given.minutes})
        archives = {name: Archive(folder / name, name) for name in DESIGNS}
        log(f"{rows} rows into {len(archives)} designs")
        written = inserts(archives, rows)
        read = scans(archives, rows)
        rates(archives, max(0.2, min(3.0, given.minutes / 3)))
        for archive in archives.values():
            archive.pond.close()
        few = min(rows, 1_000_000)
        beside(folder, few, [int(n) for n in given.scanners.split(",")])
        lags = lag(folder, few, given.seconds) if given.seconds else []
        return 0 if checks(written, read, lags) else 1


if __name__ == "__main__":
    sys.exit(main())
