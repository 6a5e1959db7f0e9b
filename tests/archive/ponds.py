"""Ponds with an archive of a given design, and scans of it as tests see them: ids, weights, counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import millpond
from millpond.archive import kept_fraction
from millpond.archive.design.lazy import Scanned
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import ScanSplit
from millpond.archive.planning.sections import Piece, Section, pieces_of, scanned, sections
from millpond.archive.reading.counters import Counters
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.storage import Storage
from millpond.types import StreamDefinition

#: The fraction of rows to drop, of all sections or of each.
Reduction = float | Callable[[Section], float]

START = 1_767_225_600_000_000


@dataclass(frozen=True)
class Plan:
    """A planned scan: the range, what is read, and the number, rows and bytes of a full scan's sections."""

    wanted: Range
    pieces: tuple[Piece, ...]
    sections: int
    rows: int
    size: int


def plan(
    storage: Storage,
    stream: StreamDefinition,
    wanted: Range,
    reduction: Reduction = 0.0,
    exact: bool = True,
    function: str = "sample",
) -> Plan:
    """Choose what to read of every section of a range, and tell a lazy archive under a function's name."""
    found = sections(storage, stream, wanted)
    wants = [(s, reduction(s) if callable(reduction) else reduction) for s in found]
    pieces = pieces_of(stream, wants, exact)
    read = [(s, drop) for s, drop in wants if drop > 0 or s.whole is not None]
    scanned(storage, stream, Scanned(function, {s.name: kept_fraction(drop) for s, drop in read}, wanted.high is None))
    return Plan(wanted, pieces, len(read), sum(s.rows for s, _ in read), sum(s.size for s, _ in read))


def opened(path: Path, design: str = "plain", lateness: str = "1h") -> Any:
    """A pond with a stream `s`, opened inline."""
    pond = millpond.open(path, executor="inline")
    quoted = design.replace("'", "''")
    pond.sql(
        "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, a BIGINT, k VARCHAR, payload BLOB)"
        f" WITH (event_time = 'ts', lateness = '{lateness}', archive = '{quoted}')"
    )
    return pond


def rows(first: int, count: int, rng: np.random.Generator | None = None) -> pa.Table:
    """Rows a = first, first + 1, …, a millisecond apart; with `rng` in a disorder of up to ten seconds."""
    numbers = np.arange(first, first + count)
    times = START + numbers * 1000
    if rng is not None:
        numbers = numbers[np.argsort(numbers + rng.integers(0, 10_000, count), kind="stable")]
        times = START + numbers * 1000
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "a": pa.array(numbers),
            "k": pa.array([f"k{n % 7}" for n in numbers.tolist()]),
        }
    )


def take(pond: Any, first: int, count: int, rng: np.random.Generator | None = None, payload: bool = True) -> None:
    """Ingest rows as one epoch; with a payload that takes its 20 bytes a row, as most rows do."""
    table = rows(first, count, rng)
    if payload:
        noise = np.random.default_rng(first).bytes(20 * count)
        values = [noise[at : at + 20] for at in range(0, len(noise), 20)]
        table = table.append_column("payload", pa.array(values, pa.binary()))
    pond.ingest("s", table)
    pond.drain()


def scan(
    pond: Any,
    reduction: Reduction = 0.0,
    wanted: Range | None = None,
    exact: bool = True,
    function: str = "sample",
    columns: list[str] | None = None,
) -> tuple[pa.Table, Counters, Plan]:
    """The rows of a scan, what it has read, and its plan."""
    core = pond._core
    stream = core.catalog.stream("s")
    counters = Counters()
    with core.archives.pinned():
        planned = plan(core.storage, stream, wanted or Range(), reduction, exact, function)
        reader = ArchiveReader(core.path, stream, columns, weighted=True, in_order=True, counters=counters)
        found = list(reader.rows([ScanSplit(planned.wanted, 0.0, planned.pieces)]))
    return (pa.concat_tables(found) if found else pa.table({"a": pa.array([], pa.int64())})), counters, planned


def values(pond: Any, reduction: Reduction = 0.0, **more: Any) -> list[int]:
    """The numbers `a` of the rows that a scan gives, sorted."""
    return sorted(scan(pond, reduction, **more)[0]["a"].to_pylist())
