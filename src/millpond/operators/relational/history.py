"""Relational queries over the archive: the rows of each input, for back-fill, INVOKE and ad hoc SELECTs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from millpond.archive.archive_files import row_schema
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_plans import plan_scan
from millpond.archive.planning.scans import Scan
from millpond.archive.reading.reader import ArchiveReader, AtHand, together
from millpond.archive.retention import retained_from
from millpond.catalog import Catalog
from millpond.catalog.unions import entering, late_of, own_names, progress_of, streams_of
from millpond.manifests.records import Published
from millpond.operators.relational.probing import Probed, marked
from millpond.operators.relational.readers import Input, empty_rows
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.relations import Rows, merge_rows, rows_needed, rows_of
from millpond.sources.own_marks import counted
from millpond.support.errors import QueryError
from millpond.synopses import connection
from millpond.synopses.blocks import event_times
from millpond.synopses.tolerance import tolerant
from millpond.types import HOLDS, WEIGHT, Relational, RelationInput, StreamDefinition

#: Rows on which an expression fails, with their `_reason`, by stream.
Failed = dict[int, list[pa.Table]]


#: What works where rows in memory do not.
_REGISTERED = "CREATE QUERY of this SELECT makes one"


@dataclass(frozen=True)
class HeldStream:
    """A stream whose rows are in memory. rows: as `row_schema` has them, none of them late. until: all up to then."""

    stream: StreamDefinition
    rows: pa.Table
    until: int

    @property
    def progress(self) -> StreamProgress:
        """How far it is."""
        times = event_times(self.rows, self.stream.options.time)
        high = int(times.max()) if len(times) else NEVER
        return StreamProgress(self.until, high, ended=self.until >= FOREVER)

    def within(self, wanted: Range) -> pa.Table:
        """The rows with event times in a range, which is closed and open."""
        times = event_times(self.rows, self.stream.options.time)
        low, high = NEVER if wanted.low is None else wanted.low, FOREVER if wanted.high is None else wanted.high
        rows = self.rows.filter(pa.array((times >= low) & (times < high)))
        nothing = pa.nulls(rows.num_rows, pa.int64())
        epochs = pa.array(np.zeros(rows.num_rows, np.int64))
        return rows.append_column("_epoch", epochs).append_column("_bound", nothing)


@dataclass
class InputReader:
    """Reads the past of a relation's inputs from the archive.

    Args:
        archives: of the pond.
        relation: of the query; what it probes is not read yet.
        published: the epoch up to which rows are seen, and how far the streams were then.
        specs: of the stores to fill; None: what each input needs.
        most: rows that an input may have; None: any number.
        live_from: of a reduced input, the first epoch whose rows are whole.
        failed: of each input, gets the rows on which its expressions fail; None: they are just left out.
        held: streams, by id, that are rows in memory and not in an archive.
        past_retention: rows past the retention of their stream are read, too, as long as their files are there.
        as_of: the publish record by whose progress rows are past it; None: the last one.

    Attributes:
        scans: the reduced scans that were made.
    """

    archives: Archives
    relation: Relational
    published: Published
    specs: Sequence[Rows] | None = None
    most: int | None = None
    live_from: int | None = None
    failed: Sequence[Failed] | None = None
    scans: list[Scan] = field(default_factory=list)
    held: Mapping[int, HeldStream] = field(default_factory=dict)
    past_retention: bool = False
    as_of: Published | None = None

    @cached_property
    def catalog(self) -> Catalog:
        """What there is to read."""
        known = self.archives.catalog
        held = {number: each.stream for number, each in self.held.items()}
        return replace(known, streams={**known.streams, **held}) if held else known

    def read(self, since: int, until: int | None, after: int | None = None) -> list[Input]:
        """The rows of each input that are in its window at instants from `since` on, up to event time `until`.

        Args:
            after: only rows behind this event time; None: whatever is in a window.
        Raises: QueryError when a stream was dropped, or the rows of an input are more than `most`.
        """
        return [self._input(number, since, until, after) for number in range(len(self.relation.inputs))]

    def _input(self, number: int, since: int, until: int | None, after: int | None) -> Input:
        catalog, item, published = self.catalog, self.relation.inputs[number], self.published
        first = catalog.stream(item.stream)
        if first is None:
            raise QueryError(f"the stream '{item.stream}' was dropped")
        spec = rows_needed(item, first) if self.specs is None else self.specs[number]
        if self._is_probed(item):
            if first.id in self.held:
                raise QueryError(f"'{item.alias}' is looked up in an archive, and answers have none: {_REGISTERED}")
            known = published.progress.get(str(first.id), StreamProgress())
            files = self.archives.streams[first.id].archive.segments
            seen = NEVER if self.past_retention else retained_from(first, self.as_of or self.archives.published)
            past = Probed(self.archives.path, first, spec, files, published.epoch, known, seen=seen)
            return Input(empty_rows(connection(), item.columns), first.options.late, known.high, past)
        state, late = progress_of(catalog, spec, published.progress), late_of(catalog, spec)
        wanted = Range(self._low(item, since, after), None if until is None else until + 1, published.epoch)
        rows = self._rows(spec, number, wanted, state.high)
        if spec.feeds:  # the archive says what a row was behind in its own stream only: all of them count
            rows = rows.set_column(rows.column_names.index("_cut"), "_cut", pa.nulls(rows.num_rows, pa.int64()))
        else:
            rows = marked(spec, late, state, rows)
        return Input(rows, late, state.high)

    def stored(self, number: int, low: int, high: int) -> pa.Table:
        """The rows of an input's store with event times from `low` to `high`, late ones not told from others."""
        assert self.specs is not None
        spec = self.specs[number]
        return self._rows(spec, number, Range(low, high + 1, self.published.epoch), high)

    def _is_probed(self, item: RelationInput) -> bool:
        return self.relation.probe(item.alias) is not None

    def _low(self, item: RelationInput, since: int, after: int | None) -> int | None:
        """The event time from which rows are read: inputs with one store read the same ones."""
        held = [i for i in self.relation.inputs if i.names == item.names and not self._is_probed(i)]
        lows = [i.window.since(since) for i in held]
        low = None if any(each is None or each <= NEVER for each in lows) else min(e for e in lows if e is not None)
        return low if after is None else after + 1 if low is None else max(low, after + 1)

    def _rows(self, spec: Rows, number: int, wanted: Range, now: int) -> pa.Table:
        """The rows of a range of the archives that a store would keep, without those on which an expression fails."""
        archives, item = self.archives, self.relation.inputs[number]
        streams = streams_of(self.catalog, spec)
        if streams[0].id in self.held:
            return self._kept(spec, number, streams[0], streams[0], self.held[streams[0].id].within(wanted))
        parts: list[pa.Table] = []
        held = 0
        with archives.pinned():
            scan = Scan() if item.reduce is None else Scan(item.reduce, now, self.live_from)
            scan.as_of = self.as_of
            if self.past_retention:
                scan.floors = {s.id: None for s in streams}
            plan = plan_scan(archives, streams, wanted, scan)
            self.scans += [scan] if scan.reduced else []
            for task in plan.tasks:
                stream = streams[task.place]
                reader = ArchiveReader(
                    archives.path,
                    stream,
                    _columns(spec, stream),
                    scan.reduced,
                    counters=scan.counters,
                    at_hand=AtHand(scan.held),
                )
                for read in together(reader.rows(task.splits)):
                    found = self._kept(spec, number, streams[0], stream, read)
                    parts += [found] if found.num_rows else []
                    held += found.num_rows
                    if self.most is not None and held > self.most:
                        raise QueryError(
                            f"the windows over {stream.name} hold more than {self.most} rows, which are read in this"
                            " process; a shorter window, or a filter below it, helps"
                        )
        return merge_rows(parts) if parts else empty_rows(connection(), item.columns)

    def _kept(
        self, spec: Rows, number: int, first: StreamDefinition, stream: StreamDefinition, read: pa.Table
    ) -> pa.Table:
        """What a store keeps of rows of a stream."""
        rows = entering(counted(read, stream.options), spec, stream.id, row_schema(first))
        found, failed = tolerant(lambda some: rows_of(connection(), spec, some), rows)
        if self.failed is not None and failed is not None:
            self.failed[number].setdefault(stream.id, []).append(failed)
        return found


def _columns(spec: Rows, stream: StreamDefinition) -> list[str]:
    """The columns that are read of a stream."""
    named = own_names(spec, stream, [c for c in spec.columns if c not in (WEIGHT, HOLDS)])
    return [c for c in dict.fromkeys(named) if c != stream.options.time]
