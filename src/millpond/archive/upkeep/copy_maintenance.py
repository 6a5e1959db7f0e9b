"""Copy maintenance, OSCAR's vacuumer: it makes the files that copies lack, and drops what nobody needs, on the side.

It reads what is committed, writes files of its own, and commits them to one table at a time; readers hold pinned plans
and never wait for it. What it makes is a function of the section's rows, so it may be killed at any moment and begins
anew: files that no commit names are swept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from millpond.archive.copy_files import doom_copy, eager_copies, remove_doomed, section_of, write_copies
from millpond.archive.design.lazy import Maintain, Make
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import ScanSplit
from millpond.archive.planning.sections import Piece, Section, Version, match
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.retention import keep_of_copies
from millpond.archive.storage import StreamTables
from millpond.manifests.records import read_manifest
from millpond.tables import Segment
from millpond.tables.chunks import Payload
from millpond.tables.executors import Parcel
from millpond.types import StreamDefinition, from_json, to_json

#: Rows whose sections copy maintenance reads in one round; the rest waits for the next.
ROUND_ROWS = 8_000_000


@dataclass(frozen=True)
class Job:
    """One file of a copy to be made. source: what of the section is read for it. whole: the archive's own file."""

    copy: str
    kept: float
    source: Piece
    whole: Segment


def maintain_copies(archives: Archives, runtime: StreamTables) -> None:
    """One round for a stream; call it from upkeep only, one at a time."""
    with archives.pinned():
        with archives.lock:
            stream, epoch = runtime.definition, archives.published.epoch
            sections = {section_of(s.path): s for s in runtime.archive.segments if s.last_epoch <= epoch}
            ordered = sorted(sections, key=lambda s: (sections[s].low, s))
            runtime.tell_stored()
            instructions = runtime.lazy.handle(Maintain(ordered)) if runtime.is_lazy else []
        wanted: dict[str, Mapping[str, float]] = {
            copy: dict.fromkeys(wanted_sections(runtime, copy, sections), kept)
            for copy, kept in eager_copies(stream).items()
        }
        for instruction in instructions:
            if isinstance(instruction, Make):
                wanted[instruction.copy] = instruction.sections
            elif instruction.copy in runtime.copies:
                table = runtime.copies[instruction.copy]
                table.commit([], [s.path for s in table.segments])
        remove_stale(archives, runtime, epoch)
        jobs = jobs_of(runtime, sections, wanted)
        if jobs:
            _run(archives, runtime, jobs)
    with archives.lock:
        runtime.tell_stored()


def wanted_sections(runtime: StreamTables, copy: str, sections: Mapping[str, Segment]) -> list[str]:
    """The sections that a copy is to have: all but those that its own retention has removed."""
    table = runtime.copies.get(copy)
    gone = None if table is None or copy not in keep_of_copies(runtime.definition) else table.snapshot[1]
    return [name for name, whole in sections.items() if gone is None or whole.high >= gone]


def jobs_of(
    runtime: StreamTables, sections: Mapping[str, Segment], wanted: Mapping[str, Mapping[str, float]]
) -> list[Job]:
    """The files to be made, those of new rows first, as many as fit into a round."""
    stored: dict[str, dict[str, Segment]] = {
        copy: {section_of(s.path): s for s in table.segments} for copy, table in runtime.copies.items()
    }
    jobs: list[Job] = []
    rows = 0
    for name, whole in sorted(sections.items(), key=lambda each: (-each[1].high, each[0])):
        versions = [Version("", whole), *(Version(c, s[name]) for c, s in sorted(stored.items()) if name in s)]
        for copy, of in sorted(wanted.items()):
            kept = of.get(name)
            there = stored.get(copy, {}).get(name)
            if kept is None or (there is not None and there.kept == kept):
                continue
            source = match(Section(name, whole.low, whole.high, tuple(versions)), 1 - kept)
            assert source is not None  # the archive's own file is there
            jobs.append(Job(copy, kept, source, whole))
            rows += source.segment.rows
        if rows >= ROUND_ROWS:
            break
    return jobs


def _run(archives: Archives, runtime: StreamTables, jobs: Sequence[Job]) -> None:
    stream = runtime.definition
    width = max(1, min(len(jobs), archives.executor.cores - 1))
    tasks = [to_json(list(jobs[at::width])) for at in range(width)]
    for copy in sorted({job.copy for job in jobs}):
        archives.storage.copy_table(stream.id, copy)
    task = partial(_make, archives.path, to_json(stream), tasks)
    reports = archives.executor.run(task, len(tasks), _collect, 1, background=True)
    made: dict[str, list[Segment]] = {}
    for copy, written in reports[0][0]["segments"]:
        made.setdefault(copy, []).append(from_json(Segment, written))
    for copy, files in sorted(made.items()):
        table = archives.storage.copy_table(stream.id, copy)
        names = {section_of(s.path) for s in files}
        paths = {s.path for s in files}
        replaced = [s.path for s in table.segments if section_of(s.path) in names and s.path not in paths]
        table.commit(files, replaced, moved=True)


def _make(
    pond: str, definition: dict[str, Any], tasks: Sequence[Sequence[dict[str, Any]]], task: int
) -> Iterator[Parcel]:
    stream = from_json(StreamDefinition, definition)
    made = []
    for value in tasks[task]:
        job = from_json(Job, value)
        # Where chance left no row the file is written all the same: a section without one is one still to be made.
        rows = ArchiveReader(pond, stream).table([ScanSplit(Range(), 1 - job.kept, (job.source,))])
        written = write_copies(pond, stream, job.whole, rows, {job.copy: job.kept})
        made.append([job.copy, to_json(written[job.copy])])
    yield Parcel(0, "", task, json.dumps(made).encode())


def _collect(shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    return {"segments": [each for p in parcels for each in json.loads(bytes(p.payload))]}, b""


def remove_stale(archives: Archives, runtime: StreamTables, epoch: int) -> None:
    """Remove files of copies whose section the archive does not name any more, unless they stand for it."""
    present = {section_of(s.path) for s in runtime.archive.segments}
    for table in list(runtime.copies.values()):
        stale = [
            s.path for s in table.segments if section_of(s.path) not in present and not s.sole and s.last_epoch <= epoch
        ]
        if stale:
            table.commit([], stale, moved=True)


def unmark(runtime: StreamTables) -> None:
    """Take back what a removal of rows marked before it was cut off: the rows are still there."""
    present = {section_of(s.path) for s in runtime.archive.segments}
    for table in list(runtime.copies.values()):
        wrong = [replace(s, sole=False) for s in table.segments if s.sole and section_of(s.path) in present]
        if wrong:
            table.commit(wrong, (), moved=True)


def unwanted(runtime: StreamTables) -> set[str]:
    """Copies that neither the stream's design nor the decider of lazy copies has any more."""
    kept = set(eager_copies(runtime.definition)) | (set(runtime.lazy.copies) if runtime.is_lazy else set())
    return {name for name in runtime.copies if name not in kept}


def sweep_copies(archives: Archives) -> None:
    """Delete copies that are not wanted any more, once no epoch writes to them and no reader holds a file of theirs."""
    with archives.lock:
        if archives.storage.pins:
            return
        epoch = archives.epochs.in_flight
        written = read_manifest(archives.path, epoch).copies if epoch is not None else {}
        for runtime in archives.streams.values():
            for name in sorted(unwanted(runtime) - set(written.get(str(runtime.definition.id), {}))):
                doom_copy(archives.path, runtime.definition, name)
                runtime.copies = {n: t for n, t in runtime.copies.items() if n != name}
            if runtime.definition.options.archive_at is not None:  # its name may be wanted again: not beside that
                remove_doomed(archives.path, runtime.definition)
        streams = [r.definition for r in archives.streams.values() if r.definition.options.archive_at is None]
    for stream in streams:
        remove_doomed(archives.path, stream)
