"""What map tasks read of a reduced scan, and the partials that they make of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.reading.held_rows import HeldRows
from millpond.archive.reading.history import Range, map_history
from millpond.archive.reading.pacing import Pace
from millpond.archive.reading.scan import Counters, Piece, batches, full_scan
from millpond.archive.segments import row_schema
from millpond.manifests.places import summaries_folder
from millpond.operators.summaries.maintenance import entry_partials
from millpond.synopses import PanesSpec, connection
from millpond.synopses.partials.shards import cut
from millpond.synopses.whole_rows import plain_spec, with_weight_one
from millpond.tables import Segment
from millpond.tables.chunks import pack
from millpond.tables.executors import Parcel
from millpond.types import WEIGHT, BoundQuery, StreamDefinition, from_json, to_json

#: Rows of several files that are evaluated at once: of a file little may be left, and a statement takes milliseconds.
TOGETHER = 262_144

#: Who sends a map task's counters.
SCAN = "scan"


@dataclass(frozen=True)
class Portion:
    """What a scan reads of one step of one stream.

    interval: rows are seen at the start of their interval (microseconds); 0: at their own time. entries: of a summary
    (`have`), in place of the files `files`.
    """

    wanted: Range
    drop: float
    pieces: tuple[Piece, ...]
    interval: int = 0
    entries: tuple[Segment, ...] = ()
    files: tuple[Segment, ...] = ()
    have: PanesSpec | None = None


@dataclass(frozen=True)
class AtHand:
    """What a scan has where it runs in the pond's own process.

    held: rows that need not be read again. pace: says what is read of a file when its turn has come.
    """

    held: HeldRows
    pace: Pace | None = None


def portion_rows(
    pond: str,
    stream: StreamDefinition,
    found: Sequence[Portion],
    columns: Sequence[str] | None,
    counters: Counters,
    at_hand: AtHand | None = None,
) -> Iterator[pa.Table]:
    """Rows of portions with their weight, in bounded batches and in no order; those of a batch have the same weight."""
    together: list[pa.Table] = []
    weight, count = 0.0, 0
    for rows in _read(pond, stream, found, columns, counters, at_hand):
        its = rows[WEIGHT][0].as_py()
        if together and (its != weight or count + rows.num_rows > TOGETHER):
            yield pa.concat_tables(together, promote_options="permissive")
            together, count = [], 0
        together.append(rows)
        weight, count = its, count + rows.num_rows
    if together:
        yield pa.concat_tables(together, promote_options="permissive")


def _read(
    pond: str,
    stream: StreamDefinition,
    found: Sequence[Portion],
    columns: Sequence[str] | None,
    counters: Counters,
    at_hand: AtHand | None,
) -> Iterator[pa.Table]:
    for portion in found:
        first = portion.wanted.first
        here = None if first is not None else at_hand  # live rows are read as they are
        for planned in portion.pieces:
            piece = planned
            if here is not None and here.pace is not None:
                piece = here.pace.piece(stream, planned, portion.wanted, portion.drop)
            known = None if here is None else here.held.of(stream, piece, portion.wanted)
            if known is not None:
                yield from _known(pond, stream, piece, portion.wanted, columns, counters, known)
                continue
            for rows in batches(pond, stream, [piece], portion.wanted, columns, counters, in_order=False):
                if first is not None:
                    rows = rows.filter(pc.greater_equal(rows["_epoch"], first))
                if rows.num_rows:
                    yield rows


def _known(
    pond: str,
    stream: StreamDefinition,
    piece: Piece,
    wanted: Range,
    columns: Sequence[str] | None,
    counters: Counters,
    known: Sequence[pa.Table],
) -> Iterator[pa.Table]:
    """Rows of a piece that were read before, and counted then."""
    counters.add(full_scan(pond, stream, piece.whole or piece.segment, "" if piece.whole else piece.copy, wanted))
    for rows in known:
        counters.rows += rows.num_rows
        if columns is not None:
            hidden = [n for n in rows.column_names if n.startswith("_")]
            names = dict.fromkeys([*columns, stream.options.time, *hidden])
            rows = rows.select([n for n in rows.column_names if n in names])
        if rows.num_rows:
            yield rows


def map_portions(
    pond: str,
    stream: StreamDefinition,
    found: Sequence[Portion],
    wanted: Range,
    spec: PanesSpec,
    query: BoundQuery,
    owner: str,
    shards: int,
    task: int,
    first: StreamDefinition,
    strict: bool = False,
    letters: list[pa.Table] | None = None,
    at_hand: AtHand | None = None,
) -> Iterator[Parcel]:
    """Map task: partials of one synopsis over portions, and what was read; see `history.map_history`.

    query: the one that the synopsis is for.
    """
    counters = Counters()
    for interval in sorted({p.interval for p in found}):
        some = [p for p in found if p.interval == interval]
        seen = replace(spec, interval=interval or None)
        rows = partial(_rows, pond, stream, some, counters, at_hand)
        yield from map_history(pond, stream, (), wanted, seen, owner, shards, task, strict, first, rows, letters)
        for portion in some:
            if portion.entries:
                table = _entries(pond, stream, portion, seen, query, counters)
                for shard, part in cut(connection(), seen, owner, table, shards):
                    yield Parcel(shard, owner, task, pack(part))
    yield counted_parcel(task, counters)


def _rows(
    pond: str,
    stream: StreamDefinition,
    found: Sequence[Portion],
    counters: Counters,
    at_hand: AtHand | None,
    columns: Sequence[str],
) -> Iterator[pa.Table]:
    return portion_rows(pond, stream, found, columns, counters, at_hand)


def _entries(
    pond: str, stream: StreamDefinition, portion: Portion, spec: PanesSpec, query: BoundQuery, counters: Counters
) -> pa.Table:
    """Entries of a summary as partials of a synopsis with weights."""
    needed, have = plain_spec(spec, query), portion.have
    assert needed is not None and have is not None
    paths = [os.path.join(summaries_folder(pond), s.path) for s in portion.entries]
    plain = entry_partials(paths, have, needed)
    counters.add(Counters({"summary": len(paths)}, len(paths), sum(s.size for s in portion.entries)))
    counters.read += sum(s.rows for s in portion.entries)
    counters.rows += pc.sum(plain["n"]).as_py() if plain.num_rows else 0
    for file in portion.files:
        counters.add(full_scan(pond, stream, file, "", portion.wanted, spec.columns_of(stream)))
    return with_weight_one(connection(), spec, query, plain, row_schema(stream).empty_table())


def counted_parcel(task: int, counters: Counters) -> Parcel:
    """What a map task has read, for shard 0."""
    return Parcel(0, SCAN, task, json.dumps(to_json(counters)).encode())


def take_counters(parcels: Sequence[Parcel]) -> tuple[list[Parcel], dict[str, Any]]:
    """The other parcels, and the sum of the counters as a report."""
    total = Counters()
    others = []
    for parcel in parcels:
        if parcel.owner == SCAN:
            total.add(from_json(Counters, json.loads(bytes(parcel.payload))))
        else:
            others.append(parcel)
    return others, to_json(total)
