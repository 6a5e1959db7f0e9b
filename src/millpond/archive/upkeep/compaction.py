"""Compaction: small files of archives and results are put together in total order, in the background."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from millpond.archive import parse_design
from millpond.archive.copy_files import eager_copies, section_of, write_copies, write_section
from millpond.archive.design.layout import blocks_for
from millpond.archive.design.lazy import Merged
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.storage import StreamTables
from millpond.manifests.places import results_folder
from millpond.support.event_log import event_log
from millpond.tables import Chunk, DurableWrites, Segment, read_chunks, write_chunks
from millpond.tables.chunks import Payload
from millpond.tables.executors import Parcel
from millpond.types import StreamDefinition, from_json, to_json

LOG = event_log(__name__)

#: Files below this size, and of fewer rows, are merged with their neighbours.
SMALL_FILE = 64 << 20
SMALL_ROWS = 1_000_000
#: Rows of one merged file, and of all that is merged at a time: it is sorted in memory.
MERGED_ROWS = 2_000_000
MOST_ROWS = 2 * MERGED_ROWS
#: How many small files of one level make a merge worth while.
FAN_IN = 8


def chosen_for_merge(segments: Sequence[Segment]) -> list[Segment]:
    """Small files of the lowest level that has enough of them; of one shard where there are shards.

    Never more than MOST_ROWS rows at a time, so that the memory of a merge does not grow with the table.
    """
    groups: dict[tuple[int, int], list[Segment]] = {}
    for segment in segments:
        if segment.size < SMALL_FILE and segment.rows < SMALL_ROWS:
            groups.setdefault((segment.level, segment.shard), []).append(segment)
    for _, group in sorted(groups.items()):
        if len(group) >= FAN_IN:
            group.sort(key=lambda s: (s.first_epoch, s.path))
            taken: list[Segment] = []
            for segment in group:
                if taken and (
                    sum(s.size for s in taken) + segment.size > 4 * SMALL_FILE
                    or sum(s.rows for s in taken) + segment.rows > MOST_ROWS
                ):
                    break
                taken.append(segment)
            return taken if len(taken) > 1 else []
    return []


def compact_archive(archives: Archives, runtime: StreamTables) -> None:
    """Merge small archive files in total order, row ids kept; adds and removes in one commit. Copies follow.

    Files that do not lie as the stream's design says (it was altered) are written anew, too.
    """
    committed = [s for s in runtime.archive.segments if s.last_epoch <= archives.published.epoch]
    chosen = chosen_for_merge(committed) or chosen_for_layout(runtime.definition, committed)
    if not chosen:
        return
    names = [section_of(s.path) for s in chosen]
    with archives.lock:
        definition = runtime.definition
        copies = runtime.lazy.wanted_of(names) if runtime.is_lazy else eager_copies(definition)
    task = partial(_merge_rows, archives.path, to_json(definition), [to_json(s) for s in chosen], copies)
    report = archives.executor.run(task, 1, _collect, 1, background=True)[0][0]
    merged = [from_json(Segment, s) for s in report["segments"]]
    runtime.archive.commit(merged, [s.path for s in chosen], moved=True)
    rows = sum(s.rows for s in merged)
    LOG.info("archive compacted", stream=definition.name, files=len(chosen), into=len(merged), rows=rows)
    with archives.lock:
        runtime.lazy.handle(Merged(names, [section_of(s.path) for s in merged]))
    # Until its commit a copy has no section of the new names, and scans read the archive.
    for copy in copies:
        files = [from_json(Segment, c[copy]) for c in report["copies"]]
        table = archives.storage.copy_table(definition.id, copy)
        table.commit(files, [s.path for s in table.segments if section_of(s.path) in set(names)], moved=True)


def chosen_for_layout(stream: StreamDefinition, segments: Sequence[Segment]) -> list[Segment]:
    """Files that the stream's design would have written otherwise, the newest first, as many as fit into a merge."""
    run = parse_design(stream.options.archive).run
    taken: list[Segment] = []
    for segment in sorted(segments, key=lambda s: (-s.high, s.path)):
        if segment.blocks != blocks_for(segment.rows, run):
            if taken and sum(s.rows for s in taken) + segment.rows > MOST_ROWS:
                break
            taken.append(segment)
    return taken


def _merge_rows(
    pond: str, definition: dict[str, Any], chosen: list[dict[str, Any]], copies: dict[str, float], task: int
) -> Iterator[Parcel]:
    stream = from_json(StreamDefinition, definition)
    segments = [from_json(Segment, s) for s in chosen]
    time = stream.options.time
    rows = ArchiveReader(pond, stream).table([whole_files(segments, Range())])
    rows = rows.sort_by([(time, "ascending"), ("_id", "ascending")])
    epochs = min(s.first_epoch for s in segments), max(s.last_epoch for s in segments)
    level = 1 + max(s.level for s in segments)
    pieces, reduced, writes = [], [], DurableWrites()
    size = -(-rows.num_rows // max(1, -(-rows.num_rows // MERGED_ROWS)))  # pieces of equal size: none stays small
    for number, at in enumerate(range(0, rows.num_rows, max(1, size))):
        name = f"{_merged_name(segments, level)}-{number:04d}.parquet"
        piece = rows.slice(at, size)
        written = write_section(pond, stream, name, piece, epochs, level, writes)
        pieces.append(to_json(written))
        reduced.append(to_json(write_copies(pond, stream, written, piece, copies, writes)))
    writes.finish()
    yield Parcel(0, "", task, json.dumps({"segments": pieces, "copies": reduced}).encode())


def _merged_name(segments: Sequence[Segment], level: int) -> str:
    """Epochs and level for the reader, and what was merged: an epoch with many files may be merged in several parts."""
    digest = hashlib.blake2b(" ".join(s.path for s in segments).encode(), digest_size=4).hexdigest()
    return f"c{min(s.first_epoch for s in segments):012d}-{max(s.last_epoch for s in segments):012d}-{level}-{digest}"


def _collect(shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    """The report of the one task."""
    report: dict[str, Any] = json.loads(bytes(parcels[0].payload))
    return report, b""


def compact_results(archives: Archives) -> None:
    """Put the chunks of small result files together; answers stay as they are."""
    results = archives.storage.results
    chosen = chosen_for_merge([s for s in results.segments if s.last_epoch <= archives.published.epoch])
    if not chosen:
        return
    live = {f"q{q}" for q in archives.catalog.queries}
    task = partial(_merge_chunks, archives.path, [to_json(s) for s in chosen], sorted(live))
    reports = archives.executor.run(task, 1, _collect, 1, background=True)
    merged = [from_json(Segment, s) for s in reports[0][0]["segments"]]
    results.commit(merged, [s.path for s in chosen], moved=True)
    LOG.info("answers compacted", files=len(chosen), into=len(merged))


def _merge_chunks(pond: str, chosen: list[dict[str, Any]], live: list[str], task: int) -> Iterator[Parcel]:
    segments = [from_json(Segment, s) for s in chosen]
    folder = results_folder(pond)
    groups: dict[tuple[str, str, int, tuple[Any, ...]], list[Chunk]] = {}
    for segment in segments:
        for chunk in read_chunks([os.path.join(folder, segment.path)], set(live)):
            # A back-fill's answers count from the epoch that adopted them, which only the segment knows.
            epoch = segment.last_epoch if segment.path.startswith("b") else chunk.epoch
            key = (chunk.owner, chunk.kind, epoch, tuple(chunk.table.schema.names))
            groups.setdefault(key, []).append(replace(chunk, epoch=epoch))
    chunks = [
        Chunk(
            owner,
            kind,
            epoch,
            min(c.low for c in g),
            max(c.high for c in g),
            pa.concat_tables([c.table for c in g], promote_options="permissive"),
        )
        for (owner, kind, epoch, _), g in groups.items()
    ]
    first, last = min(s.first_epoch for s in segments), max(s.last_epoch for s in segments)
    level, shard = 1 + max(s.level for s in segments), segments[0].shard
    name = f"{_merged_name(segments, level)}-{max(shard, 0):04d}.parquet"
    written = write_chunks(folder, name, chunks, shard, level, last)
    merged = [to_json(replace(written, first_epoch=first, last_epoch=last))]
    yield Parcel(0, "", task, json.dumps({"segments": merged}).encode())
