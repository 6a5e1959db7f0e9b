"""The stream, its archives in each design, and what the digest's cost model says of reading them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import millpond
from millpond.archive.planning.scans import description

BASE = 1_767_225_600_000_000
RUN = 64
LEVELS = (0.2, 0.4, 0.6, 0.8)
HYBRID = f"randomize({RUN})"
DESIGNS = {
    "plain": "plain",
    "modify": "modify",
    HYBRID: HYBRID,
    "randomize(10)": "randomize(10)",
    "replicate": f"replicate({', '.join(map(str, LEVELS))})",
}
REDUCTIONS = (0.0, 0.25, 0.5, 0.75, 0.99)

#: Rows of an epoch.
BATCH = 1_000_000

#: By how many standard deviations an estimate may be off; a sound one is by more in two cases of a thousand million.
SIGMAS = 6.0


def tuples(count: int, seed: int = 1, first: int = 0) -> Iterator[pa.Table]:
    """The stream, batch by batch: tuples come at random, a millisecond apart on average; values do not compress.

    Arguments:
        first: how many came before.
    """
    draw = np.random.default_rng(seed)
    for start in range(0, count, BATCH):
        n = min(BATCH, count - start)
        yield pa.table(
            {
                "ts": pa.array(
                    BASE + (first + start) * 1000 + np.sort(draw.integers(0, n * 1000, n)), pa.timestamp("us")
                ),
                "timestamp": pa.array(draw.random(n)),
                "userattr": pa.array(draw.integers(-(2**31), 2**31, n).astype("int32")),
            }
        )


class Archive:
    """A pond with the stream in one design. faults: answers that were wrong, a sentence each."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, self.rows, self.seconds = folder, name, 0, 0.0
        self.faults: list[str] = []
        self.open()
        columns = "ts TIMESTAMP, timestamp DOUBLE, userattr INTEGER"
        self.pond.sql(f"CREATE STREAM s ({columns}) WITH (event_time='ts', archive='{DESIGNS[name]}')")

    def open(self, **settings: Any) -> None:
        """Open its pond."""
        self.pond = millpond.open(self.folder, executor="inline", **{"rows_per_epoch": BATCH, **settings})

    def insert(self, rows: Iterator[pa.Table]) -> float:
        """Seconds of the epochs that take the rows in, landing them not included."""
        before = self.seconds
        for batch in rows:
            self.insert_batch(batch)
        return self.seconds - before

    def insert_batch(self, batch: pa.Table) -> None:
        """Take a batch in as one epoch."""
        self.pond.ingest("s", batch)
        begun = time.perf_counter()
        self.pond.step()
        self.seconds += time.perf_counter() - begun
        self.rows += batch.num_rows

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
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)

    def vacuum(self) -> None:
        """Have the vacuumer make all that scans asked for."""
        for _ in range(50):
            self.pond.maintain()
            lazy = self.pond._core.streams[1].lazy
            if not any(lazy.pending(copy) for copy in lazy.copies):
                break

    def count(self, reduction: float) -> tuple[float, dict[str, Any]]:
        """SELECT count(*) at a reduction, looking at every column: seconds, and what was read."""
        sql = f"SELECT count(*) AS n, max(timestamp) AS t, max(userattr) AS u FROM s REDUCE sample({reduction})"
        before = time.perf_counter()
        table = self.pond.sql(sql).table
        seconds = time.perf_counter() - before
        told = description(table) or {}
        return seconds, dict(told.get("read", {})) | {"estimate": table["n"][0].as_py()}

    def check(self, estimate: float, reduction: float, rows: int | None = None) -> None:
        """Whether a count can be right; a wrong one is remembered."""
        rows, kept = self.rows if rows is None else rows, 1 - reduction
        allowed = SIGMAS * math.sqrt(rows * reduction / kept)
        if abs(estimate - rows) > allowed:
            self.faults.append(f"{self.name}: count(*) at {reduction} is {estimate}, not {rows} +- {allowed:.0f}")


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
