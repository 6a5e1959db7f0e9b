"""The one reader of the past: the rows of what a scan has planned, in bounded batches.

with archives.pinned():                              # no file is deleted while it is open
    found = sections(archives.storage, stream, wanted)
    split = ScanSplit(wanted, 0.4, pieces_of(stream, [(section, 0.4) for section in found]))
reader = ArchiveReader(archives.path, stream, ["mph"], weighted=True)
for rows in reader.rows([split]):                    # the columns asked for, and `_weight`
    ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.archive import fractions, seed_of
from millpond.archive.archive_files import HIDDEN, row_schema
from millpond.archive.copy_files import file_path
from millpond.archive.planning.pacing import Pace
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import ScanSplit
from millpond.archive.planning.sections import Piece
from millpond.archive.reading.counters import Counters
from millpond.archive.reading.held_rows import HeldRows
from millpond.tables import Segment
from millpond.tables.storage_types import from_storage, storage_schema
from millpond.tables.stored_files import open_parquet
from millpond.types import WEIGHT, StreamDefinition, micros_of

#: Rows of a batch at most.
ROWS_AT_ONCE = 1_000_000

#: Rows of several files that are evaluated at once: of a file little may be left, and a statement takes milliseconds.
TOGETHER = 262_144


@dataclass(frozen=True)
class AtHand:
    """What a scan has where it runs in the pond's own process.

    held: rows that need not be read again. pace: says what is read of a file when its turn has come.
    """

    held: HeldRows = field(default_factory=HeldRows)
    pace: Pace | None = None


@dataclass(frozen=True)
class ArchiveReader:
    """Reads what scans of a stream's past have planned.

    Args:
        pond: the pond's folder.
        stream: whose rows they are.
        columns: of the stream; None: all. The hidden columns and the event time are always there.
        weighted: whether rows have a column `_weight`: what each counts for.
        in_order: whether the rows of a randomized run come in order of (event time, `_id`), at the price of a merge;
            those of other files lie as they are stored.
        counters: what is read is added to it.
        at_hand: what is there already.
    """

    pond: str
    stream: StreamDefinition
    columns: Sequence[str] | None = None
    weighted: bool = False
    in_order: bool = False
    counters: Counters = field(default_factory=Counters)
    at_hand: AtHand = field(default_factory=AtHand)

    def rows(self, splits: Iterable[ScanSplit]) -> Iterator[pa.Table]:
        """The rows of splits, file by file, in bounded batches.

        Returns: tables with the columns of `row_schema` that were asked for.
        """
        for split in splits:
            first = split.wanted.first
            for planned in split.pieces:
                piece, known = planned, None
                if first is None:  # live rows are read as they are
                    if self.at_hand.pace is not None:
                        piece = self.at_hand.pace.piece(self.stream, planned, split.wanted, split.drop)
                    known = self.at_hand.held.of(self.stream, piece, split.wanted)
                for rows in self._piece(piece, split.wanted) if known is None else self._known(piece, split, known):
                    if first is not None and piece.segment.first_epoch < first:
                        rows = rows.filter(pc.greater_equal(rows["_epoch"], first))
                    if rows.num_rows:
                        yield rows

    def table(self, splits: Iterable[ScanSplit]) -> pa.Table:
        """The rows of splits at once."""
        found = list(self.rows(splits))
        return pa.concat_tables(found) if found else self._schema.empty_table()

    def full_scan(self, segment: Segment, copy: str, wanted: Range) -> Counters:
        """What a full scan would read of a file, and nothing that was read: for rows that came from elsewhere."""
        groups, size = self._full(segment, copy, wanted, self._schema.names)
        return Counters(full_groups=groups, full_bytes=size)

    @cached_property
    def _schema(self) -> pa.Schema:
        schema = row_schema(self.stream)
        if self.columns is not None:
            names = {*self.columns, *(n for n, _ in HIDDEN), self.stream.options.time}
            schema = pa.schema([f for f in schema if f.name in names])
        return schema.append(pa.field(WEIGHT, pa.float64())) if self.weighted else schema

    def _piece(self, piece: Piece, wanted: Range) -> Iterator[pa.Table]:
        rows = self._file(piece, wanted)
        for at in range(0, rows.num_rows, ROWS_AT_ONCE):
            yield rows.slice(at, ROWS_AT_ONCE)

    def _file(self, piece: Piece, wanted: Range) -> pa.Table:
        schema = self._schema.remove(len(self._schema) - 1) if self.weighted else self._schema
        time, stored = self.stream.options.time, storage_schema(schema)
        path = file_path(self.pond, self.stream, piece.copy, piece.segment)
        with open_parquet(path) as file:
            groups = groups_in(file.metadata, time, wanted, piece.groups)
            written = set(file.schema_arrow.names)  # the stream may have got other columns since
            there = [n for n in stored.names if n in written]
            read = file.read_row_groups(groups, columns=there, use_threads=False)
            self._count(piece, wanted, file.metadata, groups, there)
        rows = _between(from_storage(read, schema), time, wanted)
        if wanted.epoch is not None and piece.segment.last_epoch > wanted.epoch:
            rows = rows.filter(pc.less_equal(rows["_epoch"], wanted.epoch))
        if piece.thin:
            rows = rows.filter(pa.array(fractions(rows["_id"].to_numpy(), seed_of(self.stream)) < piece.kept))
        if piece.segment.blocks and self.in_order:
            rows = rows.sort_by([(time, "ascending"), ("_id", "ascending")])
        self.counters.rows += rows.num_rows
        return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, piece.weight))) if self.weighted else rows

    def _known(self, piece: Piece, split: ScanSplit, known: Sequence[pa.Table]) -> Iterator[pa.Table]:
        """Rows of a piece that were read before, and counted then."""
        self.counters.add(self.full_scan(piece.whole or piece.segment, "" if piece.whole else piece.copy, split.wanted))
        for rows in known:
            self.counters.rows += rows.num_rows
            yield rows.select(self._schema.names)

    def _count(
        self, piece: Piece, wanted: Range, metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str]
    ) -> None:
        counters, size = self.counters, stored_bytes(metadata, groups, columns)
        counters.sections[piece.copy] = counters.sections.get(piece.copy, 0) + 1
        counters.groups += len(groups)
        counters.bytes += size
        counters.read += sum(metadata.row_group(g).num_rows for g in groups)
        full = len(groups), size
        if piece.copy and piece.whole is not None:
            full = self._full(piece.whole, "", wanted, columns)
        elif piece.groups is not None:
            everything = groups_in(metadata, self.stream.options.time, wanted)
            full = len(everything), stored_bytes(metadata, everything, columns)
        counters.full_groups += full[0]
        counters.full_bytes += full[1]

    def _full(self, segment: Segment, copy: str, wanted: Range, columns: Sequence[str]) -> tuple[int, int]:
        """Row groups and bytes of some columns of a file that can hold rows of a range."""
        path = file_path(self.pond, self.stream, copy, segment)
        with open_parquet(path) as file:
            groups = groups_in(file.metadata, self.stream.options.time, wanted)
            return len(groups), stored_bytes(file.metadata, groups, columns)


def together(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small batches put together, whose order does not matter; the rows of one have the same weight, if any."""
    held: list[pa.Table] = []
    weight, count = 0.0, 0
    for rows in batches:
        its = rows[WEIGHT][0].as_py() if WEIGHT in rows.column_names else 1.0
        if held and (its != weight or count + rows.num_rows > TOGETHER):
            yield pa.concat_tables(held, promote_options="permissive")
            held, count = [], 0
        held.append(rows)
        weight, count = its, count + rows.num_rows
    if held:
        yield pa.concat_tables(held, promote_options="permissive")


def groups_in(metadata: pq.FileMetaData, time: str, wanted: Range, first: int | None = None) -> list[int]:
    """The row groups of a file (of its first `first`) that can hold rows of a range, by their statistics."""
    count = metadata.num_row_groups if first is None else min(first, metadata.num_row_groups)
    if wanted.low is None and wanted.high is None:
        return list(range(count))
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    at = names.index(time)
    found = []
    for group in range(count):
        statistics = metadata.row_group(group).column(at).statistics
        if statistics is not None and statistics.has_min_max:
            low, high = micros_of(statistics.min), micros_of(statistics.max)
            if (wanted.low is not None and high < wanted.low) or (wanted.high is not None and low >= wanted.high):
                continue
        found.append(group)
    return found


def stored_bytes(metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str]) -> int:
    """Bytes of the chunks of some columns in some row groups, as they lie in the file."""
    names = set(columns)
    wanted = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path.split(".")[0] in names]
    return sum(metadata.row_group(g).column(i).total_compressed_size for g in groups for i in wanted)


def _between(rows: pa.Table, time: str, wanted: Range) -> pa.Table:
    if wanted.low is None and wanted.high is None:
        return rows
    micros = rows[time].cast(pa.timestamp("us", rows[time].type.tz)).cast(pa.int64())
    mask = None
    if wanted.low is not None:
        mask = pc.greater_equal(micros, wanted.low)
    if wanted.high is not None:
        below = pc.less(micros, wanted.high)
        mask = below if mask is None else pc.and_(mask, below)
    return rows.filter(mask)
