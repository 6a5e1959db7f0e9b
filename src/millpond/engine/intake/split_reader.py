"""Taking a split in, in pieces: items read, late rows told from others, what does not fit put aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa

from millpond.archive.archive_files import DEAD, HIDDEN, row_schema
from millpond.archive.dead_letters import row_texts
from millpond.manifests.records import Manifest, Split
from millpond.progress import NEVER, ItemSummary, StreamProgress, ahead_mask, summarise
from millpond.progress.generators import COHORT, cohort_median
from millpond.sources.formats.read import Read, read, tail_times
from millpond.sources.intake_log import Item
from millpond.sources.own_marks import BROKEN, Said, behind_which, group_texts, known_bounds, own_bounds, said
from millpond.sources.zeros import without_signs
from millpond.synopses import connection, kernel
from millpond.synopses.blocks import event_times
from millpond.synopses.tolerance import one_line
from millpond.types import StreamDefinition

#: Rows from which on a piece is handed out; an item is never cut. A task works on one piece at a time: with few rows,
#: all it needs stays in the cache of the processor, and is the same memory again and again.
PIECE = 262_144


Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class _Rows:
    """Rows of an item, with their places in it and their event times (microseconds)."""

    table: pa.Table
    positions: Ints
    times: Ints

    def __len__(self) -> int:
        return len(self.times)

    def where(self, kept: Bools) -> _Rows:
        """Some of the rows."""
        return _Rows(self.table.filter(pa.array(kept)), self.positions[kept], self.times[kept])


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
        stream, epoch = self.stream, self.manifest.epoch
        result = _read(item, stream)
        self.unknown += result.unknown
        if result.rejected.num_rows:
            self.dead.append(_letters(result.rejected, _place(item), epoch))
        n = result.rows.num_rows
        positions = np.arange(n) if result.positions is None else result.positions.to_numpy()
        given = without_signs(result.rows)
        rows = _Rows(given, positions, event_times(given, stream.options.time))
        reference = self._median
        rows = self._in_time(item, rows)
        last = self._median if reference is None else reference
        most = None if stream.options.ahead is None or last is None else last + stream.options.ahead
        groups = group_texts(rows.table, stream.options)
        marks = said(rows.table, rows.times, stream, groups, most)
        broken = self._broken(item, rows, groups, marks)
        out = np.zeros(len(rows), np.bool_) if marks.records is None else marks.records
        if stream.options.guard == "reject" and broken.any():
            self._refuse(item, rows.where(broken), BROKEN)
            out = out | broken
        if out.any():
            rows = rows.where(~out)
            groups = None if groups is None else groups.filter(pa.array(~out))
        known = known_bounds(self.progress, groups, len(rows))
        late = rows.times < known
        self._summarise(item, rows.times, marks, int(np.count_nonzero(late)), int(np.count_nonzero(broken)))
        behind = pa.nulls(len(rows), pa.int64())
        if late.any():
            behind = pa.array(behind_which(known, self.progress, stream.options), mask=~late)
        hidden = [
            pa.array(rows.positions + np.int64(item.ordinal << 32)),
            pa.repeat(pa.scalar(epoch, pa.int64()), len(rows)),
            behind,
        ]
        return pa.table([*rows.table.columns, *hidden], schema=self.schema)

    def _in_time(self, item: Item, rows: _Rows) -> _Rows:
        """The rows that do not run ahead of those before them; the others become dead letters."""
        ahead, self._median = ahead_mask(rows.times, self.stream.options, self._median)
        if ahead is None:
            return rows
        most = self.stream.options.ahead
        reason = f"event time runs ahead of the rows before it by more than ahead = {most} microseconds"
        self._refuse(item, rows.where(ahead), reason)
        return rows.where(~ahead)

    def _broken(self, item: Item, rows: _Rows, groups: pa.ChunkedArray | None, marks: Said) -> Bools:
        """Which rows lie before what their own source has announced."""
        broken, options = np.zeros(len(rows), np.bool_), self.stream.options
        partition = self.progress.partitions.get(item.partition)
        if partition is not None and (options.marks_column or options.marks_record):
            broken = rows.times < own_bounds(partition, groups, len(rows))
        if marks.records is not None:
            broken &= ~marks.records
        return broken

    def _refuse(self, item: Item, rows: _Rows, reason: str) -> None:
        self.dead.append(_refused(rows, _place(item), reason, self.manifest.epoch))

    def _summarise(self, item: Item, times: Ints, marks: Said, late: int, broken: int) -> None:
        """Note what the item says about progress."""
        options, high = self.stream.options, self._highs.get(item.partition, NEVER)
        summary = summarise(times, options, item.partition, self._median if options.ahead is not None else None, high)
        self.summaries.append(
            replace(summary, mark=marks.mark, groups=marks.groups, late=late, broken=broken, marks=marks.count)
        )
        self._highs[item.partition] = max(high, summary.high)


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
        if isinstance(error, kernel.BROKEN):
            kernel.reset()
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


def _refused(rows: _Rows, source: str, reason: str, epoch: int) -> pa.Table:
    """Dead letters of rows that can be read and are not taken."""
    n = len(rows)
    return pa.table(
        [
            pa.array([reason] * n),
            pa.array([source] * n),
            pa.array(rows.positions),
            row_texts(rows.table),
            pa.array(np.full(n, epoch, np.int64)),
        ],
        schema=DEAD,
    )
