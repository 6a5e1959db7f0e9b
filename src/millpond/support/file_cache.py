"""What a process has read of files that never change, so that each is read once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FileCache(Generic[T]):
    """Values by the file that they were read from.

    A file that has taken the place of another under its name is another one: a folder may be put back to what it was
    earlier, and go on otherwise. Safe for several threads.

    Args:
        most: how many values are kept.

    >>> import tempfile
    >>> file, cache = tempfile.NamedTemporaryFile(), FileCache[str](1)
    >>> cache.get(file.name, lambda: "read"), cache.get(file.name, lambda: "read again")
    ('read', 'read')
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[tuple[str, int, int, int], T] = {}
        self._lock = threading.Lock()

    def get(self, path: str, read: Callable[[], T]) -> T:
        """What `read` gives for the file at a path, or gave.

        Raises: FileNotFoundError, and what `read` raises.
        """
        key = _identity(path)
        try:
            return self._kept[key]
        except KeyError:
            return self._keep(key, read())

    def put(self, path: str, value: T) -> None:
        """Keep what a file says without reading it."""
        self._keep(_identity(path), value)

    def _keep(self, key: tuple[str, int, int, int], value: T) -> T:
        with self._lock:
            while len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = value
        return value


def _identity(path: str) -> tuple[str, int, int, int]:
    """Which file lies at a path."""
    found = os.stat(path)
    return path, found.st_ino, found.st_mtime_ns, found.st_size
