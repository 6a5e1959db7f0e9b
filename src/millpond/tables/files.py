"""Durable small files: written whole under a temporary name, fsynced, renamed into place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeAlias

import pyarrow as pa

#: Puts the bytes of a file into it.
Writer: TypeAlias = Callable[[pa.NativeFile], object]


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make renames and creations in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class DurableWrites:
    """Files that are written now, become durable in the background, and are in place once `finish` returns.

    Waiting for the disk is most of what a small file costs, and much of what a large one does: several files, and the
    work that follows them, wait for it at the same time. Without `finish` nothing but temporary files is left.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x")
    >>> writes = DurableWrites()
    >>> writes.write(path, lambda file: file.write(b"abc")), os.path.exists(path)
    (3, False)
    >>> writes.finish(); os.path.exists(path)
    True
    """

    def __init__(self) -> None:
        self._begun: list[tuple[str, str, Future[None]]] = []

    def write(self, path: str, write: Writer) -> int:
        """Begin to create or replace `path` by what `write` puts into the file handed to it. Returns its size."""
        file = self.open(path)
        try:
            write(file)
        except BaseException:
            file.close()
            raise
        return self.close(path, file)

    def open(self, path: str) -> pa.NativeFile:
        """The file to be filled with what will be at `path`; `close` must follow."""
        # Arrow's own file: written through a Python file object, every byte would be copied once more.
        return pa.OSFile(_temporary(path), "wb")

    def close(self, path: str, file: pa.NativeFile) -> int:
        """All bytes are written to the file that `open` gave. Returns its size."""
        size = int(file.tell())
        self._begun.append((_temporary(path), path, _disk().submit(_synced, file)))
        return size

    def finish(self) -> None:
        """Wait until everything is on disk, and put the files in place, in the order in which they were begun.

        Raises: OSError.
        """
        begun, self._begun = self._begun, []
        for _, _, written in begun:
            written.result()
        for temporary, path, _ in begun:
            os.replace(temporary, path)
        for folder in dict.fromkeys(os.path.dirname(path) for _, path, _ in begun):
            sync_folder(folder)


def _temporary(path: str) -> str:
    return f"{path}.{os.getpid()}.tmp"


@cache
def _disk() -> ThreadPoolExecutor:
    """Threads that wait for the disk."""
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="millpond-disk")


def _synced(file: pa.OSFile) -> None:
    with file:
        file.flush()
        os.fsync(file.fileno())


def write_durably(path: str, write: Writer, sync: bool = True) -> int:
    """Create or replace `path` by what `write` puts into the file handed to it; all or nothing. Returns its size."""
    temporary = _temporary(path)
    with pa.OSFile(temporary, "wb") as file:
        write(file)
        file.flush()
        size = int(file.tell())
        if sync:
            os.fsync(file.fileno())
    os.replace(temporary, path)
    if sync:
        sync_folder(os.path.dirname(path))
    return size


def append_durably(file: int, data: bytes, at: int) -> None:
    """Write `data` at the end `at` of an open file and fsync it; when that fails the file ends at `at` again.

    Raises: OSError.
    """
    view, offset = memoryview(data), at
    try:
        while view:
            written = os.pwrite(file, view, offset)
            view, offset = view[written:], offset + written
        os.fsync(file)
    except BaseException:
        os.ftruncate(file, at)
        raise


def write_json(path: str, value: Any, sync: bool = True) -> None:
    """`value` as JSON, durably; keys are sorted, so that equal values give equal bytes."""
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    write_durably(path, lambda file: file.write(data), sync)


def read_json(path: str) -> Any:
    """The value that `write_json` wrote."""
    with open(path, "rb") as file:
        return json.loads(file.read())


def remove_file(path: str) -> None:
    """Remove `path` if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
