"""Upkeep beside running epochs: compaction of archives and results, retention, sweeping of files nobody names."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from millpond.archive import parse_design
from millpond.archive.copies import eager_copies, section_of, write_copies, write_section
from millpond.archive.design.layout import blocks_for
from millpond.archive.design.lazy import Merged
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.remote import marked_elsewhere, remove_elsewhere
from millpond.archive.storage import StreamRuntime
from millpond.archive.summed.summary_upkeep import maintain_summaries
from millpond.archive.upkeep.copy_maintenance import sweep_copies, unmark, vacuum
from millpond.archive.upkeep.expiry import expire
from millpond.engine.control.epoch import prune_records
from millpond.engine.core import Core
from millpond.engine.jobs.tables import sweep_tables
from millpond.manifests.places import results_folder
from millpond.manifests.records import Manifest, read_manifest
from millpond.operators.row_query.block_files import sweep_hot, sweep_hot_orphans
from millpond.tables import Chunk, DurableWrites, Segment, read_chunks, write_chunks
from millpond.tables.chunks import Payload
from millpond.tables.executors import Parcel
from millpond.tables.stores import remove
from millpond.types import StreamDefinition, from_json, to_json

LOG = logging.getLogger("millpond.engine")

#: Files below this size, and of fewer rows, are merged with their neighbours.
SMALL_FILE = 64 << 20
SMALL_ROWS = 1_000_000
#: Rows of one merged file, and of all that is merged at a time: it is sorted in memory.
MERGED_ROWS = 2_000_000
MOST_ROWS = 2 * MERGED_ROWS
#: How many small files of one level make a merge worth while.
FAN_IN = 8


def maintain(core: Core) -> None:
    """One round of upkeep, one at a time; every part is short and can be killed at any moment.

    A part that fails leaves the others alone. Raises: what the first one raised that failed.
    """
    errors: list[Exception] = []
    with core.upkeep:
        runtimes = list(core.streams.values())
        for part in (
            *(partial(_expire, core, runtime) for runtime in runtimes),
            partial(maintain_summaries, core.archives),
            *(partial(_compact, core, runtime) for runtime in runtimes),
            *(partial(part, core) for part in (compact_results, sweep, sweep_dropped, sweep_tables)),
            partial(sweep_copies, core.archives),
            partial(sweep_hot, core.epochs, core.catalogs.catalog, core.settings.hot_bytes),
            partial(_prune, core),
        ):
            try:
                part()
            except Exception as error:
                LOG.exception("a part of the upkeep fails: %s", error)
                errors.append(error)
    if errors:
        raise errors[0]


def _expire(core: Core, runtime: StreamRuntime) -> None:
    unmark(runtime)
    expire(core.archives, runtime)


def _compact(core: Core, runtime: StreamRuntime) -> None:
    compact_archive(core, runtime)
    vacuum(core.archives, runtime)


def _prune(core: Core) -> None:
    core.register.maintain(_register_needed(core))
    with core.lock:
        prune_records(core)
        core.catalog_log.prune(core.published.version)


def _register_needed(core: Core) -> int:
    """The register version of the last epoch that looked at the register, or is going to."""
    return read_manifest(core.path, core.last_manifest).register if core.last_manifest else 0


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


def compact_archive(core: Core, runtime: StreamRuntime) -> None:
    """Merge small archive files in total order, row ids kept; adds and removes in one commit. Copies follow.

    Files that do not lie as the stream's design says (it was altered) are written anew, too.
    """
    committed = [s for s in runtime.archive.segments if s.last_epoch <= core.published.epoch]
    chosen = chosen_for_merge(committed) or chosen_for_layout(runtime.definition, committed)
    if not chosen:
        return
    names = [section_of(s.path) for s in chosen]
    with core.lock:
        definition = runtime.definition
        copies = runtime.lazy.wanted_of(names) if runtime.is_lazy else eager_copies(definition)
    task = partial(_merge_rows, core.path, to_json(definition), [to_json(s) for s in chosen], copies)
    report = core.executor.run(task, 1, _collect, 1, background=True)[0][0]
    merged = [from_json(Segment, s) for s in report["segments"]]
    runtime.archive.commit(merged, [s.path for s in chosen], moved=True)
    with core.lock:
        runtime.lazy.handle(Merged(names, [section_of(s.path) for s in merged]))
    # Until its commit a copy has no section of the new names, and scans read the archive.
    for copy in copies:
        files = [from_json(Segment, c[copy]) for c in report["copies"]]
        table = core.copy_table(definition.id, copy)
        table.commit(files, [s.path for s in table.segments if section_of(s.path) in set(names)], moved=True)


def chosen_for_layout(stream: StreamDefinition, segments: Sequence[Segment]) -> list[Segment]:
    """Files that the stream's design would have written otherwise, the newest first, as many as fit into a merge."""
    design = parse_design(stream.options.archive)
    run = design.run if design.kind == "randomize" else 0
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


def compact_results(core: Core) -> None:
    """Put the chunks of small result files together; answers stay as they are."""
    chosen = chosen_for_merge([s for s in core.results.segments if s.last_epoch <= core.published.epoch])
    if not chosen:
        return
    live = {f"q{q}" for q in core.catalog.queries}
    task = partial(_merge_chunks, core.path, [to_json(s) for s in chosen], sorted(live))
    reports = core.executor.run(task, 1, _collect, 1, background=True)
    core.results.commit(
        [from_json(Segment, s) for s in reports[0][0]["segments"]], [s.path for s in chosen], moved=True
    )


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


def sweep(core: Core) -> None:
    """Delete files that commits have replaced, when no reader can still hold them; the running epoch keeps its own."""
    with core.lock:
        if core.pins:
            return
        epoch = core.epochs.in_flight
        needed = set() if epoch is None else _files_of(read_manifest(core.path, epoch))
        names = [(t, name) for t in core.storage.tables() for name in t.garbage(needed)]
    for table, name in names:
        remove(os.path.join(table.folder, name))


def _files_of(manifest: Manifest) -> set[str]:
    """Names of the files that an epoch reads: of state, and of archives that its queries look up."""
    return {s.path for s in manifest.state} | {s.path for files in manifest.archive.values() for s in files}


def sweep_dropped(core: Core) -> None:
    """Delete what dropped streams left, once no epoch and no reader can still touch it."""
    with core.lock:
        if core.epochs.in_flight is not None or core.pins:
            return
        live = core.catalog.streams
        for stream in [s for s in core.streams if s not in live]:
            core.streams.pop(stream).log.close()
        homes: dict[str, str] = {}
        for kind in ("streams", "copies", "dead", "intake"):
            for name in os.listdir(os.path.join(core.path, kind)):
                if int(name.rsplit("-", 1)[1]) not in live:
                    folder = os.path.join(core.path, kind, name)
                    if kind == "streams" and (home := marked_elsewhere(folder)) is not None:
                        homes[folder] = home
                    else:
                        shutil.rmtree(folder, ignore_errors=True)
    # An object store may be slow, or not answer at all, and nobody else writes to the place: epochs go on meanwhile.
    gone = [folder for folder, home in homes.items() if remove_elsewhere(core.path, home)]
    with core.lock:
        for folder in gone:
            if marked_elsewhere(folder) == homes[folder]:  # else it is another stream's by now
                shutil.rmtree(folder, ignore_errors=True)


def sweep_orphans(core: Core) -> None:
    """At opening: delete files that killed epochs and jobs left, except what a repeated epoch will need."""
    from millpond.engine.jobs.backfill import ready_backfills

    sweep_hot_orphans(core.epochs)
    needed = {name for a in ready_backfills(core, published=False) for name in a.files()}
    epoch = core.epochs.in_flight
    if epoch is not None:
        needed |= _files_of(read_manifest(core.path, epoch))
    for table in core.storage.tables():
        for name in table.orphans():
            repeated = epoch is not None and name.startswith(f"e{epoch:012d}-") and name.endswith(".parquet")
            if name not in needed and not repeated:
                remove(os.path.join(table.folder, name))
