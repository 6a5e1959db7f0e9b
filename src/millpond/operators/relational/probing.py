"""The past of an input that is probed: pruned scans of the archive, and the rows that the running epoch brings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.counters import Counters
from millpond.archive.reading.reader import ArchiveReader
from millpond.catalog.unions import Fed
from millpond.progress import NEVER, StreamProgress
from millpond.relations import Rows, rows_of
from millpond.relations.probes import Stretch
from millpond.sources.own_marks import counted
from millpond.synopses import connection
from millpond.synopses.tolerance import tolerant
from millpond.tables import Segment
from millpond.types import HOLDS, Relational, StreamDefinition


@dataclass(frozen=True)
class Probed:
    """The archived rows of a stream as a probed input sees them.

    segments: the files that can hold rows of its window. epoch: rows of later epochs are not seen. known: the stream's
    progress, which says what late rows were behind. counters: what is read is added to it.
    seen: rows with earlier event times are not.
    """

    pond: str
    stream: StreamDefinition
    spec: Rows
    segments: tuple[Segment, ...]
    epoch: int
    known: StreamProgress
    counters: Counters | None = None
    seen: int = NEVER

    @property
    def oldest(self) -> int:
        """No row is older than this event time."""
        return max(self.seen, min((s.low for s in self.segments), default=-NEVER))

    def read(
        self, where: Sequence[Stretch], first: int | None = None, fresh: pa.Table | None = None, last: int | None = None
    ) -> Iterator[pa.Table]:
        """The rows of some stretches of event time, as a store has them, in bounded batches.

        Arguments:
            first, last: only rows of epochs from `first` on, up to `last`. fresh: rows that are not archived yet.
        """
        upto = self.epoch if last is None else min(self.epoch, last)
        columns = [c for c in dict.fromkeys(self.spec.columns) if c not in (self.stream.options.time, HOLDS)]
        counters = Counters() if self.counters is None else self.counters
        reader = ArchiveReader(self.pond, self.stream, columns, in_order=True, counters=counters)
        for low, high in where:
            wanted = Range(max(low, self.seen), high, upto, first)
            for rows in reader.rows([whole_files([s for s in self.segments if wanted.meets(s)], wanted)]):
                rows = counted(rows, self.stream.options)
                found = tolerant(lambda some: rows_of(connection(), self.spec, some), rows)[0]
                yield marked(self.spec, self.stream.options.late, self.known, found)
            if fresh is not None:
                times = fresh["_t"]
                yield fresh.filter(pc.and_(pc.greater_equal(times, low), pc.less(times, high)))


def marked(spec: Fed, late: str, known: StreamProgress, delta: pa.Table) -> pa.Table:
    """An epoch's rows as they are stored: a late row can revise what lies behind the largest event time at most.

    A row of a union is late when it is behind the progress of the union, whatever it was in its own stream.
    """
    at = delta.column_names.index("_cut")
    if spec.feeds:
        behind = pc.less(delta["_t"], known.bound)
        cut = pc.if_else(behind, pa.scalar(min(known.bound, known.high), pa.int64()), pa.scalar(None, pa.int64()))
        return delta.set_column(at, "_cut", cut)
    if late == "drop" or delta["_cut"].null_count == delta.num_rows or known.bound <= known.high:
        return delta
    cut = pc.min_element_wise(delta["_cut"], known.high, skip_nulls=False)
    return delta.set_column(at, "_cut", cut)


def probed_streams(relation: Relational, streams: Sequence[StreamDefinition]) -> dict[int, int | None]:
    """The streams that a query probes, with the longest of its windows over each; None: no window ends."""
    found: dict[int, int | None] = {}
    for item, stream in zip(relation.inputs, streams, strict=True):
        if relation.probe(item.alias) is None:
            continue
        length = item.window.reach
        known = found.get(stream.id, 0)
        found[stream.id] = None if length is None or known is None else max(known, length)
    return found
