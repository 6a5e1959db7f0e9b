"""The archives of an open pond, as whoever plans scans of them or keeps them up needs them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from millpond.archive.observed_load import Load
from millpond.archive.storage import Storage, StreamTables
from millpond.catalog import Catalog
from millpond.catalog.catalogs import Catalogs
from millpond.manifests.epochs import Epochs
from millpond.manifests.records import Published
from millpond.tables import SegmentTable
from millpond.tables.executors import Executor


@dataclass(frozen=True)
class Archives:
    """The archives of an open pond.

    storage: their tables. catalogs: what the pond is made to do. epochs: how far it is. executor: runs jobs over them.
    load: decides what a scan may leave out.
    """

    storage: Storage
    catalogs: Catalogs
    epochs: Epochs
    executor: Executor
    load: Load

    @property
    def path(self) -> str:
        """The pond's folder."""
        return self.storage.path

    @property
    def lock(self) -> threading.RLock:
        """The pond's lock."""
        return self.storage.lock

    @property
    def streams(self) -> Mapping[int, StreamTables]:
        """The streams by id."""
        return self.storage.streams

    @property
    def summaries(self) -> SegmentTable:
        """The table of entries of summaries."""
        return self.storage.summaries

    @property
    def catalog(self) -> Catalog:
        """The catalog as of the last event."""
        return self.catalogs.catalog

    @property
    def published(self) -> Published:
        """The last publish record."""
        return self.epochs.published

    def pinned(self) -> AbstractContextManager[None]:
        """See `Storage.pinned`."""
        return self.storage.pinned()
