"""A Delta table as a set of immutable segment files, committed with the epoch that made them.

The pond is the only writer, so the list of live segments is kept in memory beside the Delta log and readers take an
immutable snapshot of it; files that a commit removed stay on disk until nobody reads them (`sweep`).
"""

from __future__ import annotations

import json
import os
import re
import threading
import zlib
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    RemoveAction,
    create_table_with_add_actions,
)
from deltalake.transaction import Transaction as DeltaTransaction

from millpond.support.checksums import NotAsWritten
from millpond.support.damaged_files import damaged, reading
from millpond.support.errors import PondError
from millpond.tables.evolution import commit_schema
from millpond.tables.locations import file_names, make_folder, options_of, read_bytes
from millpond.tables.stored_files import read_parquet

CHECKPOINT_EVERY = 50

#: What a Delta log can hold, and what our commits say of themselves.
_ACTIONS = frozenset(
    [
        "add",
        "cdc",
        "checkpointMetadata",
        "commitInfo",
        "domainMetadata",
        "metaData",
        "protocol",
        "remove",
        "sidecar",
        "txn",
    ]
)
_COMMITTED = "millpond.files"

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
        storage = options_of(folder)
        if not DeltaTable.is_deltatable(folder, storage):  # a killed process may have left an empty log
            create_table_with_add_actions(
                folder,
                Schema.from_arrow(schema),
                [],
                mode="ignore",
                configuration={
                    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
                    "delta.logRetentionDuration": "interval 10 minutes",
                },
                storage_options=storage,
            )
        try:
            self._table = DeltaTable(folder, storage_options=storage)
        except DeltaError as error:
            raise damaged(_damaged_file(os.path.join(folder, "_delta_log")), error) from error
        self._delta_schema = self._table.schema()
        self.evolve(schema)
        # The last transaction of every application that was asked for: Delta looks through its log each time.
        self._transactions: dict[str, int] = {}
        self._segments: dict[str, Segment] = {s.path: s for s in self._load()}
        removed = self._table.transaction_version(_REMOVED) if self.version else None
        self._snapshot = tuple(self._segments.values()), removed
        self._garbage: list[str] = []

    @property
    def version(self) -> int:
        """The version of the last commit."""
        return self._table.version()

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
            if wanted == self._delta_schema:
                return
            commit_schema(self._table, self.folder, wanted)
            self._table.update_incremental()
            self._delta_schema = self._table.schema()

    def committed(self, application: str) -> int:
        """The number of the last transaction of `application`, -1 if there is none."""
        known = self._transactions.get(application)
        if known is None:
            version = self._table.transaction_version(application)
            known = self._transactions[application] = -1 if version is None else int(version)
        return known

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
            transactions = [DeltaTransaction(application, number)] if application is not None else []
            known = self._snapshot[1]
            if removed is not None and (known is None or removed > known):
                known = removed
                # Delta keeps the last number of an application in every checkpoint.
                transactions.append(DeltaTransaction(_REMOVED, removed))
            try:
                self._write(actions, transactions)
            except Exception:
                # An object store's answer can be lost on its way: the commit is there, or it is not.
                version = self._table.version()
                self._transactions.clear()
                self._table.update_incremental()
                if self._table.version() == version or not self._is_there(add, gone):
                    raise
            self._table.update_incremental()
            if application is not None:
                self._transactions[application] = number
            for s in gone:
                del self._segments[s.path]
                self._garbage.append(s.path)
            self._segments.update({s.path: s for s in add})
            self._snapshot = tuple(self._segments.values()), known

    def _write(self, actions: list[AddAction | RemoveAction], transactions: list[DeltaTransaction]) -> None:
        """Write one commit to the log, and now and then a checkpoint."""
        # Delta makes a checkpoint of version v when (v + 1) % interval is 0; this commit makes version + 1.
        checkpoint = (self._table.version() + 2) % CHECKPOINT_EVERY == 0
        self._table.create_write_transaction(
            actions,
            "append",
            self._delta_schema,
            commit_properties=CommitProperties(
                {_COMMITTED: _told([a.path for a in actions])},
                max_commit_retries=0,
                app_transactions=transactions or None,
            ),
            post_commithook_properties=PostCommitHookProperties(
                create_checkpoint=checkpoint, cleanup_expired_logs=checkpoint
            ),
        )

    def _is_there(self, add: Sequence[Segment], gone: Sequence[Segment]) -> bool:
        """Whether the log names what a commit was to add, and not what it was to remove; at least one of either."""
        named = {s.path for s in live_segments(self.folder)}
        added, removed = {s.path for s in add}, {s.path for s in gone}
        return bool(added or removed) and added <= named and not removed - added & named

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
        stats["crc"] = _checksum(segment.path, segment.size, stats)
        return AddAction(segment.path, segment.size, {}, _epoch_ms(segment), changed, json.dumps(stats))

    def _load(self) -> list[Segment]:
        return list(live_segments(self.folder)) if self.version else []  # version 0 makes the table, empty


def live_segments(folder: str) -> tuple[Segment, ...]:
    """The live segments of a table from our statistics in its Delta log, whoever has the table open.

    A checkpoint keeps the text of `stats` as it was.
    """
    found: dict[str, Segment] = {}
    log = os.path.join(folder, "_delta_log")
    names = file_names(log)
    checkpoints = [n for n in names if ".checkpoint" in n and n.endswith(".parquet")]
    since = -1  # the first commit makes the table
    if checkpoints:
        since = int(checkpoints[-1].split(".")[0])
        path = os.path.join(log, checkpoints[-1])
        rows = read_parquet(path, ["add"]).to_pylist()
        with reading(path):
            found = {a["path"]: _segment(a["path"], a["size"], a["stats"]) for row in rows if (a := row["add"])}
    for name in names:
        if not re.fullmatch(r"\d{20}\.json", name) or int(name[:20]) <= since:
            continue
        with reading(os.path.join(log, name)):
            _replay(read_bytes(os.path.join(log, name)), found)
    return tuple(found.values())


def _replay(commit: bytes, found: dict[str, Segment]) -> None:
    """Bring the live segments up to date with one more commit.

    Raises: ValueError, KeyError and the like where the commit is not what was written.
    """
    actions = [json.loads(line) for line in commit.splitlines()]
    if (unknown := {name for action in actions for name in action} - _ACTIONS) or not actions:
        raise NotAsWritten(f"no action of a commit is called {min(unknown)!r}" if unknown else "it is empty")
    told = next((info[_COMMITTED] for a in actions if _COMMITTED in (info := a.get("commitInfo", {}))), None)
    files = [action["path"] for a in actions if (action := a.get("add") or a.get("remove"))]
    if told is not None and told != _told(files):
        raise NotAsWritten("it has other files than it says")
    for action in actions:
        if "add" in action:
            add = action["add"]
            found[add["path"]] = _segment(add["path"], add["size"], add["stats"])
        elif "remove" in action:
            del found[action["remove"]["path"]]


def _told(paths: Iterable[str]) -> str:
    """What a commit says of the files that it adds and removes, so that the loss of one shows."""
    return f"{zlib.crc32(chr(10).join(sorted(paths)).encode()):08x}"


def _damaged_file(log: str) -> str:
    """The file of a Delta log that cannot be read; the log itself where all can."""
    for name in file_names(log):
        path = os.path.join(log, name)
        try:
            if name.endswith(".parquet"):
                read_parquet(path)
            elif name.endswith(".json") or name == "_last_checkpoint":
                for line in read_bytes(path).splitlines():
                    json.loads(line)
        except (ValueError, PondError):
            return path
    return log


def _segment(path: str, size: int, stats: str) -> Segment:
    value = json.loads(stats)
    if "crc" in value and value.pop("crc") != _checksum(path, size, value):
        raise NotAsWritten(f"what it says of {path} is not what was written")
    low, high, first, last, level, shard, *copy = value["millpond"]
    return Segment(path, value["numRecords"], size, low, high, first, last, level, shard, *copy)


def _checksum(path: str, size: int, stats: dict[str, Any]) -> int:
    """Of what a Delta log says of a file."""
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
