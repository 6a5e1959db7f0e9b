"""Facts of an open pond, and what is asked of it while a statement is planned."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace

from millpond.answers.describe.function_listing import users_of
from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Registered
from millpond.catalog.catalogs import Catalogs
from millpond.commands.pond_facts import ArchiveFacts, Facts
from millpond.engine.core import Core
from millpond.manifests.records import read_manifest
from millpond.sources.local_files import as_read, local_files
from millpond.types import FileTable


class LiveNames:
    """The names of an open pond as they are whenever one is looked up; see `naming.Known`."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs

    @property
    def catalog(self) -> Catalog:
        """The catalog as of the last event."""
        return self._catalogs.catalog

    def row_query_id(self, name: str) -> int | None:
        """The id of the row query of that name, or None."""
        return self._catalogs.register.id_of(name)


class LiveSight(LiveNames):
    """What an open pond tells; see `pond_facts.Sight`."""

    def __init__(self, archives: Archives) -> None:
        super().__init__(archives.catalogs)
        self._archives = archives

    def row_query(self, number: int) -> Registered:
        """A row query. Raises: QueryError when there is none of that id."""
        return self._catalogs.register.get(number)

    def row_name(self, number: int) -> str:
        """What a row query is called."""
        return self._catalogs.register.name(number)

    def row_names(self) -> list[str]:
        """Names of row queries, the newest at the end."""
        return self._catalogs.register.names()

    def rows_on(self, stream: int) -> list[int]:
        """Ids of the row queries that read a stream."""
        return [int(q) for q in self._catalogs.register.on_stream(stream)]

    def file(self, path: str) -> FileTable:
        """Files as a table. Raises: SourceError where there are none, or they cannot be read."""
        return local_files(path)

    def stream_file(self, path: str) -> FileTable:
        """Files as a table with the types that a stream reads. Raises: SourceError, see `file`."""
        return as_read(local_files(path))

    def has_history(self, stream: int) -> bool:
        """Whether epochs have taken anything of a stream, the running one included."""
        epochs = self._archives.epochs
        if epochs.published.intake.get(str(stream), 0):
            return True
        if epochs.last_manifest <= epochs.published.epoch:
            return False
        return read_manifest(epochs.path, epochs.last_manifest).intake.get(str(stream), 0) > 0

    def archive(self, stream: int) -> ArchiveFacts:
        """What lies in the archive of a stream."""
        if stream not in self._archives.streams:
            return ArchiveFacts()
        files, removed = self._archives.streams[stream].archive.snapshot
        lows, highs = min((f.low for f in files), default=None), max((f.high for f in files), default=None)
        return ArchiveFacts(sum(f.rows for f in files), lows, highs, removed)

    def absolute(self, path: str) -> str:
        """A path of a file with its folders, whatever folder the process is in later."""
        return os.path.abspath(os.path.expanduser(path))

    def users_of(self, reference: str) -> list[str]:
        """The names of what calls a registered function."""
        (users,) = users_of(self._catalogs, [reference])
        return users


def facts_of(core: Core) -> Facts:
    """The facts of an open pond; hold `core.lock` from here on to when what is planned from them is done."""
    return Facts(
        core.catalog,
        core.published,
        replace(core.settings),
        core.opened_with,
        max(core.epochs.last_manifest, core.published.epoch) + 1,
        max(core.catalog.next_id, core.register.next_id),
        core.ownership.opening,
        uuid.uuid4().hex[:12],
        LiveSight(core.archives),
    )
