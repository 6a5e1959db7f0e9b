"""A pond as who answers from it sees it: what is published, and what it takes to read it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from millpond.archive.open_archives import Archives
from millpond.archive.storage import Storage, StreamTables
from millpond.catalog import Catalog, Register
from millpond.engine.unreadable import Unreadable
from millpond.manifests.epochs import Clock, Epochs
from millpond.manifests.records import Published
from millpond.operators.registry import Operators, operators_of
from millpond.sources.table_sources.versions import TableVersions
from millpond.types.options import Settings


@dataclass(frozen=True, eq=False)
class PondView:
    """What answers are made from: no intake, no controllers, no back-fills, no loop of epochs.

    archives: what is stored, what the pond is made to do, and how far it is. tables: versions of tables from outside.
    clock: the pond's. settings: as they are now. unreadable: queries whose answers could not be read.

    A view goes on with the pond: whoever needs one epoch throughout takes `published` once, inside of `pinned()`.
    """

    archives: Archives
    tables: TableVersions
    clock: Clock
    settings: Settings
    unreadable: Unreadable = field(default_factory=Unreadable)

    @property
    def path(self) -> str:
        """The pond's folder."""
        return self.archives.path

    @property
    def lock(self) -> threading.RLock:
        """Guards the catalog and the publish record: hold it to see both as they are together."""
        return self.archives.lock

    @property
    def catalog(self) -> Catalog:
        """The catalog as of the last event."""
        return self.archives.catalog

    @property
    def operators(self) -> Operators:
        """The operators of the catalog as of the last event."""
        return operators_of(self.catalog)

    @property
    def register(self) -> Register:
        """The row queries; see `Catalogs`."""
        return self.archives.catalogs.register

    @property
    def epochs(self) -> Epochs:
        """How far the pond is, and waiting for it to go on."""
        return self.archives.epochs

    @property
    def published(self) -> Published:
        """The last publish record."""
        return self.archives.published

    @property
    def storage(self) -> Storage:
        """The tables of the pond, and who holds files of them."""
        return self.archives.storage

    @property
    def streams(self) -> Mapping[int, StreamTables]:
        """The tables of streams, by id."""
        return self.archives.streams

    def now(self) -> int:
        """A reading of the clock (microseconds since 1970)."""
        return self.clock.now()

    def pinned(self) -> AbstractContextManager[None]:
        """See `Storage.pinned`."""
        return self.archives.pinned()
