"""Taking a split in, in pieces: items read, late rows told from others, what does not fit put aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa

from millpond.archive.dead_letters import row_texts
from millpond.archive.segments import DEAD, HIDDEN, row_schema, times_of
from millpond.manifests.records import Manifest, Split
from millpond.progress import NEVER, ItemSummary, StreamProgress, ahead_mask, summarise
from millpond.progress.generators import COHORT, cohort_median
from millpond.sources.formats.read import Read, read, tail_times
from millpond.sources.intake import Item
from millpond.sources.own_marks import BROKEN, behind_which, group_texts, known_bounds, own_bounds, said
from millpond.synopses import connection
from millpond.synopses.kernel import reset
from millpond.synopses.tolerance import one_line
from millpond.types import StreamDefinition

#: Rows from which on a piece is handed out; an item is never cut. A task works on one piece at a time: with few rows,
#: all it needs stays in the cache of the processor, and is the same memory again and again.
PIECE = 262_144


class Taking:
    """Takes in a split of an epoch.

    What it has met once `pieces` has ended: dead (tables of dead letters), summaries (of the items, in order), unknown
    (columns that the stream does not have).
    """

    def __init__(self, manifest: Manifest, stream: StreamDefinition, split: Split) -> None:
        self.manifest, self.stream, self.split = manifest, stream, split
        self.progress = manifest.progress.get(str(stream.id), StreamProgress())
        self.schema = row_schema(stream)
        self.dead: list[pa.Table] = []
        self.summaries: list[ItemSummary] = []
        self.unknown = 0
        self._median = self.progress.median
        self._highs: dict[str, int] = {}

    def pieces(self) -> Iterator[pa.Table]:
        """The rows with their hidden columns, in order of intake."""
        if self.stream.options.ahead is not None:
            for record in self.split.before:
                times = tail_times(Item.from_json(record), self.stream, connection(), rows=2**31)
                if len(times):
                    self._median = cohort_median(times[((len(times) - 1) // COHORT) * COHORT :])
        self._highs = _highs(connection(), self.stream, self.split, self.progress)
        held: list[pa.Table] = []
        for record in self.split.items:
            rows = self._taken(Item.from_json(record))
            if rows.num_rows:
                held.append(rows)
            if sum(t.num_rows for t in held) >= PIECE:
                yield pa.concat_tables(held)
                held.clear()
        if held:
            yield pa.concat_tables(held)

    def _taken(self, item: Item) -> pa.Table:
        """The rows of an item that count."""
        stream, progress, epoch = self.stream, self.progress, self.manifest.epoch
        result = _read(item, stream)
        rows = result.rows
        self.unknown += result.unknown
        source = _place(item)
        if result.rejected.num_rows:
            self.dead.append(_letters(result.rejected, source, epoch))
        positions = np.arange(rows.num_rows) if result.positions is None else result.positions.to_numpy()
        times = times_of(rows, stream.options.time)
        reference = self._median
        ahead, median = ahead_mask(times, stream.options, self._median)
        self._median = median
        if ahead is not None:
            reason = (
                f"event time runs ahead of the rows before it by more than ahead = {stream.options.ahead} microseconds"
            )
            self.dead.append(_refused(rows.filter(pa.array(ahead)), positions[ahead], source, reason, epoch))
            rows, positions, times = rows.filter(pa.array(~ahead)), positions[~ahead], times[~ahead]
        groups = group_texts(rows, stream.options)
        last = median if reference is None else reference
        most = None if stream.options.ahead is None or last is None else last + stream.options.ahead
        marks = said(rows, times, stream, groups, most)
        broken = np.zeros(len(times), np.bool_)
        partition = progress.partitions.get(item.partition)
        if partition is not None and (stream.options.marks_column or stream.options.marks_record):
            broken = times < own_bounds(partition, groups, len(times))
        if marks.records is not None:
            broken &= ~marks.records
        out = np.zeros(len(times), np.bool_) if marks.records is None else marks.records
        if stream.options.guard == "reject" and broken.any():
            self.dead.append(_refused(rows.filter(pa.array(broken)), positions[broken], source, BROKEN, epoch))
            out = out | broken
        if out.any():
            rows, positions, times = rows.filter(pa.array(~out)), positions[~out], times[~out]
            groups = None if groups is None else groups.filter(pa.array(~out))
        known = known_bounds(progress, groups, len(times))
        late = times < known
        summary = summarise(
            times,
            stream.options,
            item.partition,
            median if stream.options.ahead is not None else None,
            self._highs.get(item.partition, NEVER),
        )
        summary = replace(
            summary,
            mark=marks.mark,
            groups=marks.groups,
            late=int(np.count_nonzero(late)),
            broken=int(np.count_nonzero(broken)),
            marks=marks.count,
        )
        self.summaries.append(summary)
        self._highs[item.partition] = max(self._highs.get(item.partition, NEVER), summary.high)
        behind = pa.nulls(len(times), pa.int64())
        if summary.late:
            behind = pa.array(behind_which(known, progress, stream.options), mask=~late)
        hidden = [
            pa.array(positions + np.int64(item.ordinal << 32)),
            pa.repeat(pa.scalar(epoch, pa.int64()), len(times)),
            behind,
        ]
        return pa.table([*rows.columns, *hidden], schema=self.schema)


def _highs(
    db: duckdb.DuckDBPyConnection, stream: StreamDefinition, split: Split, progress: StreamProgress
) -> dict[str, int]:
    """The largest event time of each source partition before a split, where delays are measured against it."""
    highs = {name: p.high for name, p in progress.partitions.items()}
    if stream.options.lateness_share is None:
        return highs
    for record in split.before:
        item = Item.from_json(record)
        times = tail_times(item, stream, db, rows=2**31)
        if len(times):
            highs[item.partition] = max(highs.get(item.partition, NEVER), int(times.max()))
    return highs


def _place(item: Item) -> str:
    """Where an item came from, for dead letters."""
    if item.kind == "file":
        return item.path
    return f"ingest {item.ordinal}" if item.kind == "landing" else f"epoch {item.epoch}"


def _read(item: Item, stream: StreamDefinition) -> Read:
    """The rows of an item; one that cannot be read at all becomes a dead letter and does not stop the stream.

    Raises: SourceError when it vanished or changed: then the epoch waits until it is there again.
    """
    try:
        return read(item, stream, None, connection())
    except (duckdb.Error, pa.ArrowException, ValueError, OverflowError) as error:
        if isinstance(error, duckdb.FatalException):
            reset()
        schema = row_schema(stream)
        rows = pa.schema([f for f in schema if f.name not in dict(HIDDEN)]).empty_table()
        reason = f"the item cannot be read: {one_line(error)}"
        record = {"reason": [reason], "position": pa.array([None], pa.int64()), "record": pa.array([None], pa.string())}
        return Read(rows, None, pa.table(record))


def _letters(rejected: pa.Table, source: str, epoch: int) -> pa.Table:
    n = rejected.num_rows
    return pa.table(
        [
            rejected["reason"],
            pa.array([source] * n),
            rejected["position"],
            rejected["record"],
            pa.array(np.full(n, epoch, np.int64)),
        ],
        schema=DEAD,
    )


def _refused(
    rows: pa.Table, positions: np.ndarray[tuple[int], np.dtype[np.int64]], source: str, reason: str, epoch: int
) -> pa.Table:
    """Dead letters of rows that can be read and are not taken."""
    n = rows.num_rows
    return pa.table(
        [
            pa.array([reason] * n),
            pa.array([source] * n),
            pa.array(positions),
            row_texts(rows),
            pa.array(np.full(n, epoch, np.int64)),
        ],
        schema=DEAD,
    )
