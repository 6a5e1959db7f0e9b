"""The map step: read a split, archive it, and let every operator make of it what its merge step needs, by shard."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from millpond.archive.archive_files import DEAD, RowsWriter, archive_folder, dead_folder, write_rows
from millpond.archive.copy_files import keeps_order, write_section
from millpond.catalog import Catalog
from millpond.engine.intake.split_reader import Taking
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import Manifest
from millpond.manifests.task_reports import MapFiles, MapReport
from millpond.operators.contract import Mapped, Mapper, MapTask, Piece, Taken
from millpond.operators.filters.filter_orders import Screens
from millpond.operators.registry import Operators
from millpond.tables import DurableWrites, Segment
from millpond.tables.executors import Parcel
from millpond.types import to_json


def map_split(pond: str, manifest: Manifest, catalog: Catalog, operators: Operators, task: int) -> Iterator[Parcel]:
    """Run one map task. The files it writes are named by epoch and task, so that a repetition replaces them."""
    started, split = clock.perf_counter(), manifest.splits[task]
    stream, writes = catalog.streams[split.stream], DurableWrites()
    failures = Failures(catalog, f"epoch {manifest.epoch}, map task {task}")
    job = MapTask(pond, manifest, catalog, stream, task, Screens(manifest.filters), writes, failures)
    made = [(o.owner, failures.attempt(o.owner, partial(o.mapper, job))) for o in operators]
    mappers = {owner: mapper for owner, mapper in made if mapper is not None}
    taking, archive = Taking(manifest, stream, split), _Archive(job)
    spent = dict.fromkeys(("read", "archive", "partials"), 0.0)
    read = _take_in(taking, archive, mappers, failures, spent)
    begun = clock.perf_counter()
    file = archive.close(read.held) if read.rows else None
    spent["archive"] += clock.perf_counter() - begun
    begun, taken, done = clock.perf_counter(), Taken(Piece(read.held, stream), file), Mapped()
    for owner, mapper in mappers.items():
        mapped = None if owner in failures else failures.attempt(owner, partial(mapper.finish, taken))
        if mapped is None:
            mapped = mapper.failed(taken, failures.reasons[owner])
        yield from (Parcel(shard, of, task, payload) for of, shard, payload in mapped.parcels)
        done.add(mapped)
    matching = done.seconds.get("matching", 0.0)
    spent["partials"] += clock.perf_counter() - begun - matching
    begun = clock.perf_counter()
    dead = _write_dead(job, [*taking.dead, *done.dead])
    writes.finish()
    report = MapReport(
        stream.id,
        task,
        read.rows,
        read.late,
        0 if dead is None else dead.rows,
        taking.unknown,
        sum(i["size"] for i in split.items),
        tuple(taking.summaries),
        MapFiles(file, done.copies, dead),
        done.entries,
        failures.reasons,
        done.operators,
        done.passed,
        done.frequent,
        failures.attempt("filters", job.screens.report) or {},
        done.matched,
        {**spent, "matching": matching, "disk": clock.perf_counter() - begun},
        clock.perf_counter() - started,
    )
    told = json.dumps(to_json(report)).encode()
    yield from (Parcel(shard, "", task, told) for shard in range(manifest.shards))


@dataclass(frozen=True)
class _TakenIn:
    """Rows of a split: how many, how many of them late, and all of them, where somebody looks at all at once."""

    rows: int
    late: int
    held: pa.Table


def _take_in(
    taking: Taking, archive: _Archive, mappers: Mapping[str, Mapper], failures: Failures, spent: dict[str, float]
) -> _TakenIn:
    """Show the rows of a split to the archive and to every mapper, piece by piece. spent: seconds, is added to."""
    held: list[pa.Table] = []
    whole = archive.whole or any(m.whole for m in mappers.values())
    rows = late = 0
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
        together = Piece(piece, taking.stream)
        for owner, mapper in mappers.items():
            if owner not in failures:
                failures.attempt(owner, partial(mapper.add, together))
        spent["archive"] += archived - read
        spent["partials"] += clock.perf_counter() - archived
        rows += piece.num_rows
        late += piece.num_rows - piece["_bound"].null_count
        if whole:
            held.append(piece)
    return _TakenIn(rows, late, pa.concat_tables(held) if held else taking.schema.empty_table())


def _write_dead(task: MapTask, dead: Sequence[pa.Table]) -> Segment | None:
    """Write the dead letters of a map task; None: there are none."""
    letters = pa.concat_tables(dead) if dead else DEAD.empty_table()
    if not letters.num_rows:
        return None
    epoch = task.manifest.epoch
    folder = dead_folder(task.pond, task.stream)
    return write_rows(folder, task.file, letters, None, (epoch, epoch), writes=task.writes)


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
