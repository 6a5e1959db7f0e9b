"""A Delta table as a set of immutable segment files, committed with the epoch that made them.

The pond is the only writer, so the list of live segments is kept in memory beside the Delta log and readers take an
immutable snapshot of it; files that a commit removed stay on disk until nobody reads them (`sweep`).
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import Schema
from deltalake.transaction import AddAction, RemoveAction

from millpond.support.checksums import NotAsWritten
from millpond.support.damaged_files import reading
from millpond.tables.delta_log import log_of, read_log
from millpond.tables.locations import file_names, make_folder

#: The Delta application under which a table records up to which event time rows were removed.
_REMOVED = "removed"


@dataclass(frozen=True)
class Segment:
    """One immutable Parquet file of a table.

    path: name within the table's folder. low, high: smallest and largest event time in it (microseconds).
    first_epoch, last_epoch: the epochs whose rows it holds. level: how often it was merged.
    kept: of a copy, the fraction of the rows that it holds (low, high and epochs are those of all the rows then).
    blocks: row groups among which rows are spread by chance; 0: they are in order. sole: of a copy, the rows themselves
    have been removed; the copy stands for them.
    """

    path: str
    rows: int
    size: int
    low: int
    high: int
    first_epoch: int
    last_epoch: int
    level: int = 0
    shard: int = -1
    kept: float = 1.0
    blocks: int = 0
    sole: bool = False


#: The live segments of a table, and the event time below which rows were removed for good; None: none were.
Snapshot: TypeAlias = tuple[tuple[Segment, ...], int | None]


class SegmentTable:
    """A Delta table of segments.

    Arguments:
        folder: where the table lies, a path or a place in an object store (`tables.stores`); created when missing.
        schema: Arrow schema of its files.
        time: the column with event time, for the statistics that readers prune by; None: none is written.
    """

    def __init__(self, folder: str, schema: pa.Schema, time: str | None = None) -> None:
        self.folder, self.schema, self.time = folder, schema, time
        self._lock = threading.Lock()
        make_folder(folder)
        self._log = log_of(folder, schema)
        self.evolve(schema)
        self._segments = {s.path: s for s in _segments(folder, self._log.files)}
        self._snapshot: Snapshot = tuple(self._segments.values()), self._log.transactions.get(_REMOVED)
        self._garbage: list[str] = []

    @property
    def version(self) -> int:
        """The version of the last commit."""
        return self._log.version

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The live segments: an immutable snapshot."""
        return self._snapshot[0]

    @property
    def snapshot(self) -> Snapshot:
        """The live segments, and the event time below which rows were removed for good (None: none were)."""
        return self._snapshot

    def path(self, segment: Segment) -> str:
        """The full path of a segment's file."""
        return os.path.join(self.folder, segment.path)

    def evolve(self, schema: pa.Schema) -> None:
        """Give the table more columns, or wider ones; files keep what they have, and readers fill and cast.

        Does nothing when the table has this schema.
        """
        wanted = Schema.from_arrow(schema)
        with self._lock:
            self.schema = schema
            if wanted != self._log.schema:
                self._log.change(wanted)

    def committed(self, application: str) -> int:
        """The number of the last transaction of `application`, -1 if there is none."""
        return self._log.transactions.get(application, -1)

    def commit(
        self,
        add: Sequence[Segment],
        remove: Iterable[str] = (),
        application: str | None = None,
        number: int = 0,
        moved: bool = False,
        removed: int | None = None,
    ) -> None:
        """Add and remove segments in one Delta commit.

        Arguments:
            application, number: recorded as Delta transaction; a number already recorded makes the call do nothing.
            moved: the rows stay the same (compaction), so that change feeds pass over it.
            removed: rows below this event time are among those that the commit removes for good; recorded with it.

        A segment that is both added and removed never becomes visible (a back-fill's, merged by its first epoch).
        """
        with self._lock:
            names = set(remove)
            if application is not None and self.committed(application) >= number:
                self._garbage += sorted(names - self._segments.keys())
                return
            gone = [self._segments[p] for p in sorted(names) if p in self._segments]
            self._garbage += [s.path for s in add if s.path in names]
            add = [s for s in add if s.path not in names]
            if not add and not gone and application is None:
                return
            actions: list[AddAction | RemoveAction] = [self._add_action(s, not moved) for s in add]
            actions += [RemoveAction(s.path, not moved, _epoch_ms(s), s.size, {}) for s in gone]
            transactions = {application: number} if application is not None else {}
            known = self._snapshot[1]
            if removed is not None and (known is None or removed > known):
                # Delta keeps the last number of an application in every checkpoint.
                known = transactions[_REMOVED] = removed
            self._log.commit(actions, transactions)
            for s in gone:
                del self._segments[s.path]
                self._garbage.append(s.path)
            self._segments.update({s.path: s for s in add})
            self._snapshot = tuple(self._segments.values()), known
            self._log.sum_up()

    def garbage(self, spare: Container[str] = ()) -> list[str]:
        """Files on disk that commits of this process removed, except `spare`; taken over by the caller."""
        with self._lock:
            gone = [p for p in self._garbage if p not in self._segments]  # a name may have been added again
            taken = [p for p in gone if p not in spare]
            self._garbage = [p for p in gone if p in spare]
        return taken

    def orphans(self) -> list[str]:
        """Files on disk that no live segment names: left by killed epochs and jobs."""
        live = set(self._segments)
        return sorted(n for n in file_names(self.folder) if n.endswith((".parquet", ".tmp")) and n not in live)

    def _add_action(self, segment: Segment, changed: bool) -> AddAction:
        stats: dict[str, Any] = {"numRecords": segment.rows}
        if self.time is not None and segment.rows:
            low, high = (_iso(t) for t in (segment.low, segment.high))
            if low and high:
                stats |= {"minValues": {self.time: low}, "maxValues": {self.time: high}, "nullCount": {self.time: 0}}
                if segment.kept < 1:
                    stats["tightBounds"] = False
        stats["millpond"] = [
            segment.low,
            segment.high,
            segment.first_epoch,
            segment.last_epoch,
            segment.level,
            segment.shard,
        ]
        if (segment.kept, segment.blocks, segment.sole) != (1.0, 0, False):
            stats["millpond"] += [segment.kept, segment.blocks, segment.sole]
        stats["crc"] = _checksum(segment.path, segment.size, stats)  # stays with the text in checkpoints
        return AddAction(segment.path, segment.size, {}, _epoch_ms(segment), changed, json.dumps(stats))


def live_segments(folder: str) -> tuple[Segment, ...]:
    """The live segments of a table from our statistics in its Delta log, whoever has the table open.

    Raises: as `read_log`.
    """
    return _segments(folder, read_log(folder).files)


def _segments(folder: str, files: Mapping[str, tuple[int, str]]) -> tuple[Segment, ...]:
    """The segments that a log names. Raises: PondError."""
    with reading(os.path.join(folder, "_delta_log")):
        return tuple(_segment(path, *file) for path, file in files.items())


def _segment(path: str, size: int, stats: str) -> Segment:
    value = json.loads(stats)
    if "crc" in value and value.pop("crc") != _checksum(path, size, value):
        raise NotAsWritten(f"what it says of {path} is not what was written")
    low, high, first, last, level, shard, *copy = value["millpond"]
    return Segment(path, value["numRecords"], size, low, high, first, last, level, shard, *copy)


def _checksum(path: str, size: int, stats: dict[str, Any]) -> int:
    """Of what a log says of a file."""
    return zlib.crc32(json.dumps([path, size, stats]).encode())


def _epoch_ms(segment: Segment) -> int:
    """The modification time recorded in the log: the epoch's number, since the wall clock would differ on replay."""
    return segment.last_epoch


def _iso(micros: int) -> str | None:
    import datetime

    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return None
    return moment.isoformat(timespec="microseconds") + "Z"
