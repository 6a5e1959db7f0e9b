"""The landing: what is ingested is on disk before `ingest` returns.

A batch becomes an Arrow file, then a line of the intake log. Only the line makes it taken: a file that a crash left
without its line was never acknowledged, and is removed when the landing is opened.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from millpond.sources.intake_log import HEAD_BYTES, IntakeLog, Item, checksum, sync_folder
from millpond.support.errors import KeyReused, PondError
from millpond.support.sql import quote
from millpond.synopses import connection, query_table
from millpond.tables.stored_files import arrow_parts
from millpond.types import DAY

#: How long an idempotency key is remembered, microseconds.
KEY_KEPT: Final = DAY

_SUFFIX: Final = ".arrow"
_PRUNE_EVERY: Final = 10_000


class Landing:
    """Durable ingest into one stream: Arrow files in `folder`, in the order of `log`. Thread-safe.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> landing = Landing(folder + "/landing", IntakeLog(folder))
        >>> landing.append(pa.table({"a": [1]}), key="k", arrival=5)
        0
        >>> landing.append(pa.table({"a": [1]}), key="k", arrival=6)
        0
    """

    def __init__(self, folder: str | Path, log: IntakeLog) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.log = log
        self._lock = threading.Lock()
        self._keys: dict[str, tuple[int, int]] = {}  # key → ordinal, arrival
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self.folder.parent)
        taken = {os.path.basename(i.path): i.ordinal for i in log.items() if i.kind == "landing"}
        for item in log.items():
            if item.key is not None:
                self._keys[item.key] = (item.ordinal, item.arrival)
        self._prune_at = len(self._keys) + _PRUNE_EVERY
        kept = []
        for name in os.listdir(self.folder):
            if name in taken:
                kept.append(taken[name])
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.folder / name)
        self._released = min(kept, default=log.length)

    def append(self, table: pa.Table, partition: str = "", key: str | None = None, arrival: int = 0) -> int | None:
        """Take a batch; when this returns, it is durable.

        Arguments:
            table: rows in the stream's canonical schema (see `millpond.sources.ingest.to_table`).
            partition: the source partition it comes from.
            key: an idempotency key: the same rows with the same key within 24 hours are not taken again.
            arrival: the clock reading, microseconds.

        Returns:
            The ordinal in the intake log, or that of the earlier batch with the same key; None for a batch without
            rows, which is not taken.

        Raises:
            PondError: it cannot be written (the disk is full); nothing was taken.
            KeyReused: the earlier batch with the same key has other rows.
        """
        values = "" if key is None else checksum_of_values(table)
        earlier = self._earlier(key, arrival, len(table), values)
        if earlier is not None or len(table) == 0:
            return earlier
        path = self.folder / f"{uuid.uuid4().hex}{_SUFFIX}"
        size, head, mtime = self._write(path, table)
        item = Item(
            0, "landing", str(path), "arrow", size, mtime, head, len(table), partition, arrival, key, values=values
        )
        with self._lock:
            try:
                # A rival with the same key may have been quicker.
                earlier = self._earlier(key, arrival, len(table), values)
                ordinal = earlier if earlier is not None else self.log.append([item])[0].ordinal
            except (PondError, KeyReused):
                _remove(path)
                raise
            if earlier is None and key is not None:
                self._keys[key] = (ordinal, arrival)
                self._prune(arrival)
        if earlier is not None:
            _remove(path)
        return ordinal

    def adopt(self, items: Sequence[Item], key: str, arrival: int) -> int | None:
        """Take files that others have written durably into `folder`, all or none of them.

        Arguments:
            items: of the files, in order. key: kept with them (see `append`). arrival: the clock reading, microseconds.
        Returns: the ordinal of the last; None where there are no items.
        Raises: PondError when the log cannot be written; nothing was taken.
        """
        last = len(items) - 1
        taken = [
            replace(item, arrival=arrival, more=at < last, key=key if at == last else None)
            for at, item in enumerate(items)
        ]
        with self._lock:
            ordinals = [item.ordinal for item in self.log.append(taken)]
            if ordinals:
                self._keys[key] = (ordinals[-1], arrival)
        return ordinals[-1] if ordinals else None

    def release(self, end: int) -> int:
        """Delete the files of items before ordinal `end`, whose rows are committed elsewhere.

        Returns:
            How many files were deleted. The items stay in the log, and their keys are remembered.
        """
        removed = 0
        for item in self.log.items(self._released, end):
            if item.kind == "landing":
                removed += _remove(item.path)
        self._released = max(self._released, min(end, self.log.length))
        return removed

    def _earlier(self, key: str | None, arrival: int, rows: int, values: str) -> int | None:
        """The batch that was taken with a key. Raises: KeyReused when it has other rows."""
        if key is None:
            return None
        ordinal, seen = self._keys.get(key, (None, 0))
        if ordinal is None or arrival - seen >= KEY_KEPT:
            return None
        [item] = self.log.items(ordinal, ordinal + 1)
        if item.rows == rows and _may_be_equal(item.values, values):
            return ordinal
        what = f"this one has {rows}" if item.rows != rows else "this one has other values"
        raise KeyReused(
            f"the key '{key}' names a batch of {item.rows} rows, which was taken; {what}."
            " Give each batch a key of its own, and use a key again only to repeat its batch"
        )

    def _prune(self, arrival: int) -> None:
        if len(self._keys) >= self._prune_at:
            self._keys = {k: v for k, v in self._keys.items() if arrival - v[1] < KEY_KEPT}
            self._prune_at = 2 * len(self._keys) + _PRUNE_EVERY

    def _write(self, path: Path, table: pa.Table) -> tuple[int, str, int]:
        """Write the file under a temporary name, make it durable, rename it; its size, checksum and time."""
        parts = [memoryview(part) for part in arrow_parts(table.combine_chunks())]
        temporary = path.with_suffix(".tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            with open(descriptor, "wb", buffering=0) as file:
                for view in parts:
                    while view:
                        view = view[file.write(view) or 0 :]
                os.fsync(descriptor)
                mtime = os.fstat(descriptor).st_mtime_ns
            os.rename(temporary, path)
            sync_folder(self.folder)
        except OSError as error:
            _remove(temporary)
            _remove(path)
            raise PondError(f"{path}: cannot be written: {error.strerror or error}") from error
        head = b"".join(bytes(part[:HEAD_BYTES]) for part in parts)
        return sum(part.nbytes for part in parts), checksum(head), mtime


def checksum_of_values(table: pa.Table) -> str:
    """A checksum of rows, in their order, by their values: two tables that are equal have one, however they are stored.

    DuckDB's hashes are those of its version, which it names therefore.

    >>> checksum_of_values(pa.table({"a": [1, 2]})) == checksum_of_values(pa.table({"a": [2, 1]}))
    False
    """
    if not table.num_rows:
        return ""
    columns = ", ".join(quote(name) for name in table.column_names)
    found = query_table(
        connection(),
        f"SELECT CAST(sum(hash(n, h)) AS VARCHAR) AS total, CAST(bit_xor(hash(h, n)) AS VARCHAR) AS mixed"
        f" FROM (SELECT row_number() OVER () AS n, hash({columns}) AS h FROM r)",
        r=table,
    )
    return f"{duckdb.__version__}:{found['total'][0]}:{found['mixed'][0]}"


def _may_be_equal(values: str, others: str) -> bool:
    """Whether checksums of values do not tell rows apart; those of two versions of DuckDB do not."""
    version, other = values.partition(":")[0], others.partition(":")[0]
    return version != other or values == others


def _remove(path: str | Path) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
