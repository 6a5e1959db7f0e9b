"""Which summary serves a scan, and what is read then: entries in place of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.storage import Storage
from millpond.archive.summed.entry_files import application, live_name, settled_name
from millpond.archive.summed.making import fill_entries
from millpond.catalog import Summary
from millpond.progress import NEVER
from millpond.synopses import PanesSpec, connection
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.partials.late_exclusions import merge_cuts, without_cut
from millpond.synopses.rollup import rolled_up
from millpond.tables import Segment, read_chunks
from millpond.tables.segments import Snapshot
from millpond.types import StreamDefinition, WindowedQuery
from millpond.windows.pane_layout import WHOLE


@dataclass(frozen=True)
class Sums:
    """Partials that may stand in for rows.

    spec: what they must have; None: none can. queries: all that they are for. strict: a row on which an expression
    fails makes them fail. hard: the bounds of a range are meant to the row, and do not only say what is of use.
    """

    spec: Spec | None
    queries: tuple[WindowedQuery, ...]
    strict: bool = False
    hard: bool = True

    def by(self, interval: int) -> Sums:
        """The same where rows are seen at the start of their interval (microseconds); 0: where they are not."""
        return self if self.spec is None else replace(self, spec=self.spec.at_intervals(interval))


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


def served(
    archives: Archives,
    stream: StreamDefinition,
    sums: Sums,
    wanted: Range,
    snapshot: Snapshot | None = None,
    make: bool = True,
) -> Served | None:
    """The summary that serves a scan, and what is read then; None when none does.

    Call it while the archives are pinned. Of several that serve: the one that reaches back furthest, then the one that
    leaves least to be read from rows. What a lazy summary lacks is made first: the scan works it out anyhow.

    Args:
        wanted: which rows.
        snapshot: of the archive, where it has been looked at before; None: as it is now.
        make: whether to make what a lazy summary lacks.
    """
    needed = sums.spec
    if needed is None:
        return None
    snapshot = archives.streams[stream.id].archive.snapshot if snapshot is None else snapshot
    found: list[Served] = []
    for summary in archives.catalog.summaries_of(stream.id):
        if not all(summary.spec.rolls_up(needed, query) for query in sums.queries):
            continue
        may_fail = sums.strict and not _cannot_fail(summary.spec)
        if summary.lazy and make and not may_fail:
            fill_entries(archives, stream, summary, [s for s in snapshot[0] if _within(s, wanted, sums.hard)])
        found.append(_scan(archives, summary, snapshot, sums.hard, wanted, may_fail))
    best = min(found, key=_worth, default=None)
    return best if best is not None and best.entries else None


def _worth(one: Served) -> tuple[int, int, int]:
    reach = NEVER if one.removed is None else one.removed
    return reach, sum(s.rows for s in one.left), sum(s.rows for s in one.entries)


def _cannot_fail(spec: PanesSpec) -> bool:
    """Whether no row can fail in its expressions: they are bare columns, and comparisons of them."""
    bare = all(key.column is not None for key in spec.keys)
    return bare and all(c.safe for c in spec.components) and (spec.where is None or not spec.where.calls)


def _within(segment: Segment, wanted: Range, hard: bool) -> bool:
    """Whether the entry of a file can stand for it: all of its rows are wanted, or do no harm."""
    timely = (wanted.low is None or segment.low >= wanted.low) and (wanted.high is None or segment.high < wanted.high)
    return (timely or not hard) and wanted.meets(segment) and _of_epochs(segment, wanted)


def _of_epochs(segment: Segment, wanted: Range) -> bool:
    return wanted.epoch is None or segment.last_epoch <= wanted.epoch


def _scan(
    archives: Archives, summary: Summary, snapshot: Snapshot, hard: bool, wanted: Range, may_fail: bool
) -> Served:
    segments, removed = snapshot
    there = {s.path: s for s in archives.summaries.segments if s.shard == summary.id}
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
    reach = None if removed is None else reaches(archives.storage, summary)
    return Served(summary, (*entries, *settled), tuple(left), reach, len(settled))


def reaches(storage: Storage, summary: Summary) -> int | None:
    """The event time below which a summary may lack rows: they were gone before it came, or its retention took them."""
    gone = storage.summaries.committed(application(summary.id))
    known = [t for t in (summary.covered, None if gone < 0 else gone + NEVER) if t is not None]
    return max(known, default=None)


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
