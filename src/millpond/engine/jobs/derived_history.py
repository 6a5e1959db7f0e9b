"""The rows of a derived stream from before its first epoch: a job over its source's archive, done once.

Like a back-fill it covers exactly the epochs before the first live one; what comes live waits until it is done, so that
nothing of the past is late.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.scan_tasks import ScanSplit, divided, whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.catalog import Catalog
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import read_published
from millpond.operators.derived.passed_rows import project, write_passed
from millpond.progress import StreamProgress
from millpond.sources.derived_stream import DerivedSource, derived_folder, write_history
from millpond.sources.system import SystemSource
from millpond.support.errors import EngineError
from millpond.support.event_log import event_log
from millpond.tables.chunks import Payload
from millpond.tables.executors import Parcel
from millpond.types import StreamDefinition, from_json, to_json

LOG = event_log(__name__)

#: Files that one task may write.
_FILES_PER_TASK = 1000


def waiting_histories(archives: Archives) -> list[int]:
    """Derived streams whose past has still to be made and can: the epoch before their first one is published."""
    with archives.lock:
        found = []
        for number, runtime in archives.streams.items():
            source = runtime.source
            if number not in archives.catalog.streams or not isinstance(source, DerivedSource) or not source.waits:
                continue
            if archives.published.epoch >= source.derivation.first_epoch - 1:
                found.append(number)
        return sorted(found)


def run_history(archives: Archives, number: int) -> None:
    """Make the past of one derived stream; a repetition writes the same files."""
    with archives.pinned():
        with archives.lock:
            stream = archives.catalog.streams.get(number)
            if stream is None or stream.derived is None:
                return
            derivation = stream.derived
            source = archives.catalog.streams[derivation.sources[0]]
            epoch = derivation.first_epoch - 1
            before = read_published(archives.path, epoch)
            segments = archives.streams[source.id].archive.segments
        wanted = Range(derivation.since, None, epoch)
        # In the order of intake, so that rows of equal time keep theirs.
        chosen = sorted(segments_in(segments, wanted), key=lambda s: (s.first_epoch, s.path))
        tasks = divided([whole_files(chosen, wanted)], max(1, archives.executor.cores - 1))
        job = partial(_map, archives.path, to_json(source), to_json(stream), to_json(tasks))
        begun = time.perf_counter()
        LOG.info("back-fill started", stream=stream.name)
        try:
            reports = archives.executor.run(job, len(tasks), _collect, 1, background=True)
        except Exception as error:
            raise EngineError(f"the past of stream {stream.name} was not made: {error}") from error
        bound = before.progress.get(str(source.id), StreamProgress()).bound
        with archives.lock:
            if number in archives.catalog.streams:
                write_history(derived_folder(archives.path, stream), epoch, bound, reports[0][0]["files"])
                archives.epochs.notify()
        LOG.info("back-fill finished", stream=stream.name, seconds=time.perf_counter() - begun)


def caught_up(archives: Archives, now: int) -> bool:
    """Whether derived streams, and the system's, have taken all that the published epochs gave for them.

    Args:
        now: the clock, microseconds.
    """
    with archives.lock:
        for number, runtime in archives.streams.items():
            source = runtime.source
            if number not in archives.catalog.streams or not isinstance(source, DerivedSource | SystemSource):
                continue
            source.poll(now, settle=False)
            if (isinstance(source, DerivedSource) and source.waits) or archives.published.intake.get(
                str(number), 0
            ) < runtime.log.length:
                return False
        return True


def _map(pond: str, source: dict[str, Any], stream: dict[str, Any], tasks: list[Any], task: int) -> Iterator[Parcel]:
    taken, given = from_json(StreamDefinition, source), from_json(StreamDefinition, stream)
    assert given.derived is not None
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
