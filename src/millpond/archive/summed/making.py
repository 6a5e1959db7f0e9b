"""Making the entries of summaries that are missing: the partials of files of the archive."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import ScanSplit, divided, whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.storage import Storage
from millpond.archive.summed.entry_files import live_name, write_entry
from millpond.catalog import Summary
from millpond.sources.own_marks import counted
from millpond.synopses import PanesSpec, connection
from millpond.synopses.partials.late_exclusions import CUT, merge_cuts
from millpond.synopses.tolerance import tolerant_partial
from millpond.tables import Segment
from millpond.tables.chunks import Payload
from millpond.tables.executors import InlineExecutor, Parcel
from millpond.types import StreamDefinition, from_json, to_json

#: Rows of files whose entries are made in this process, without a job.
QUICK_ROWS = 3_000_000


def by_cut(stream: StreamDefinition) -> bool:
    """Whether entries tell late rows apart by what they were behind, since windows closed by then do not count them."""
    return stream.options.late == "drop"


def entry_of(spec: PanesSpec, stream: StreamDefinition, parts: Iterator[pa.Table]) -> pa.Table:
    """The partials of rows of a file, given in any number of parts; rows on which an expression fails are left out."""
    db = connection()
    marked = by_cut(stream)
    extra = f"_bound AS {CUT}" if marked else ""
    made = [
        tolerant_partial(spec, counted(rows, stream.options) if marked else rows, extra)[0]
        for rows in parts
        if rows.num_rows
    ]
    return merge_cuts(db, spec, made) if made else pa.table({})


def missing(storage: Storage, summary: Summary, segments: Sequence[Segment]) -> list[Segment]:
    """The files of the archive for which a summary has no entry yet."""
    there = {s.path for s in storage.summaries.segments if s.shard == summary.id}
    return [s for s in segments if live_name(summary.id, s.path) not in there]


def fill_entries(archives: Archives, stream: StreamDefinition, summary: Summary, segments: Sequence[Segment]) -> int:
    """Make the entries that are missing for some files of the archive, and commit them; how many there were.

    Nobody waits for it: until an entry is there, scans read the file.
    """
    with archives.pinned():
        files = missing(archives.storage, summary, segments)
        if not files:
            return 0
        tasks = divided([whole_files(files, Range())], max(1, archives.executor.cores - 1))
        job = {"stream": to_json(stream), "summary": to_json(summary), "tasks": to_json(tasks)}
        executor = InlineExecutor() if sum(s.rows for s in files) <= QUICK_ROWS else archives.executor
        outcomes = executor.run(partial(_fill, archives.path, job), len(tasks), _collect, 1, background=True)
        made = [from_json(Segment, s) for report, _ in outcomes for s in report["segments"]]
        with archives.lock:
            known = {s.path for s in archives.summaries.segments}
            live = summary.id in archives.catalog.summaries
            archives.summaries.commit([s for s in made if s.path not in known] if live else [])
    return len(files)


def _fill(pond: str, job: dict[str, Any], task: int) -> Iterator[Parcel]:
    stream, summary = from_json(StreamDefinition, job["stream"]), from_json(Summary, job["summary"])
    made = []
    reader = ArchiveReader(pond, stream, summary.spec.columns_of(stream))
    for file in (s for value in job["tasks"][task] for s in from_json(ScanSplit, value).segments):
        table = entry_of(summary.spec, stream, reader.rows([whole_files([file], Range())]))
        made.append(to_json(write_entry(pond, summary.id, file, live_name(summary.id, file.path), table)))
    yield Parcel(0, "", task, json.dumps(made).encode())


def _collect(shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    return {"segments": [s for p in parcels for s in json.loads(bytes(p.payload))]}, b""
