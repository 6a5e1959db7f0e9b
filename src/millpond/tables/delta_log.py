"""The log of a Delta table, as the protocol has it: what it says, and commits to it.

A commit to a folder of this machine is one small JSON file, written here: the pond is the only writer, and knows
already what delta-rs reads its whole log again for at every commit. Commits to an object store are put-if-absent, which
delta-rs sees to; so are checkpoints, wherever the table lies.

Source: the Delta protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md (actions, checkpoints).
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)

from millpond.support.checksums import NotAsWritten
from millpond.support.damaged_files import damaged, reading
from millpond.support.errors import PondError
from millpond.tables.durable_files import sync_folder
from millpond.tables.locations import file_names, is_remote, options_of, read_bytes, size_of, write_bytes
from millpond.tables.stored_files import open_parquet

#: After so many commits the log is summed up in a checkpoint.
CHECKPOINT_EVERY = 50

_CONFIGURATION = {
    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
    "delta.logRetentionDuration": "interval 10 minutes",
}

#: What a commit adds and removes.
Action: TypeAlias = AddAction | RemoveAction


@dataclass
class Logged:
    """What a log says up to a version.

    files: the live ones, with size and the text of their statistics. metadata: of the table, as the protocol has it.
    transactions: the last number of every application.
    """

    version: int = -1
    metadata: dict[str, Any] = field(default_factory=dict)
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)


def read_log(folder: str) -> Logged:
    """What the log of the table in a folder says, whoever has the table open; version -1: there is none.

    A checkpoint keeps the text of statistics as it was.

    Raises: PondError when a file of it is damaged; FileNotFoundError when one is missing, which can be because the log
        was cleaned up meanwhile.
    """
    found, log = Logged(), os.path.join(folder, "_delta_log")
    names = file_names(log)
    checkpoints = [n for n in names if ".checkpoint" in n and n.endswith(".parquet")]
    if checkpoints:
        path = os.path.join(log, checkpoints[-1])
        with open_parquet(path) as file:
            for row in file.read(["add", "txn", "metaData"]).to_pylist(maps_as_pydicts="strict"):
                _take(found, {name: value for name, value in row.items() if value is not None})
        found.version = int(checkpoints[-1].split(".")[0])
    for name in names:
        if not re.fullmatch(r"\d{20}\.json", name) or int(name[:20]) <= found.version:
            continue
        if int(name[:20]) != found.version + 1:
            raise FileNotFoundError(f"{log} has no version {found.version + 1}")
        path = os.path.join(log, name)
        with reading(path):
            for action in _actions(read_bytes(path)):
                _take(found, action)
        found.version += 1
    return found


def _actions(commit: bytes) -> list[dict[str, Any]]:
    """The actions of a commit. Raises: NotAsWritten, and what JSON's reader raises."""
    first, _, rest = commit.partition(b"\n")
    actions = [json.loads(line) for line in (first, *rest.splitlines())]
    if actions[0].get("commitInfo", {}).get("crc", zlib.crc32(rest)) != zlib.crc32(rest):
        raise NotAsWritten("its checksum is another's")
    return actions


def _take(found: Logged, action: dict[str, Any]) -> None:
    """Take in one action of a log. Raises: KeyError and the like where it is not what was written."""
    if "add" in action:
        add = action["add"]
        found.files[add["path"]] = add["size"], add["stats"]
    elif "remove" in action:
        del found.files[action["remove"]["path"]]
    elif "txn" in action:
        found.transactions[action["txn"]["appId"]] = action["txn"]["version"]
    elif "metaData" in action:
        found.metadata = action["metaData"]


class DeltaLog(ABC):
    """The log of a table that this process alone writes to; it is made where it is missing.

    Args:
        folder: of the table. schema: of its files, where it is made.

    Attributes:
        version, transactions: of the last commit (see `Logged`). files: when it was opened.

    Raises: PondError when the log is damaged.
    """

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self.folder = folder
        known = self._read()
        if known.version < 0:  # a killed process may have left an empty log
            self._make(Schema.from_arrow(schema))
            known = self._read()
        self.version, self.files = known.version, known.files
        self.transactions, self._metadata = known.transactions, known.metadata

    def _read(self) -> Logged:
        log = os.path.join(self.folder, "_delta_log")
        try:
            found = read_log(self.folder)
        except FileNotFoundError as error:
            raise damaged(log, error) from error
        if found.version >= 0 and "schemaString" not in found.metadata:
            raise damaged(log, ValueError("no version says which columns the table has"))
        return found

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return Schema.from_json(self._metadata["schemaString"])

    def commit(self, actions: Sequence[Action], transactions: Mapping[str, int]) -> None:
        """Commit, durably.

        Args:
            transactions: by application, the number that is recorded with it.
        """
        self._commit(actions, transactions)
        self.version += 1
        self.transactions.update(transactions)

    def change(self, schema: Schema) -> None:
        """Commit other columns, durably: more of them, or wider ones.

        delta-rs adds columns, but has no call that changes a type. Widening a type needs no other file: readers cast
        what a file holds to what the table says.

        Raises: PondError when somebody else has committed meanwhile.
        """
        metadata = {**self._metadata, "schemaString": schema.to_json()}
        self._put(self.version + 1, "CHANGE COLUMNS", [{"metaData": metadata}])
        self.version += 1
        self._metadata = metadata

    def sum_up(self) -> None:
        """Make a checkpoint where one is due, and let go what it makes superfluous."""
        if (self.version + 1) % CHECKPOINT_EVERY == 0:
            table = DeltaTable(self.folder, storage_options=options_of(self.folder))
            table.create_checkpoint()
            table.cleanup_metadata()

    def _put(self, version: int, operation: str, actions: Iterable[dict[str, Any]]) -> None:
        """Write a version: what it says of itself, with the checksum of the rest, and the rest."""
        rest = b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)
        info = {"timestamp": _now(), "operation": operation, "engineInfo": "millpond", "crc": zlib.crc32(rest)}
        first = json.dumps({"commitInfo": info}, separators=(",", ":")).encode()
        self._write(os.path.join(self.folder, "_delta_log", f"{version:020d}.json"), first + b"\n" + rest)

    @abstractmethod
    def _write(self, path: str, commit: bytes) -> None:
        """Write a commit where there is none, durably. Raises: PondError where somebody else has written it."""

    @abstractmethod
    def _make(self, schema: Schema) -> None:
        """Make the log of a table without files."""

    @abstractmethod
    def _commit(self, actions: Sequence[Action], transactions: Mapping[str, int]) -> None:
        """Write the next version."""


class FolderLog(DeltaLog):
    """The log of a table in a folder of this machine."""

    def _make(self, schema: Schema) -> None:
        os.makedirs(os.path.join(self.folder, "_delta_log"), exist_ok=True)
        metadata: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "name": None,
            "description": None,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema.to_json(),
            "partitionColumns": [],
            "createdTime": _now(),
            "configuration": _CONFIGURATION,
        }
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        self._put(0, "CREATE TABLE", [{"protocol": protocol}, {"metaData": metadata}])

    def _commit(self, actions: Sequence[Action], transactions: Mapping[str, int]) -> None:
        said = [{"txn": {"appId": name, "version": number}} for name, number in transactions.items()]
        self._put(self.version + 1, "WRITE", [*map(_written, actions), *said])

    def _write(self, path: str, commit: bytes) -> None:
        beside = f"{path}.tmp"
        with open(beside, "wb") as file:
            file.write(commit)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)  # unlike a rename it does not replace a commit that is there
        except FileExistsError:
            raise _changed(self.folder) from None
        finally:
            os.unlink(beside)
        try:
            sync_folder(os.path.dirname(path))
        except BaseException:
            os.unlink(path)
            raise


class StoreLog(DeltaLog):
    """The log of a table in an object store."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        super().__init__(folder, schema)
        self._table = DeltaTable(folder, storage_options=options_of(folder))

    def _make(self, schema: Schema) -> None:
        create_table_with_add_actions(
            self.folder,
            schema,
            [],
            mode="ignore",
            configuration=dict(_CONFIGURATION),
            storage_options=options_of(self.folder),
        )

    def _commit(self, actions: Sequence[Action], transactions: Mapping[str, int]) -> None:
        self._table.update_incremental()  # columns may have changed
        said = [Transaction(name, number) for name, number in transactions.items()]
        properties = CommitProperties(app_transactions=said or None, max_commit_retries=0)
        hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        try:
            self._table.create_write_transaction(
                list(actions), "append", self.schema, commit_properties=properties, post_commithook_properties=hooks
            )
        except Exception:
            # An object store's answer can be lost on its way: the commit is there, or it is not.
            known = read_log(self.folder)
            if known.version == self.version or not _is_there(known, actions):
                self.version, self.transactions = known.version, known.transactions
                raise

    def _write(self, path: str, commit: bytes) -> None:
        if size_of(path) is not None:  # the storage handler has no call that puts a file only where there is none
            raise _changed(self.folder)
        write_bytes(path, commit)


def log_of(folder: str, schema: pa.Schema) -> DeltaLog:
    """The log of the table in a folder, or in a place in an object store. Arguments as of `DeltaLog`."""
    return StoreLog(folder, schema) if is_remote(folder) else FolderLog(folder, schema)


def _is_there(known: Logged, actions: Iterable[Action]) -> bool:
    """Whether a log names what a commit was to add, and not what it was to remove; at least one of either."""
    added = {a.path for a in actions if isinstance(a, AddAction)}
    removed = {a.path for a in actions if isinstance(a, RemoveAction)}
    return bool(added or removed) and added <= known.files.keys() and not removed - added & known.files.keys()


def _written(action: Action) -> dict[str, Any]:
    """An action as the protocol has it."""
    if isinstance(action, AddAction):
        return {
            "add": {
                "path": action.path,
                "partitionValues": {},
                "size": action.size,
                "modificationTime": action.modification_time,
                "dataChange": action.data_change,
                "stats": action.stats,
            }
        }
    return {
        "remove": {
            "path": action.path,
            "dataChange": action.data_change,
            "deletionTimestamp": action.deletion_timestamp,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": action.size,
        }
    }


def _now() -> int:
    return int(time.time() * 1000)


def _changed(folder: str) -> PondError:
    return PondError(f"the table {folder} was changed by another process")


__all__ = ["CHECKPOINT_EVERY", "DeltaLog", "FolderLog", "Logged", "StoreLog", "log_of", "read_log"]
