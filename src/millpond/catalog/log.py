"""The durable log of catalog events: JSON lines, fsynced before a statement returns; a torn last line is cut."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from millpond.catalog.catalog_state import Catalog
from millpond.catalog.events import apply
from millpond.support.checksums import sealed, unsealed, whole_lines
from millpond.support.damaged_files import reading
from millpond.support.errors import PondError
from millpond.tables import append_durably, sync_folder, write_json
from millpond.types import to_json


class CatalogLog:
    """The catalog of a pond, in `folder`: `events.jsonl`, and one snapshot file per version that workers read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self._path = os.path.join(folder, "events.jsonl")
        self._lock = threading.RLock()
        self.catalog = Catalog()
        if os.path.exists(self._path):
            with open(self._path, "rb") as file:
                data = file.read()
            with reading(self._path):
                whole = whole_lines(data)
                if len(whole) != len(data):
                    os.truncate(self._path, len(whole))
                for line in whole.splitlines():
                    self.catalog = apply(self.catalog, json.loads(unsealed(line)))
        self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - open as long as the catalog
        sync_folder(folder)

    def record(self, *events: dict[str, Any]) -> Catalog:
        """Append events, durably, and return the catalog after them.

        Raises: PondError when they cannot be written (the disk is full); then none of them has happened.
        """
        with self._lock:
            catalog = self.catalog
            for event in events:
                catalog = apply(catalog, event)
            size = os.fstat(self._file.fileno()).st_size
            data = b"".join(sealed(json.dumps(e, separators=(",", ":")).encode()) + b"\n" for e in events)
            try:
                append_durably(self._file.fileno(), data, size)
            except OSError as error:
                raise PondError(f"the catalog {self._path} cannot be written: {error.strerror or error}") from error
            self.catalog = catalog
            return catalog

    def snapshot(self, catalog: Catalog) -> str:
        """Write the catalog for workers, once per version; returns the path."""
        path = snapshot_path(self.folder, catalog.version)
        if not os.path.exists(path):
            write_json(path, to_json(catalog))
        return path

    def prune(self, before: int) -> None:
        """Remove snapshots of versions below `before`."""
        for name in os.listdir(self.folder):
            if name.startswith("v") and name.endswith(".json") and int(name[1:-5]) < before:
                os.unlink(os.path.join(self.folder, name))

    def close(self) -> None:
        """Close the log's file."""
        self._file.close()


def snapshot_path(folder: str, version: int) -> str:
    """Where the snapshot of a version lies."""
    return os.path.join(folder, f"v{version:012d}.json")
