"""Durable small files: written whole under a temporary name, fsynced, renamed into place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from millpond.support.checksums import sealed, unsealed
from millpond.support.damaged_files import reading
from millpond.types import from_json

T = TypeVar("T")

#: Puts the bytes of a file into it.
Writer: TypeAlias = Callable[[pa.NativeFile], object]


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make renames and creations in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_name(path: str) -> str:
    """Under which name a file is written that will be at `path`."""
    return f"{path}.{os.getpid()}.tmp"


def write_durably(path: str, write: Writer, sync: bool = True) -> int:
    """Create or replace `path` by what `write` puts into the file handed to it; all or nothing. Returns its size."""
    temporary = temporary_name(path)
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
    """`value` as JSON, durably; keys are sorted, so that equal values give equal bytes. An object has a checksum."""
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    checked = sealed(data) if isinstance(value, dict) else data
    write_durably(path, lambda file: file.write(checked), sync)


def read_json(path: str) -> Any:
    """The value that `write_json` wrote. Raises: PondError when the file is damaged."""
    with open(path, "rb") as file:
        data = file.read()
    with reading(path):
        return json.loads(unsealed(data))


def read_record(kind: type[T], path: str) -> T:
    """The dataclass that was written to a file as JSON. Raises: PondError when the file is damaged."""
    value = read_json(path)
    with reading(path):
        return from_json(kind, value)


def remove_file(path: str) -> None:
    """Remove `path` if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
