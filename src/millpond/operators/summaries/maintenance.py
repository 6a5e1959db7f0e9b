"""Summary copies of an archive (OSCAR's windowed aggregation): for every archive file an entry with its partials.

An entry holds what a tumbling query needs of the rows of one file, as pane partials: what a standing query keeps, and
made by the same map task where one agrees with the summary. A scan takes the entry in place of the file. When retention
removes the file, its entry stays behind (it is *settled*), so that rows may go after days and their sums after years.

`s<summary>-<file>` stands for a file of the archive, and counts only while that is there; `x<summary>-<file>` for one
that is gone, and counts only then. So whatever a crash leaves between two commits, no row counts twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import ScanSplit, divided, whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.catalog import Summary
from millpond.manifests.places import summaries_folder
from millpond.operators.summaries.entries import live_name, settled_name, write_entry
from millpond.progress import NEVER, StreamProgress
from millpond.sources.own_marks import counted
from millpond.synopses import PanesSpec, connection
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.partials.late_exclusions import CUT, merge_cuts, without_cut
from millpond.synopses.rollup import rolled_up, rolls_up
from millpond.synopses.tolerance import tolerant_partial
from millpond.tables import Segment, read_chunks
from millpond.tables.chunks import Payload
from millpond.tables.executors import InlineExecutor, Parcel
from millpond.types import StreamDefinition, WindowedQuery, from_json, to_json
from millpond.windows.panes import WHOLE

if TYPE_CHECKING:
    from millpond.engine.core import Core

#: Rows of files whose entries are made in this process, without a job.
QUICK_ROWS = 3_000_000

#: Settled entries of a summary that are put together.
FAN_IN = 8

#: Rows of an entry beyond which it is left alone.
LARGE = 2_000_000


@dataclass(frozen=True)
class Served:
    """What a scan reads when a summary serves it.

    entries: those in place of files, and the settled ones. left: files that have none, and are read themselves.
    removed: the event time below which neither rows nor entries are left; None: nothing is missing.
    settled: of the entries, how many stand for rows that are gone.
    """

    summary: Summary
    entries: tuple[Segment, ...]
    left: tuple[Segment, ...]
    removed: int | None
    settled: int


def by_cut(stream: StreamDefinition) -> bool:
    """Whether entries tell late rows apart by what they were behind, since windows closed by then do not count them."""
    return stream.options.late == "drop"


def entry_of(spec: PanesSpec, stream: StreamDefinition, parts: Iterator[pa.Table]) -> pa.Table:
    """The partials of rows of a file, given in any number of parts; rows on which an expression fails are left out."""
    db = connection()
    marked = by_cut(stream)
    extra = f"_bound AS {CUT}" if marked else ""
    made = [
        tolerant_partial(db, spec, counted(rows, stream.options) if marked else rows, extra)[0]
        for rows in parts
        if rows.num_rows
    ]
    return merge_cuts(db, spec, made) if made else pa.table({})


# --- scans ------------------------------------------------------------------------------------------------------------


def served(
    core: Core,
    stream: StreamDefinition,
    needed: Spec,
    queries: Sequence[WindowedQuery],
    wanted: Range,
    hard: bool = True,
    strict: bool = False,
    make: bool = True,
) -> Served | None:
    """The summary that serves a scan, and what is read then; None when none does. Call it while the core is pinned.

    Of several that serve: the one that reaches back furthest, then the one that leaves least to be read from rows. What
    a lazy summary lacks is made first: the scan works it out anyhow.

    Arguments:
        needed: what the panes of the queries hold. queries: all that the scan is for.
        wanted: which rows; hard: the bounds of time in it are meant to the row, and do not only say what is of use.
        strict: a row on which an expression fails must make the query fail, and entries left it out.
        make: whether to make what a lazy summary lacks.
    """
    segments, removed = core.streams[stream.id].archive.snapshot
    found: list[Served] = []
    for summary in core.catalog.summaries_of(stream.id):
        if not all(rolls_up(summary.spec, needed, query) for query in queries):
            continue
        may_fail = strict and not _cannot_fail(summary.spec)
        if summary.lazy and make and not may_fail:
            fill_entries(core, stream, summary, [s for s in segments if _within(s, wanted, hard)])
        found.append(_scan(core, summary, segments, removed, wanted, hard, may_fail))
    best = min(found, key=_worth, default=None)
    return best if best is not None and best.entries else None


def _worth(one: Served) -> tuple[int, int, int]:
    reach = NEVER if one.removed is None else one.removed
    return reach, sum(s.rows for s in one.left), sum(s.rows for s in one.entries)


def _cannot_fail(spec: PanesSpec) -> bool:
    """Whether no row can fail in its expressions, by their looks: bare columns and comparisons of them."""
    bare = all(re.fullmatch(r'"(?:[^"]|"")*"', key) for key in spec.keys)
    where = re.sub(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'", "", spec.where or "")
    return bare and all(c.safe for c in spec.components) and not re.search(r"[-+*/%]|\w\s*\(|CAST", where)


def _within(segment: Segment, wanted: Range, hard: bool) -> bool:
    """Whether the entry of a file can stand for it: all of its rows are wanted, or do no harm."""
    timely = (wanted.low is None or segment.low >= wanted.low) and (wanted.high is None or segment.high < wanted.high)
    return (timely or not hard) and wanted.meets(segment) and _of_epochs(segment, wanted)


def _of_epochs(segment: Segment, wanted: Range) -> bool:
    return wanted.epoch is None or segment.last_epoch <= wanted.epoch


def _scan(
    core: Core,
    summary: Summary,
    segments: Sequence[Segment],
    removed: int | None,
    wanted: Range,
    hard: bool,
    may_fail: bool,
) -> Served:
    there = {s.path: s for s in core.summaries.segments if s.shard == summary.id}
    names = {s.path for s in segments}
    entries, left = [], []
    for segment in segments:
        entry = there.get(live_name(summary.id, segment.path))
        if entry is not None and not may_fail and _within(segment, wanted, hard):
            entries.append(entry)
        elif wanted.meets(segment):
            left.append(segment)
    left.sort(key=lambda s: (s.low, s.path))
    if hard and (wanted.low is not None or wanted.high is not None):
        # Who asks for rows between two instants gets rows: an entry cannot tell those at the edges apart.
        return Served(summary, tuple(entries), tuple(left), removed, 0)
    prefix = settled_name(summary.id, "")
    gone = [s for p, s in there.items() if p.startswith(prefix) and p[len(prefix) :] not in names]
    settled = [s for s in gone if wanted.meets(s) and _of_epochs(s, wanted)]
    reach = None if removed is None else reaches(core, summary)
    return Served(summary, (*entries, *settled), tuple(left), reach, len(settled))


def reaches(core: Core, summary: Summary) -> int | None:
    """The event time below which a summary may lack rows: they were gone before it came, or its retention took them."""
    gone = core.summaries.committed(_application(summary.id))
    known = [t for t in (summary.covered, None if gone < 0 else gone + NEVER) if t is not None]
    return max(known, default=None)


def _application(summary: int) -> str:
    return f"summary {summary}"


def entry_partials(paths: Sequence[str], have: PanesSpec, needed: PanesSpec, low: int | None = None) -> pa.Table:
    """Entries of a summary `have` as the partials of a synopsis, merged.

    low: panes that end by then are of no use.
    """
    db = connection()
    parts = [rolled_up(db, have, needed, c.table) for c in read_chunks(paths) if c.table.num_rows]
    if needed.panes.width >= WHOLE:  # all rows count, whatever they were behind
        parts = [without_cut(db, needed, t) for t in parts]
    elif low is not None:
        since = needed.panes.pane(low)
        parts = [t.filter(pc.greater_equal(t["pane"], since)) for t in parts]
    return merge_cuts(db, needed, parts) if any(t.num_rows for t in parts) else pa.table({})


# --- making entries ---------------------------------------------------------------------------------------------------


def missing(core: Core, summary: Summary, segments: Sequence[Segment]) -> list[Segment]:
    """The files of the archive for which a summary has no entry yet."""
    there = {s.path for s in core.summaries.segments if s.shard == summary.id}
    return [s for s in segments if live_name(summary.id, s.path) not in there]


def fill_entries(core: Core, stream: StreamDefinition, summary: Summary, segments: Sequence[Segment]) -> int:
    """Make the entries that are missing for some files of the archive, and commit them; how many there were.

    Nobody waits for it: until an entry is there, scans read the file.
    """
    with core.pinned():
        files = missing(core, summary, segments)
        if not files:
            return 0
        tasks = divided([whole_files(files, Range())], max(1, core.executor.cores - 1))
        job = {"stream": to_json(stream), "summary": to_json(summary), "tasks": to_json(tasks)}
        executor = InlineExecutor() if sum(s.rows for s in files) <= QUICK_ROWS else core.executor
        outcomes = executor.run(partial(_fill, core.path, job), len(tasks), _collect, 1, background=True)
        made = [from_json(Segment, s) for report, _ in outcomes for s in report["segments"]]
        with core.lock:
            known = {s.path for s in core.summaries.segments}
            live = summary.id in core.catalog.summaries
            core.summaries.commit([s for s in made if s.path not in known] if live else [])
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


# --- upkeep -----------------------------------------------------------------------------------------------------------


def settle(core: Core, stream: StreamDefinition, gone: Sequence[Segment]) -> None:
    """Before files of the archive go: leave entries behind that stand for them."""
    folder = summaries_folder(core.path)
    for summary in core.catalog.summaries_of(stream.id):
        fill_entries(core, stream, summary, gone)
        there = {s.path: s for s in core.summaries.segments if s.shard == summary.id}
        add, remove = [], []
        for file in gone:
            entry = there.get(live_name(summary.id, file.path))
            if entry is None or settled_name(summary.id, file.path) in there:
                continue
            name = settled_name(summary.id, file.path)
            [table] = _tables([os.path.join(folder, entry.path)])
            add.append(write_entry(core.path, summary.id, replace(entry, level=0), name, table))
            remove.append(entry.path)
        core.summaries.commit(add, remove)


def _tables(paths: Sequence[str]) -> list[pa.Table]:
    """What entries hold, one table each."""
    found = []
    for path in paths:
        pieces = [c.table for c in read_chunks([path])]
        found.append(pa.concat_tables(pieces, promote_options="permissive") if len(pieces) > 1 else pieces[0])
    return found


def maintain_summaries(core: Core) -> None:
    """One round of upkeep: entries that stand for nothing go, missing ones are made, small settled ones are merged."""
    catalog, table = core.catalog, core.summaries
    by_summary: dict[int, list[Segment]] = defaultdict(list)
    for segment in table.segments:
        by_summary[segment.shard].append(segment)
    table.commit([], [s.path for k, some in by_summary.items() if k not in catalog.summaries for s in some])
    for summary in list(catalog.summaries.values()):
        runtime = core.streams.get(summary.stream)
        stream = catalog.streams.get(summary.stream)
        if runtime is None or stream is None:
            continue
        archive = runtime.archive.segments
        names = {s.path for s in archive}
        live, settled = live_name(summary.id, ""), settled_name(summary.id, "")
        stale = [s.path for s in by_summary[summary.id] if s.path.startswith(live) and s.path[len(live) :] not in names]
        # Of files that were to go and did not: another retention came first.
        stale += [
            s.path for s in by_summary[summary.id] if s.path.startswith(settled) and s.path[len(settled) :] in names
        ]
        table.commit([], stale)
        if not summary.lazy:
            fill_entries(core, stream, summary, [s for s in archive if s.last_epoch <= core.published.epoch])
        _expire(core, stream, summary)
        _merge_settled(core, stream, summary)


def _expire(core: Core, stream: StreamDefinition, summary: Summary) -> None:
    """Remove settled entries that are older than the summary's retention, and record up to where they are gone."""
    settled = [
        s for s in core.summaries.segments if s.shard == summary.id and s.path.startswith(settled_name(summary.id, ""))
    ]
    progress = core.published.progress.get(str(stream.id), StreamProgress())
    old: list[Segment] = []
    if summary.retention is not None and progress.high > NEVER:
        limit = min(progress.bound, progress.high) - summary.retention
        old = [s for s in settled if s.high < limit]
    if summary.size is not None:
        left = sorted((s for s in settled if s not in old), key=lambda s: (s.high, s.path))
        while left and sum(s.size for s in left) > summary.size:
            old.append(left.pop(0))
    if old:
        mark = max(s.high for s in old) + 1
        core.summaries.commit([], [s.path for s in old], _application(summary.id), mark - NEVER)


def _merge_settled(core: Core, stream: StreamDefinition, summary: Summary) -> None:
    """Put small settled entries together; they stand for rows that are gone, so nothing else changes."""
    prefix = settled_name(summary.id, "")
    small: dict[int, list[Segment]] = defaultdict(list)
    for s in core.summaries.segments:
        if s.shard == summary.id and s.path.startswith(prefix) and s.rows < LARGE:
            small[s.level].append(s)
    for level, group in sorted(small.items()):
        if len(group) < FAN_IN:
            continue
        group.sort(key=lambda s: (s.low, s.path))
        chosen = group[:FAN_IN]
        folder = summaries_folder(core.path)
        tables = [t for t in _tables([os.path.join(folder, s.path) for s in chosen]) if t.num_rows]
        merged = merge_cuts(connection(), summary.spec, tables) if tables else pa.table({})
        digest = hashlib.blake2b(" ".join(s.path for s in chosen).encode(), digest_size=8).hexdigest()
        span = Segment(
            "", merged.num_rows, 0, min(s.low for s in chosen), max(s.high for s in chosen),
            min(s.first_epoch for s in chosen), max(s.last_epoch for s in chosen), level + 1,
        )  # fmt: skip
        written = write_entry(core.path, summary.id, span, f"{prefix}merged-{digest}.parquet", merged)
        core.summaries.commit([written], [s.path for s in chosen], moved=True)
