"""Retention: whole files go, the oldest first, when their rows are too old or there is too much; copies may stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from millpond.archive import Keep
from millpond.archive.copy_files import section_of
from millpond.archive.open_archives import Archives
from millpond.archive.retention import keep_of_copies, keep_of_rows
from millpond.archive.storage import StreamTables
from millpond.archive.summed.summary_upkeep import settle
from millpond.progress import NEVER, StreamProgress
from millpond.support.event_log import event_log
from millpond.support.texts.far_instants import instants_texts
from millpond.tables import Segment

LOG = event_log(__name__)


def expire(archives: Archives, runtime: StreamTables) -> None:
    """Remove files of a stream beyond what it keeps, and record up to where rows are gone.

    A copy that is kept longer than the rows stands for them from then on: it is marked before they go, so that whoever
    does not find the rows finds the mark. A file that such a copy has not got yet stays until copy maintenance made it.
    """
    stream = runtime.definition
    progress = archives.published.progress.get(str(stream.id), StreamProgress())
    if progress.high <= NEVER:
        return
    now = min(progress.bound, progress.high)
    own = keep_of_copies(stream)
    old = beyond(runtime.archive.segments, keep_of_rows(stream), now)
    longer = {c: t for c, t in runtime.copies.items() if c in own}
    for copy in own:
        if copy not in longer and old:
            return  # it is still to be made
    for table in longer.values():
        there = {section_of(s.path): s for s in table.segments}
        before = table.snapshot[1]
        # What the copy's own retention removed before is not waited for.
        old = [s for s in old if section_of(s.path) in there or (before is not None and s.high < before)]
    if old:
        names = {section_of(s.path) for s in old}
        for table in longer.values():
            marked = [replace(s, sole=True) for s in table.segments if section_of(s.path) in names and not s.sole]
            if marked:
                table.commit(marked, (), moved=True)
        settle(archives, stream, old)
        removed = max(s.high for s in old) + 1
        runtime.archive.commit([], [s.path for s in old], removed=removed)
        until = instants_texts(pa.array([removed], pa.timestamp("us")))[0].as_py()
        LOG.info("rows expired", stream=stream.name, files=len(old), rows=sum(s.rows for s in old), until=until)
    for copy, table in longer.items():
        gone = beyond(table.segments, own[copy], now)
        if gone:
            table.commit([], [s.path for s in gone], removed=max(s.high for s in gone) + 1)


def beyond(segments: Sequence[Segment], keep: Keep, now: int) -> list[Segment]:
    """The files that are not to be kept: all their rows are too old, or they are the oldest of too many bytes.

    Arguments:
        now: the stream's progress, microseconds; no row at or behind it is removed for its file's size.

    >>> files = [Segment(f"{n}", 1, 10, n, n, 1, 1) for n in range(4)]
    >>> [s.path for s in beyond(files, Keep(time=2), 4)], [s.path for s in beyond(files, Keep(size=25), 9)]
    (['0', '1'], ['0', '1'])
    """
    ordered = sorted(segments, key=lambda s: (s.high, s.path))
    total = sum(s.size for s in ordered)
    gone: list[Segment] = []
    for segment in ordered:
        late = keep.time is not None and segment.high < now - keep.time
        large = keep.size is not None and total > keep.size and segment.high < now
        if not (late or large):
            break
        gone.append(segment)
        total -= segment.size
    return gone
