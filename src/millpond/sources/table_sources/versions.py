"""Versions of tables: what their sources held when they were read, as files of the pond that epochs name.

A reading that finds other rows than the one before makes a new version, `tables/<table>-<id>/<version>.arrow`, which
never changes. An epoch's manifest names the versions that its queries use, so that a repeated epoch sees the same rows
whatever has become of the source. A reading that fails leaves the version as it is, and what went wrong is told (SHOW
TABLES) until one succeeds.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import pyarrow as pa

from millpond.sources.table_sources.databases import read_database
from millpond.sources.table_sources.readings import Readings, Waiting
from millpond.sources.table_sources.table_files import read_table, table_files
from millpond.sources.zeros import without_signs
from millpond.support.errors import MillpondError, SourceError
from millpond.support.event_log import event_log
from millpond.support.file_cache import FileCache
from millpond.synopses.tolerance import FAULTS, one_line
from millpond.tables import read_json, read_record, remove_file, write_durably, write_json
from millpond.tables.durable_files import temporary_name
from millpond.tables.stored_files import read_arrow, write_arrow
from millpond.types import TableDefinition, to_json

LOG = event_log(__name__)

#: The folder of a pond that versions lie in.
TABLES = "tables"

#: The file of a table's folder that says how its database is reached. It may hold a password: nobody else may read it.
CONNECTION = "connection.json"

#: After a reading that failed the next is tried no later than this (clock, microseconds).
RETRY = 10_000_000

#: Versions that a process keeps open.
KEPT = 64

_opened: FileCache[pa.Table] = FileCache(KEPT)


@dataclass(frozen=True)
class TableState:
    """What is known of a table. Times are clock readings (microseconds); None: never.

    version: the last one; 0: there is none yet. rows: of it. read_at: when its source was last read in full; tried_at:
    when that was last tried. problem: why that failed. signature: what its files looked like when they were read.
    """

    version: int = 0
    rows: int = 0
    read_at: int | None = None
    tried_at: int | None = None
    problem: str = ""
    signature: str = ""


class Named(Protocol):
    """A table, by its name and id."""

    @property
    def name(self) -> str:
        """As it was declared."""

    @property
    def id(self) -> int:
        """As the catalog gave it."""


def table_folder(pond: str, definition: Named) -> str:
    """Where the versions of a table lie."""
    return os.path.join(pond, TABLES, f"{definition.name.lower()}-{definition.id}")


def version_path(folder: str, version: int) -> str:
    """The file of a version."""
    return os.path.join(folder, f"{version:09d}.arrow")


def table_version(pond: str, definition: Named, version: int) -> pa.Table:
    """The rows of a version.

    Raises: SourceError when it is not there any more.
    """
    path = version_path(table_folder(pond, definition), version)
    try:
        return _opened.get(path, lambda: read_arrow(path))
    except FileNotFoundError:
        raise SourceError(f"table '{definition.name}': its version {version} is not kept any more") from None


def due(definition: TableDefinition, state: TableState, signature: str, clock: int) -> bool:
    """Whether a table is to be read now: a pure function of what is known.

    Arguments:
        signature: what its files look like; '' for a database.
    """
    if state.tried_at is None:
        return True
    since = clock - state.tried_at
    if state.problem and since >= (min(RETRY, definition.reload) if isinstance(definition.reload, int) else RETRY):
        return True
    if definition.reload == "on change":
        return signature != state.signature
    return isinstance(definition.reload, int) and since >= definition.reload


@dataclass
class TableVersions:
    """The versions of all tables of an open pond.

    drivers: the modules that may be imported to reach databases. timeout: seconds that one may take to answer.
    """

    pond: str
    drivers: Callable[[], Sequence[str]]
    timeout: Callable[[], float] = lambda: 30.0
    readings: Readings = field(default_factory=Readings)
    _states: dict[int, TableState] = field(default_factory=dict)
    _locks: dict[int, threading.Lock] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def state(self, definition: TableDefinition) -> TableState:
        """What is known of a table."""
        with self._guard:
            if definition.id not in self._states:
                path = os.path.join(table_folder(self.pond, definition), "state.json")
                known = read_record(TableState, path) if os.path.exists(path) else TableState()
                self._states[definition.id] = known
            return self._states[definition.id]

    def refresh(
        self, definition: TableDefinition, clock: int, force: bool = False, patience: float | None = None
    ) -> TableState:
        """Read a table when that is due, or anyhow; one at a time.

        patience: seconds to wait for a database; where it answers later, that is taken later. None: its timeout.
        """
        lock = self._lock(definition)
        if not lock.acquire(timeout=-1 if patience is None else patience):
            return self.state(definition)  # somebody waits for it
        try:
            state = self.state(definition)
            signature = _signature(definition)
            waited = self.readings.has(str(definition.id))
            if not force and not waited and not due(definition, state, signature, clock):
                return state
            if waited and not force and state.problem and patience is None:
                patience = 0.0  # who asked first has waited for it
            try:
                return self.take(definition, self._read(definition, patience), clock, signature)
            except Waiting as waiting:
                if not waiting.overdue:
                    return state
                return self._keep(definition, replace(state, tried_at=clock, problem=str(waiting), signature=signature))
            except (MillpondError, OSError, MemoryError, *FAULTS) as error:
                problem = (
                    str(error) if isinstance(error, MillpondError) else f"table '{definition.name}': {one_line(error)}"
                )
                # The next look compares with what was there when it failed.
                return self._keep(definition, replace(state, tried_at=clock, problem=problem, signature=signature))
        finally:
            lock.release()

    def waits(self, definition: TableDefinition) -> float | None:
        """How long the table's database has been waited for, seconds; None: it is not being asked."""
        return self.readings.waits(str(definition.id))

    def ask(self, definition: TableDefinition, uri: str) -> pa.Table:
        """What the database of a table that is not there yet answers. Raises: SourceError."""
        key = f"new {definition.name}"
        try:
            return self.readings.ask(key, definition.name, self._reader(definition, uri), self.timeout())
        except Waiting:
            self.readings.forget(key)
            raise

    def _reader(self, definition: TableDefinition, uri: str) -> Callable[[], pa.Table]:
        return partial(read_database, definition, uri, self.drivers())

    def take(self, definition: TableDefinition, rows: pa.Table, clock: int, signature: str = "") -> TableState:
        """Keep what was read, as a new version where it differs from the last."""
        rows, folder = without_signs(rows), table_folder(self.pond, definition)
        state = self.state(definition)
        known = replace(state, read_at=clock, tried_at=clock, problem="", signature=signature)
        if state.version and table_version(self.pond, definition, state.version).equals(rows):
            return self._keep(definition, known)
        os.makedirs(folder, exist_ok=True)
        write_durably(version_path(folder, state.version + 1), lambda file: write_arrow(file, rows))
        return self._keep(definition, replace(known, version=state.version + 1, rows=rows.num_rows))

    def rows(self, definition: TableDefinition, clock: int) -> pa.Table:
        """The rows of a table for somebody who asks now; where it cannot be read now, of the last reading.

        Raises: SourceError when it was never read.
        """
        state = self.refresh(definition, clock)
        if not state.version:
            raise SourceError(state.problem)
        return table_version(self.pond, definition, state.version)

    def uri(self, definition: TableDefinition) -> str:
        """How the table's database is reached. Raises: SourceError when that is not known here."""
        try:
            found = read_json(self._connection(definition))
        except FileNotFoundError:
            raise SourceError(
                f"table '{definition.name}': its uri is not known here; ALTER TABLE {definition.name} SET (uri = …)"
            ) from None
        return str(found["uri"])

    def keep_uri(self, definition: TableDefinition, uri: str) -> None:
        """Keep how a database is reached where nobody else can read it, apart from the catalog."""
        path = self._connection(definition)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # The file that is renamed into place is nobody else's from its first byte on, not only once it is there.
        beside = temporary_name(path)
        remove_file(beside)
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        write_json(path, {"uri": uri})

    def drop(self, definition: TableDefinition) -> None:
        """Forget a table; its versions go when nobody can need them."""
        remove_file(self._connection(definition))
        self.readings.forget(str(definition.id))
        with self._guard:
            self._states.pop(definition.id, None)
            self._locks.pop(definition.id, None)

    def sweep(self, definition: TableDefinition, needed: int) -> None:
        """Remove versions before `needed`, but for the last one."""
        folder = table_folder(self.pond, definition)
        last = self.state(definition).version
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            stem, dot, _ = name.partition(".arrow")
            if dot and stem.isdigit() and int(stem) < min(needed, last):
                remove_file(os.path.join(folder, name))

    def _connection(self, definition: TableDefinition) -> str:
        return os.path.join(table_folder(self.pond, definition), CONNECTION)

    def _lock(self, definition: TableDefinition) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(definition.id, threading.Lock())

    def _read(self, definition: TableDefinition, patience: float | None) -> pa.Table:
        if definition.format is not None:
            return read_table(definition)
        reader = self._reader(definition, self.uri(definition))
        return self.readings.ask(str(definition.id), definition.name, reader, self.timeout(), patience)

    def _keep(self, definition: TableDefinition, state: TableState) -> TableState:
        """Remember what is known of a table; what went wrong (a full disk, say) even where it cannot be written."""
        folder = table_folder(self.pond, definition)
        with suppress(OSError) if state.problem else nullcontext():
            os.makedirs(folder, exist_ok=True)
            write_json(os.path.join(folder, "state.json"), to_json(state))
        with self._guard:
            before = self._states.get(definition.id)
            self._states[definition.id] = state
        said = "" if before is None else before.problem
        if state.problem and state.problem != said:
            LOG.warning("table cannot be read", table=definition.name, problem=state.problem)
        elif said and not state.problem:
            LOG.info("table can be read again", table=definition.name)
        return state


def _signature(definition: TableDefinition) -> str:
    """What the files of a table look like: names, sizes, times of change, and which files they are."""
    if definition.format is None:
        return ""
    told = hashlib.blake2b(digest_size=16)
    for path in table_files(definition.path):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            continue
        told.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_ino}\n".encode())
    return told.hexdigest()
