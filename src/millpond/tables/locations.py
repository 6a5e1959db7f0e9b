"""Where the files of tables lie: in a folder of this machine, or in an object store.

A place is a path, or a URL that deltalake knows (`s3://bucket/prefix`, `gs://…`, `az://…`, `file:///…`). Files in an
object store are read and written through deltalake's own storage handler, with deltalake's own options, so that tables
and their files are reached in the same way. What a pond was opened with (`storage={…}`) lies in its folder, for the
tasks that other processes run; what is not said there deltalake takes from the environment.

An object is whole when it is there, and durable: nothing is renamed and nothing is fsynced. Folders are prefixes.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.fs import DeltaStorageHandler

from millpond.tables.durable_files import read_json, remove_file, temporary_name, write_json

#: The file of a pond with the options of its object store. It may hold secrets: nobody else may read it.
OPTIONS = "storage.json"


@dataclass(frozen=True)
class _Place:
    """What is known of a root that tables lie under: its options, the file that said them, and the file system."""

    said: tuple[int, ...]
    options: dict[str, str]
    system: pafs.FileSystem


_known: dict[str, _Place] = {}

#: What deltalake puts before a cause.
_CAUSE = re.compile(r"\s*(?:\x1b\[\d*m)*↳(?:\x1b\[\d*m)*\s*")


class StoreFault(OSError):
    """An object store that cannot be reached, or refuses."""


def reason_of(error: Exception) -> str:
    """What an error says, on one line; deltalake's first line names the kind of store, those below it the cause.

    >>> reason_of(OSError("Generic S3 error\\n  \\x1b[31m↳\\x1b[0m error sending request\\n"))
    'Generic S3 error: error sending request'
    """
    return " ".join(_CAUSE.sub(": ", str(error)).split())[:500]


def is_remote(place: str) -> bool:
    """Whether a place is in an object store.

    >>> is_remote("s3://bucket/x"), is_remote("/home/x")
    (True, False)
    """
    return "://" in place


def write_options(pond: str, options: Mapping[str, str]) -> None:
    """Keep the options of a pond's object store where its tasks find them."""
    path = os.path.join(pond, OPTIONS)
    # The file that is renamed into place is nobody else's from its first byte on, not only once it is there.
    beside = temporary_name(path)
    remove_file(beside)
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    write_json(path, dict(options))


def read_options(pond: str) -> dict[str, str]:
    """The options of a pond's object store; none when it was opened without."""
    try:
        found: dict[str, str] = read_json(os.path.join(pond, OPTIONS))
        return found
    except FileNotFoundError:
        return {}


def know(root: str, pond: str) -> str:
    """Reach what lies under `root` with the options of a pond, from here on; returns `root`.

    A process that has known it for long takes the options of a later opening as soon as these are written.
    """
    if is_remote(root):
        said = _said(pond)
        if root not in _known or _known[root].said != said:
            options = read_options(pond)
            if root.startswith("file://"):
                os.makedirs(root.removeprefix("file://"), exist_ok=True)
            _known[root] = _Place(said, options, pafs.PyFileSystem(_Handler(root, options or None)))
    return root


def _said(pond: str) -> tuple[int, ...]:
    """Which file holds the options of a pond's object store; () when there is none."""
    try:
        found = os.stat(os.path.join(pond, OPTIONS))
    except FileNotFoundError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def options_of(place: str) -> dict[str, str] | None:
    """The storage options with which deltalake reaches a place; None for a folder of this machine."""
    return _known[_root(place)].options or None if is_remote(place) else None


def located(path: str) -> tuple[str, pafs.FileSystem | None]:
    """A path as the file system that it lies in knows it; None: this machine's own."""
    if not is_remote(path):
        return path, None
    root = _root(path)
    return path[len(root) :].strip("/"), _known[root].system


def _root(place: str) -> str:
    found = max((r for r in _known if place == r or place.startswith(f"{r}/")), key=len, default=None)
    if found is None:
        raise StoreFault(f"{place} lies in no object store that is known here")
    return found


def open_input(path: str) -> pa.NativeFile:
    """A file for reading at any place in it. Raises: FileNotFoundError."""
    name, system = located(path)
    return pa.memory_map(name) if system is None else system.open_input_file(name)


def open_output(path: str) -> pa.NativeFile:
    """A new object that is there once the file is closed."""
    name, system = located(path)
    assert system is not None
    return system.open_output_stream(name)


def read_bytes(path: str) -> bytes:
    """All of a file. Raises: FileNotFoundError."""
    with open_input(path) as file:
        return bytes(file.read())


def write_bytes(path: str, data: bytes) -> None:
    """Put an object there."""
    with open_output(path) as file:
        file.write(data)


def size_of(path: str) -> int | None:
    """The bytes of a file; None when it is not there."""
    name, system = located(path)
    if system is None:
        return os.path.getsize(name) if os.path.isfile(name) else None
    info = system.get_file_info([name])[0]
    return int(info.size) if info.type == pafs.FileType.File else None


def file_names(folder: str) -> list[str]:
    """The names of the files in a folder; of a missing one: none."""
    return [n for n, is_file in _entries(folder) if is_file]


def folder_names(folder: str) -> list[str]:
    """The names of the folders in a folder; of a missing one: none."""
    return [n for n, is_file in _entries(folder) if not is_file]


def _entries(folder: str) -> list[tuple[str, bool]]:
    name, system = located(folder)
    if system is None:
        if not os.path.isdir(name):
            return []
        with os.scandir(name) as found:
            return sorted((e.name, e.is_file()) for e in found)
    infos = system.get_file_info(pafs.FileSelector(name, allow_not_found=True, recursive=False))
    return sorted((info.base_name, info.type == pafs.FileType.File) for info in infos)


def make_folder(folder: str) -> None:
    """Make a folder where folders have to be made."""
    if not is_remote(folder):
        os.makedirs(folder, exist_ok=True)


def remove(path: str) -> None:
    """Remove a file if it is there."""
    name, system = located(path)
    if system is None:
        remove_file(name)
        return
    try:
        system.delete_file(name)
    except FileNotFoundError:
        return


def remove_tree(folder: str) -> None:
    """Remove a folder with all that is in it, if it is there."""
    name, system = located(folder)
    if system is None:
        shutil.rmtree(name, ignore_errors=True)
        return
    infos = system.get_file_info(pafs.FileSelector(name, allow_not_found=True, recursive=True))
    for info in infos:
        if info.type == pafs.FileType.File:
            remove(f"{_root(folder)}/{info.path}")
    if folder.startswith("file://"):
        shutil.rmtree(folder.removeprefix("file://"), ignore_errors=True)


class _Handler(DeltaStorageHandler):
    """deltalake's handler, whose streams take the buffers that Arrow hands them (they take bytes only)."""

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_Output(self._handler.open_output_stream(path, metadata)), mode="w")


class _Output:
    """A file object over an object that is being written."""

    def __init__(self, raw: Any) -> None:
        self._raw, self._size, self.closed = raw, 0, False

    def write(self, data: Any) -> int:
        taken = bytes(data)
        self._raw.write(taken)
        self._size += len(taken)
        return len(taken)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Parts go out when they are large enough."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._raw.close()
