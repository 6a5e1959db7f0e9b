"""The map step: read a split, archive it, and let every operator make of it what its merge step needs, by shard."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from millpond.archive.copies import keeps_order, write_section
from millpond.archive.segments import DEAD, RowsWriter, archive_folder, dead_folder, write_rows
from millpond.catalog import Catalog
from millpond.engine.intake.split_reader import Taking
from millpond.manifests.records import Manifest
from millpond.operators.contract import Mapped, MapTask, Piece, Taken
from millpond.operators.filters.filter_orders import Screens
from millpond.operators.registry import Operators
from millpond.tables import DurableWrites, Segment
from millpond.tables.executors import Parcel
from millpond.types import to_json


def map_split(pond: str, manifest: Manifest, catalog: Catalog, operators: Operators, task: int) -> Iterator[Parcel]:
    """Run one map task. The files it writes are named by epoch and task, so that a repetition replaces them."""
    started, split = clock.perf_counter(), manifest.splits[task]
    stream, writes = catalog.streams[split.stream], DurableWrites()
    job = MapTask(pond, manifest, catalog, stream, task, Screens(manifest.filters), writes)
    mappers = [m for m in (operator.mapper(job) for operator in operators) if m is not None]
    taking, archive = Taking(manifest, stream, split), _Archive(job)
    held: list[pa.Table] = []
    rows = late = 0
    spent = dict.fromkeys(("read", "archive", "partials"), 0.0)
    pieces = taking.pieces()
    while True:
        begun = clock.perf_counter()
        piece = next(pieces, None)
        read = clock.perf_counter()
        spent["read"] += read - begun
        if piece is None:
            break
        archive.add(piece)
        archived = clock.perf_counter()
        together = Piece(piece, stream)
        for mapper in mappers:
            mapper.add(together)
        spent["archive"] += archived - read
        spent["partials"] += clock.perf_counter() - archived
        rows += piece.num_rows
        late += piece.num_rows - piece["_bound"].null_count
        if archive.whole or any(m.whole for m in mappers):
            held.append(piece)
    begun = clock.perf_counter()
    segment = pa.concat_tables(held) if held else taking.schema.empty_table()
    file = archive.close(segment) if rows else None
    spent["archive"] += clock.perf_counter() - begun
    begun, taken, done = clock.perf_counter(), Taken(Piece(segment, stream), file), Mapped()
    for mapper in mappers:
        mapped = mapper.finish(taken)
        yield from (Parcel(shard, owner, task, payload) for owner, shard, payload in mapped.parcels)
        done.add(mapped)
    matching = done.report.get("seconds", {}).get("matching", 0.0)
    spent["partials"] += clock.perf_counter() - begun - matching
    begun = clock.perf_counter()
    dead = [*taking.dead, *done.dead]
    letters = pa.concat_tables(dead) if dead else DEAD.empty_table()
    files: dict[str, Any] = {} if file is None else {"archive": to_json(file), "copies": {}}
    if letters.num_rows:
        epochs = (manifest.epoch, manifest.epoch)
        files["dead"] = to_json(write_rows(dead_folder(pond, stream), job.file, letters, None, epochs, writes=writes))
    writes.finish()
    report = {
        "stream": stream.id,
        "task": task,
        "rows": rows,
        "late": late,
        "dead": letters.num_rows,
        "unknown": taking.unknown,
        "bytes": sum(i["size"] for i in split.items),
        "summaries": [to_json(s) for s in taking.summaries],
        "failures": done.failures,
        "operators": done.operators,
        "filters": job.screens.report(),
        "entries": {},
        "passed": {},
        **done.report,
        "files": files | done.report.get("files", {}),
        "seconds": {**spent, "matching": matching, "disk": clock.perf_counter() - begun},
        "lasted": clock.perf_counter() - started,
    }
    for shard in range(manifest.shards):
        yield Parcel(shard, "", task, json.dumps(report).encode())


class _Archive:
    """Writes the rows of a map task to the stream's archive, as they come or, where they lie otherwise, at the end.

    whole: whether `close` looks at all rows at once.
    """

    def __init__(self, task: MapTask) -> None:
        epoch, stream = task.manifest.epoch, task.stream
        self._task, self._epochs = task, (epoch, epoch)
        folder = archive_folder(task.pond, stream)
        self._writer = RowsWriter(task.writes, folder, task.file, stream.options.time, self._epochs)
        self.whole = not keeps_order(stream)

    def add(self, rows: pa.Table) -> None:
        """Take in the next rows."""
        if not self.whole:
            self._writer.add(rows)

    def close(self, rows: pa.Table) -> Segment:
        """The file that was written. rows: all of them, where they are needed at once."""
        if not self.whole:
            return self._writer.close()
        task = self._task
        return write_section(task.pond, task.stream, task.file, rows, self._epochs, writes=task.writes)
