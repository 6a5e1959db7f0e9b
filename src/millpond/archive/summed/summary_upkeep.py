"""Upkeep of summaries: entries that stand for nothing go, those of files that go are settled, small ones are merged."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from millpond.archive.open_archives import Archives
from millpond.archive.summed.entry_files import application, entry_tables, live_name, settled_name, write_entry
from millpond.archive.summed.making import fill_entries
from millpond.catalog import Summary
from millpond.manifests.places import summaries_folder
from millpond.manifests.quarantine import Failures
from millpond.progress import NEVER, StreamProgress
from millpond.synopses import connection
from millpond.synopses.partials.late_exclusions import merge_cuts
from millpond.tables import Segment
from millpond.types import StreamDefinition

#: Settled entries of a summary that are put together.
FAN_IN = 8

#: Rows of an entry beyond which it is left alone.
LARGE = 2_000_000


def settle(archives: Archives, stream: StreamDefinition, gone: Sequence[Segment]) -> None:
    """Before files of the archive go: leave entries behind that stand for them."""
    folder = summaries_folder(archives.path)
    for summary in archives.catalog.summaries_of(stream.id):
        fill_entries(archives, stream, summary, gone)
        there = {s.path: s for s in archives.summaries.segments if s.shard == summary.id}
        add, remove = [], []
        for file in gone:
            entry = there.get(live_name(summary.id, file.path))
            if entry is None or settled_name(summary.id, file.path) in there:
                continue
            name = settled_name(summary.id, file.path)
            [table] = entry_tables([os.path.join(folder, entry.path)])
            add.append(write_entry(archives.path, summary.id, replace(entry, level=0), name, table))
            remove.append(entry.path)
        archives.summaries.commit(add, remove)


def maintain_summaries(archives: Archives) -> None:
    """One round of upkeep: entries that stand for nothing go, missing ones are made, small settled ones are merged."""
    catalog, table = archives.catalog, archives.summaries
    by_summary: dict[int, list[Segment]] = defaultdict(list)
    for segment in table.segments:
        by_summary[segment.shard].append(segment)
    table.commit([], [s.path for k, some in by_summary.items() if k not in catalog.summaries for s in some])
    failures = Failures(catalog, "upkeep of summaries")
    for summary in list(catalog.summaries.values()):
        keeping = partial(_maintain, archives, summary, by_summary[summary.id])
        failures.attempt(f"summary {summary.id}", keeping, attempts=1)


def _maintain(archives: Archives, summary: Summary, entries: Sequence[Segment]) -> None:
    """One round of upkeep of a summary, of which there are `entries`."""
    runtime, stream = archives.streams.get(summary.stream), archives.catalog.streams.get(summary.stream)
    if runtime is None or stream is None:
        return
    archive = runtime.archive.segments
    names = {s.path for s in archive}
    live, settled = live_name(summary.id, ""), settled_name(summary.id, "")
    stale = [s.path for s in entries if s.path.startswith(live) and s.path[len(live) :] not in names]
    # Of files that were to go and did not: another retention came first.
    stale += [s.path for s in entries if s.path.startswith(settled) and s.path[len(settled) :] in names]
    archives.summaries.commit([], stale)
    if not summary.lazy:
        fill_entries(archives, stream, summary, [s for s in archive if s.last_epoch <= archives.published.epoch])
    _expire(archives, stream, summary)
    _merge_settled(archives, stream, summary)


def _expire(archives: Archives, stream: StreamDefinition, summary: Summary) -> None:
    """Remove settled entries that are older than the summary's retention, and record up to where they are gone."""
    settled = [
        s
        for s in archives.summaries.segments
        if s.shard == summary.id and s.path.startswith(settled_name(summary.id, ""))
    ]
    progress = archives.published.progress.get(str(stream.id), StreamProgress())
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
        archives.summaries.commit([], [s.path for s in old], application(summary.id), mark - NEVER)


def _merge_settled(archives: Archives, stream: StreamDefinition, summary: Summary) -> None:
    """Put small settled entries together; they stand for rows that are gone, so nothing else changes."""
    prefix = settled_name(summary.id, "")
    small: dict[int, list[Segment]] = defaultdict(list)
    for s in archives.summaries.segments:
        if s.shard == summary.id and s.path.startswith(prefix) and s.rows < LARGE:
            small[s.level].append(s)
    for level, group in sorted(small.items()):
        if len(group) < FAN_IN:
            continue
        group.sort(key=lambda s: (s.low, s.path))
        chosen = group[:FAN_IN]
        folder = summaries_folder(archives.path)
        tables = [t for t in entry_tables([os.path.join(folder, s.path) for s in chosen]) if t.num_rows]
        merged = merge_cuts(connection(), summary.spec, tables) if tables else pa.table({})
        digest = hashlib.blake2b(" ".join(s.path for s in chosen).encode(), digest_size=8).hexdigest()
        span = Segment(
            "", merged.num_rows, 0, min(s.low for s in chosen), max(s.high for s in chosen),
            min(s.first_epoch for s in chosen), max(s.last_epoch for s in chosen), level + 1,
        )  # fmt: skip
        written = write_entry(archives.path, summary.id, span, f"{prefix}merged-{digest}.parquet", merged)
        archives.summaries.commit([written], [s.path for s in chosen], moved=True)
