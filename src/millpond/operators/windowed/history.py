"""All that is kept of a stream x one synopsis: the kernels of back-fills and ad hoc queries; epochs have the same."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.archive_files import row_schema
from millpond.archive.planning.scan_tasks import ScanSplit, ScanTask
from millpond.archive.reading.counters import Counters, counted_parcel
from millpond.archive.reading.reader import ArchiveReader, AtHand, together
from millpond.archive.summed.serving import entry_partials
from millpond.catalog.unions import entering, own_names
from millpond.manifests.places import summaries_folder
from millpond.operators.windowed.lookups import joined_rows, of_stream, tolerant_join
from millpond.sources.own_marks import counted
from millpond.synopses import PanesSpec, connection, merge_partials, partial
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.partials.late_exclusions import CUT, merge_cuts, without_cut
from millpond.synopses.partials.shards import cut
from millpond.synopses.row_partials import RowsSpec
from millpond.synopses.tolerance import tolerant_partial
from millpond.synopses.whole_rows import plain_spec, with_weight_one
from millpond.tables.chunks import pack
from millpond.tables.executors import Parcel
from millpond.types import StreamDefinition, WindowedQuery
from millpond.windows.pane_layout import WHOLE


@dataclass(frozen=True)
class HistoryMap:
    """What map tasks of a history job make: partials of one synopsis, cut by shard.

    streams: those that are read; the synopsis knows its columns by the names of the first. query: one that the synopsis
    is for. owner: the synopsis's name. strict: a row on which an expression fails makes the query fail; else it is left
    out, as it is live.
    """

    pond: str
    streams: tuple[StreamDefinition, ...]
    spec: Spec
    query: WindowedQuery
    owner: str
    shards: int
    strict: bool = False

    def run(
        self, task: int, scan: ScanTask, letters: list[pa.Table] | None = None, at_hand: AtHand | None = None
    ) -> Iterator[Parcel]:
        """Map task `task`: the partials, and what was read for them.

        On a stream that drops late rows partials carry `cut`.

        Args:
            scan: what is read.
            letters: gets the rows that were left out, with their `_reason`, and of their columns those that the
                synopsis needs.
            at_hand: what need not be read.
        """
        stream = self.streams[scan.place]
        columns = own_names(self.spec, stream, self.spec.columns_of(self.streams[0]))
        reader = ArchiveReader(self.pond, stream, columns, self.spec.weighted, at_hand=at_hand or AtHand())
        for interval in sorted({s.interval for s in scan.splits}):
            splits = [s for s in scan.splits if s.interval == interval]
            spec = self.spec.at_intervals(interval)
            for table in self._of_rows(spec, reader, splits, [] if letters is None else letters):
                yield from self._parcels(spec, task, table)
            for split in splits:
                if split.entries:
                    assert isinstance(spec, PanesSpec)  # summaries have panes
                    yield from self._parcels(spec, task, self._of_entries(spec, reader, split))
        yield counted_parcel(task, reader.counters)

    def _parcels(self, spec: Spec, task: int, table: pa.Table) -> Iterator[Parcel]:
        for shard, part in cut(connection(), spec, self.owner, table, self.shards):
            yield Parcel(shard, self.owner, task, pack(part))

    def _of_rows(
        self, spec: Spec, reader: ArchiveReader, splits: Sequence[ScanSplit], letters: list[pa.Table]
    ) -> Iterator[pa.Table]:
        """Partials of the rows of splits."""
        db, stream = connection(), reader.stream
        by_cut = stream.options.late == "drop" and spec.panes.width < WHOLE and not spec.feeds
        extra = f"_bound AS {CUT}" if by_cut else ""
        schema = row_schema(self.streams[0])
        parts = []
        for read in together(reader.rows(splits)) if spec.weighted else reader.rows(splits):
            rows = entering(counted(read, stream.options) if by_cut else read, spec, stream.id, schema)
            own = rows.column_names
            rows = self._joined(spec, rows, letters)
            if self.strict:
                table = partial(db, spec, rows, extra)
            else:
                table, failed = tolerant_partial(spec, rows, extra)
                letters += [f for f in [of_stream(failed, own)] if f is not None]
            if not table.num_rows:
                continue
            if not by_cut:
                parts.append(table)
                continue
            # A late row has no number, and in windows of so many rows nothing else counts.
            if isinstance(spec, RowsSpec) and not spec.rows.range:
                table = table.filter(pc.is_null(table[CUT])).drop_columns([CUT])
            yield table
        if parts:
            yield merge_partials(db, spec, parts)

    def _joined(self, spec: Spec, rows: pa.Table, letters: list[pa.Table]) -> pa.Table:
        """Rows joined with the tables that the synopsis looks up."""
        if spec.lookup is None:
            return rows
        if self.strict:
            return joined_rows(self.pond, rows, spec.lookup, spec.time)
        rows, failed = tolerant_join(self.pond, rows, spec.lookup, spec.time)
        letters += [] if failed is None else [failed]
        return rows

    def _of_entries(self, spec: PanesSpec, reader: ArchiveReader, split: ScanSplit) -> pa.Table:
        """Entries of a summary as partials of the synopsis."""
        assert split.have is not None
        needed = plain_spec(spec, self.query) if spec.weighted else spec
        assert needed is not None
        paths = [os.path.join(summaries_folder(self.pond), s.path) for s in split.entries]
        plain = entry_partials(paths, split.have, needed, split.since)
        counters = reader.counters
        counters.add(Counters({"summary": len(paths)}, len(paths), sum(s.size for s in split.entries)))
        counters.read += sum(s.rows for s in split.entries)
        counters.rows += pc.sum(plain["n"]).as_py() if plain.num_rows else 0
        for file in split.files:
            counters.add(reader.full_scan(file, "", split.wanted))
        if not spec.weighted:
            return plain
        return with_weight_one(connection(), spec, self.query, plain, row_schema(reader.stream).empty_table())


def merge_history(db: duckdb.DuckDBPyConnection, spec: Spec, parts: list[pa.Table]) -> pa.Table:
    """Pane rows as state: all windows that are still open were open when any of the rows came."""
    return without_cut(db, spec, merge_cuts(db, spec, parts))
