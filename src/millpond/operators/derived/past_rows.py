"""The rows of a derived stream from before its first epoch: a job over its source's archive, done once.

Like a back-fill it covers exactly the epochs before the first live one; what comes live waits until it is done, so that
nothing of the past is late.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.scan_tasks import ScanSplit, divided, whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.retention import retained_from
from millpond.catalog import Catalog
from millpond.manifests.quarantine import Failures
from millpond.operators.contract import Past
from millpond.operators.derived.passed_rows import project, write_passed
from millpond.progress import NEVER, StreamProgress
from millpond.sources.derived_stream import Reached, derived_folder, write_history
from millpond.support.errors import EngineError
from millpond.tables.chunks import Payload
from millpond.tables.executors import Parcel
from millpond.types import StreamDefinition, from_json, to_json
from millpond.types.stream_definitions import RowDerivation

#: Files that one task may write.
_FILES_PER_TASK = 1000


def make_past(stream: StreamDefinition, past: Past) -> None:
    """Make the past of one derived stream; a repetition writes the same files."""
    assert isinstance(stream.derived, RowDerivation)
    derivation, archives = stream.derived, past.archives
    source = past.catalog.streams[derivation.sources[0]]
    epoch = derivation.first_epoch - 1
    seen = [t for t in (derivation.since, retained_from(source, past.known)) if t is not None and t > NEVER]
    wanted = Range(max(seen, default=None), None, epoch)
    # In the order of intake, so that rows of equal time keep theirs.
    segments = segments_in(archives.streams[source.id].archive.segments, wanted)
    chosen = sorted(segments, key=lambda s: (s.first_epoch, s.path))
    tasks = divided([whole_files(chosen, wanted)], max(1, archives.executor.cores - 1))
    job = partial(_map, past.path, to_json(source), to_json(stream), to_json(tasks))
    try:
        reports = archives.executor.run(job, len(tasks), _collect, 1, background=True)
    except Exception as error:
        raise EngineError(f"the past of stream {stream.name} was not made: {error}") from error
    known = past.known.progress.get(str(source.id), StreamProgress())
    reached = Reached(epoch, known.bound, known.groups if stream.options.marked_by else {})
    with archives.lock:
        if stream.id in archives.catalog.streams:
            write_history(derived_folder(past.path, stream), reached, reports[0][0]["files"])


def _map(pond: str, source: dict[str, Any], stream: dict[str, Any], tasks: list[Any], task: int) -> Iterator[Parcel]:
    taken, given = from_json(StreamDefinition, source), from_json(StreamDefinition, stream)
    assert isinstance(given.derived, RowDerivation)
    names = []
    splits = [from_json(ScanSplit, s) for s in tasks[task]]
    failures = Failures(Catalog(), f"the past of stream {given.name}")
    for number, rows in enumerate(ArchiveReader(pond, taken).rows(splits)):
        passed = failures.attempt(given.name, partial(project, taken, given.derived, rows))
        # Files of the past are named by task and batch; their epoch is the one before the first live one.
        name = write_passed(
            pond,
            given,
            given.derived.first_epoch - 1,
            task * _FILES_PER_TASK + number,
            pa.table({}) if passed is None else passed.rows,
        )
        names += [name] if name is not None else []
    yield Parcel(0, "", task, json.dumps(names).encode())


def _collect(shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    files = [name for p in sorted(parcels, key=lambda p: p.task) for name in json.loads(bytes(p.payload))]
    return {"files": files}, b""
