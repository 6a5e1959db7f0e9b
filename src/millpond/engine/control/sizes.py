"""How much state there is of each synopsis and store, from the heads of the committed state files, each read once."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from millpond.manifests.places import state_folder
from millpond.tables import Segment
from millpond.tables.chunks import chunk_sizes


@dataclass(frozen=True)
class Size:
    """State of one synopsis: rows in files (of which the same group may have several), and their bytes."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.bytes + other.bytes)


class StateSizes:
    """Sizes by owner; files never change, so what is known of one stays known."""

    def __init__(self, pond: str) -> None:
        self._folder = state_folder(pond)
        self._known: dict[str, dict[str, Size]] = {}
        self._lock = threading.Lock()

    def of(self, segments: Sequence[Segment]) -> dict[str, Size]:
        """Per owner, what the files hold; a file that is gone meanwhile counts nothing."""
        with self._lock:
            found: dict[str, Size] = {}
            known: dict[str, dict[str, Size]] = {}
            for segment in segments:
                sizes = self._known.get(segment.path)
                known[segment.path] = sizes = self._read(segment.path) if sizes is None else sizes
                for owner, size in sizes.items():
                    found[owner] = found.get(owner, Size()) + size
            self._known = known
            return found

    def _read(self, path: str) -> dict[str, Size]:
        found: dict[str, Size] = {}
        try:
            for owner, rows, size in chunk_sizes(os.path.join(self._folder, path)):
                found[owner] = found.get(owner, Size()) + Size(rows, size)
        except FileNotFoundError:
            return {}
        return found
