"""Back-fill of a relational query: the epochs before its first live one, answered in pieces of event time.

A piece reads the rows of one stretch of event time, beside those that are still needed of the stretches before, and
answers the instants of the stretch; so no more is in memory than a piece, what its windows hold, and what the query
must keep at the end anyhow. Rows of pairs and what is left of a reduced scan are one piece, however many there are. The
functions are those of a live epoch in which every row comes in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.planning.ranges import Range, segments_in
from millpond.catalog import Catalog, Standing
from millpond.manifests.adoptions import Adoption
from millpond.manifests.owed import Owed, scanned_together
from millpond.manifests.places import results_folder, state_folder
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import start_of
from millpond.operators.contract import Past, Retold
from millpond.operators.past_letters import write_letters
from millpond.operators.relational.bounds import high_of
from millpond.operators.relational.history import InputReader
from millpond.operators.relational.placing import placed
from millpond.operators.relational.readers import Input, Replayed, RowReader
from millpond.operators.relational.relational_progress import R
from millpond.operators.stores.state import row_chunk
from millpond.progress import FOREVER, NEVER
from millpond.relations import merge_rows
from millpond.synopses import connection
from millpond.tables import Chunk, Segment, write_chunks
from millpond.types import Relational

#: Rows of the archive that are read at a time, of all inputs together.
PIECE = 2_000_000

#: Places at which the rows of a file are thought to lie: a file is cut where a piece is full.
_PLACES = 16


def answer_past(reader: RowReader[R], past: Past) -> Adoption:
    """Answer the epochs before a query's first live one, and leave the rows that it goes on with."""
    standing, known = reader.standing, past.known
    bound = reader.answered_until(standing, known.progress, known.clock)
    start = start_of(standing.definition.options, bound)
    high = high_of(past.catalog, reader.specs, known.progress)
    begun = QueryProgress(closed=start, start=start, own=reader.progress_kind())
    failed = [dict[int, list[pa.Table]]() for _ in reader.inputs]
    return _Backfill(past, reader, bound, high, begun, failed).run()


def retell_past(reader: RowReader[R], past: Past, owed: Sequence[Owed]) -> Retold:
    """See `Answering.retell`: stretches close to each other are read at once."""
    known = past.known.queries.get(str(reader.standing.id), QueryProgress()).read(reader.progress_kind)
    high, results = high_of(past.catalog, reader.specs, past.known.progress), list[Segment]()
    for stretch in scanned_together(owed):
        own = reader.progress_kind(first=known.own.first)
        begun = QueryProgress(closed=stretch.low, start=stretch.low, tables=known.tables, own=own)
        failed = [dict[int, list[pa.Table]]() for _ in reader.inputs]
        last = stretch.high - 1 + reader.behind
        name = f"t{reader.owner}-{past.known.epoch}-{stretch.low}"
        results += _Backfill(past, reader, stretch.high, high, begun, failed, name=name, last=last).told()
    streams = past.archives.streams
    gone = [streams[s].archive.snapshot[1] for spec in reader.specs for s in spec.streams if s in streams]
    removed = max((g for g in gone if g is not None), default=None)
    reach = reader.reaches_back
    since = NEVER if removed is None else FOREVER if reach is None else removed + reach + 1
    return Retold(tuple(results), removed, since)


@dataclass
class _Backfill(Generic[R]):
    """What a back-fill knows; `progress`, `answers` and `failed` grow piece by piece.

    reader: what answers it. bound: up to which instants are answered. high: the least high watermark of the streams
    that have rows. sums: what is known of groups. name: what files of answers begin with. last: the last event time
    that is read; None: whatever there is.
    """

    past: Past
    reader: RowReader[R]
    bound: int
    high: int
    progress: QueryProgress[R]
    failed: list[dict[int, list[pa.Table]]]
    answers: list[Segment] = field(default_factory=list)
    sums: list[pa.Table] = field(default_factory=list)
    name: str = ""
    last: int | None = None

    @property
    def standing(self) -> Standing:
        """The query."""
        return self.reader.standing

    @property
    def relation(self) -> Relational:
        """What is asked."""
        return self.reader.relation

    @property
    def catalog(self) -> Catalog:
        """As of when the back-fill began."""
        return self.past.catalog

    def run(self) -> Adoption:
        """All pieces, and what is left of them."""
        held, query = self.answered(), self.standing.id
        return Adoption(
            self.reader.owner,
            (query,),
            {str(query): self.progress},
            self.state(held),
            tuple(self.answers),
            self.letters(),
        )

    def told(self) -> list[Segment]:
        """Files with the answers of all pieces; what fails was written when it came."""
        self.answered()
        return self.answers

    def answered(self) -> list[Input]:
        """Answer all pieces; the rows that are left of them."""
        start = self.progress.start
        # What is final at the end is looked at no more; until then nothing is that has been answered.
        horizon = min(start, self.horizon(replace(self.progress, closed=max(start, self.bound))))
        held: list[Input] = []
        after: int | None = None
        for until in self.pieces(max(NEVER, horizon - 1)):
            fresh = self.read(max(NEVER, horizon - 1), after, until)
            held = [_joined(old, new) for old, new in zip(held, fresh, strict=True)] if held else fresh
            self.advance(held, self.bound if until is None else min(self.bound, until + 1))
            if until is not None:
                held = self.needed(held)
                after = until
        return held

    def horizon(self, progress: QueryProgress[R]) -> int:
        """Instants before it are final when a query has come so far."""
        return self.reader.horizon(progress, self.high)

    def pieces(self, since: int) -> Iterator[int | None]:
        """The last event time of each piece; of the last one None: whatever is left.

        What is left out of a scan that is reduced depends on all of it, so it is read at once; so are rows of pairs.
        """
        if any(item.reduce is not None for item in self.relation.inputs) or not self.reader.in_pieces:
            yield None
            return
        places: list[tuple[int, float]] = []
        numbers, streams = {s for spec in self.reader.specs for s in spec.streams}, self.past.archives.streams
        for number in sorted(numbers & streams.keys()):  # reading tells of a stream that was dropped
            for segment in segments_in(streams[number].archive.segments, Range(epoch=self.past.known.epoch)):
                count = max(1, min(_PLACES, -(-segment.rows * _PLACES // PIECE)))
                times = np.linspace(segment.low, segment.high, count + 1)[1:].astype(np.int64)
                places += [(int(t), segment.rows / count) for t in times]
        size = 0.0
        for time, rows in sorted(places):
            size += rows
            if size >= PIECE and since < time < self.bound - 1:
                yield time
                size = 0.0
        yield None

    def read(self, since: int, after: int | None, until: int | None) -> list[Input]:
        """The rows of each input in a stretch of event time."""
        past, specs = self.past, self.reader.specs
        reader = InputReader(past.archives, self.relation, past.known, specs, failed=self.failed, as_of=past.known)
        reader.past_retention = self.last is not None  # what was counted stays so: only what is gone is not told anew
        inputs = reader.read(since, self.last if until is None else until, after)
        if self.progress.own.first is None:
            seen = [int(pc.min(i.rows["_t"]).as_py()) for i in inputs if i.rows.num_rows]
            first = min(seen, default=None)
            if self.progress.start > NEVER:
                first = self.progress.start if any(i.high > NEVER for i in inputs) else None
            self.progress = replace(self.progress, own=replace(self.progress.own, first=first))
        return inputs

    def advance(self, inputs: Sequence[Input], bound: int) -> None:
        """Answer the instants up to a bound."""
        past, known = self.past, self.past.known
        stretch = Replayed(
            past.path, known.progress, known.clock, bound, self.high, past.versions, past.unread, self.sums
        )
        done = self.reader.replay(connection(), inputs, self.progress, stretch)
        if done.sums is not None:
            self.sums = [self.reader.summed(connection(), [*self.sums, done.sums])]
        self.progress = done.progress
        if done.answers is not None and done.answers.num_rows:
            shard, number = max(0, self.catalog.stores[self.standing.inputs[0]].shard), len(self.answers)
            ends = pc.min_max(done.answers["at"].cast(pa.int64())).as_py()
            epoch, owner = self.standing.first_epoch - 1, self.reader.owner
            chunk = Chunk(owner, "backfilled", epoch, ends["min"], ends["max"], done.answers)
            name = f"{self.name or f'b{owner}'}-{shard:04d}-{number:04d}.parquet"
            self.answers.append(write_chunks(results_folder(past.path), name, [chunk], shard))

    def masks(self, inputs: Sequence[Input], horizon: int) -> dict[str, Any]:
        """Which rows of each store are needed where instants from `horizon` on are looked at."""
        masks: dict[str, Any] = {}
        for place, (owner, each, held) in enumerate(zip(self.standing.inputs, inputs, self.held, strict=True)):
            if held:
                mine = self.reader.kept_of(connection(), place, each, self.progress, horizon)
                masks[owner] = masks.get(owner, False) | mine  # inputs with one store read the same rows
        return masks

    @property
    def held(self) -> list[bool]:
        """Of each input, whether its rows are kept at hand; those of a past that is looked up are not."""
        return [self.relation.probe(item.alias) is None for item in self.relation.inputs]

    def needed(self, inputs: Sequence[Input]) -> list[Input]:
        """The inputs with the rows that the next piece, or the query at the end, can still need."""
        final = self.horizon(replace(self.progress, closed=max(self.progress.start, self.bound)))
        masks = self.masks(inputs, min(final, self.progress.closed))
        return [
            replace(each, rows=each.rows.filter(pa.array(masks[owner]))) if held and owner in masks else each
            for held, owner, each in zip(self.held, self.standing.inputs, inputs, strict=True)
        ]

    def state(self, inputs: Sequence[Input]) -> tuple[Segment, ...]:
        """The rows that the query still needs, of stores that it does not share with queries that run already."""
        epoch = self.standing.first_epoch - 1
        masks = self.masks(inputs, self.horizon(self.progress))
        every = zip(self.held, self.standing.inputs, inputs, strict=True)
        rows = {owner: each.rows for held, owner, each in every if held}
        folder, shards = state_folder(self.past.path), self.past.shards
        chunks: dict[int, list[Chunk]] = {}
        for owner, mask in sorted(masks.items()):
            store = self.catalog.stores[owner]
            if store.first_epoch < self.standing.first_epoch:
                continue
            # Rows of split keys are copied where they are needed by the epoch that adopts them.
            found = placed(connection(), store, rows[owner].filter(pa.array(mask)), shards)
            for shard, part in found.shards.items():
                chunks.setdefault(shard, []).append(row_chunk(owner, epoch, part))
        files = [(f"{shard:04d}", shard, kept_there) for shard, kept_there in sorted(chunks.items())]
        for table in self.sums:
            for shard, chunk in sorted(self.reader.sums_by_shard(connection(), table, epoch, shards).items()):
                files.append((f"{shard:04d}g", shard, [chunk]))
        return tuple(
            write_chunks(folder, f"b{self.reader.owner}-{name}.parquet", there, shard) for name, shard, there in files
        )

    def letters(self) -> dict[str, tuple[Segment, ...]]:
        """Files of dead letters, by stream; rows of stores that run already became letters when they came."""
        past, standing, epoch = self.past, self.standing, self.standing.first_epoch - 1
        owners: set[str] = set()
        dead: dict[str, tuple[Segment, ...]] = {}
        for place, (owner, found) in enumerate(zip(standing.inputs, self.failed, strict=True)):
            if owner in owners or self.catalog.stores[owner].first_epoch < standing.first_epoch:
                continue
            owners.add(owner)
            for number, rows in sorted(found.items()):
                stream, name = self.catalog.streams[number], self.reader.owner
                users = ", ".join(self.catalog.called([standing]))
                segments = segments_in(past.archives.streams[number].archive.segments, Range(epoch=epoch))
                written = write_letters(past.path, stream, name, place, rows, users, epoch, segments)
                if written is not None:
                    dead[str(number)] = (*dead.get(str(number), ()), written)
        return dead


def _joined(old: Input, new: Input) -> Input:
    """An input with the rows that were needed of earlier pieces, and those of the next one."""
    if not old.rows.num_rows or not new.rows.num_rows:
        return replace(new, rows=new.rows if new.rows.num_rows else old.rows)
    return replace(new, rows=merge_rows([old.rows, new.rows]))
