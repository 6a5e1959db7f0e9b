"""What an open pond is made to do: the log of its catalog, and the register of its row queries."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from millpond.catalog.catalog_state import Catalog
from millpond.catalog.log import CatalogLog
from millpond.catalog.register import Register


class Catalogs:
    """The catalog and the register of an open pond, opened from its folder `path`.

    Args:
        path: the pond's folder.
        lock: the pond's; hold it between a look at the catalog and the event that follows from it.

    Attributes:
        alterations: counts alterations of columns twice, when one begins and when it is over: odd while one is under
            way.
    """

    def __init__(self, path: str, lock: threading.RLock) -> None:
        self.lock = lock
        self.log = CatalogLog(os.path.join(path, "catalog"))
        self.register = Register(path, self.catalog.next_id, lambda name: self.catalog.lookup(name) is not None)
        self.alterations = 0

    @property
    def catalog(self) -> Catalog:
        """The catalog as of the last event."""
        return self.log.catalog

    @contextmanager
    def altering(self) -> Iterator[None]:
        """Around an alteration of columns; `lock` must be held. Who binds meanwhile binds anew afterwards."""
        self.alterations += 1
        try:
            yield
        finally:
            self.alterations += 1

    def reconcile(self) -> None:
        """Finish statements that a crash cut off between the catalog and the register."""
        named = [(q.definition.name, q.id) for q in self.catalog.queries.values()]
        for query in self.register.reconcile(self.catalog.streams, named):
            self.log.record({"do": "drop_query", "id": query})
        # A stream goes with its query, and with what it was made of, when none reads it.
        unread = [s for s in self.catalog.streams.values() if s.is_inner and not self.catalog.on_stream(s.id)]
        for query in [q for s in unread for q in s.queries]:
            self.log.record({"do": "drop_query", "id": query})

    def close(self) -> None:
        """Close the files of both."""
        self.log.close()
        self.register.close()
