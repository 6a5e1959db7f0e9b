"""The bytes of an item: the file that was taken, and no other; whole; decompressed.

What has to be tried again (the file is gone, the disk fails) is a `SourceError`. What no second try can mend (a
truncated archive) is `Unreadable`, which the readers turn into one dead letter for the whole file.
"""

from __future__ import annotations

import os
import zlib
from contextlib import AbstractContextManager
from typing import Final

import pyarrow as pa

from millpond.sources.formats.guesses import other_format
from millpond.sources.intake_log import HEAD_BYTES, Item, checksum
from millpond.support.errors import SourceError

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_CHUNK: Final = 1 << 20


class Unreadable(Exception):
    """The content of a file cannot be understood as a whole; the text says why."""


def check_taken(item: Item) -> None:
    """See that the item's file is still what was taken.

    A text file that grew since is read as far as it was taken.

    Raises:
        SourceError: it vanished, or holds something else now.
    """
    try:
        status = os.stat(item.path)
        if status.st_size == item.size and (status.st_mtime_ns == item.mtime_ns or item.kind == "landing"):
            return
        grown = item.format in ("csv", "ndjson") and status.st_size >= item.size
        if grown or status.st_size == item.size:
            with open(item.path, "rb") as file:
                if checksum(file.read(min(HEAD_BYTES, item.size))) == item.head:
                    return
    except OSError as error:
        raise vanished(item, error) from error
    raise SourceError(
        f"{item.path}: the file was changed after it was taken (it had {item.size:,} bytes, now {status.st_size:,}); "
        "put the old content back, and give the new content under a new name"
    )


def vanished(item: Item, error: OSError) -> SourceError:
    """The error of a file that was taken and cannot be read any more."""
    return SourceError(
        f"{item.path}: the file was taken but cannot be read: {error.strerror or error}; put it back where it was"
    )


def read_bytes(item: Item) -> bytes:
    """The item's content, decompressed (by what it starts with, not by its name), without a byte-order mark.

    Raises:
        SourceError: see `check_taken`.
        Unreadable: the compressed data is damaged, or the text is UTF-16.
    """
    check_taken(item)
    try:
        with open(item.path, "rb") as file:
            data = file.read(item.size)
    except OSError as error:
        raise vanished(item, error) from error
    return plain_text(data, item.path)


def plain_text(data: bytes, path: str) -> bytes:
    """`data` decompressed and without its byte-order mark."""
    if data.startswith(_GZIP) or (data and path.lower().endswith(".gz")):
        data = _gunzip(data)
    elif data.startswith(_ZSTD) or (data and path.lower().endswith(".zst")):
        data = _unzstd(data)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable("the text is UTF-16; only UTF-8 can be read")
    return data[3:] if data.startswith(b"\xef\xbb\xbf") else data


def is_compressed(data: bytes) -> bool:
    """Whether data starts like a .gz or .zst file."""
    return data.startswith((_GZIP, _ZSTD))


def _gunzip(data: bytes) -> bytes:
    parts: list[bytes] = []
    while data.rstrip(b"\0"):  # padding between and after members is allowed
        unzip = zlib.decompressobj(wbits=31)
        try:
            parts.append(unzip.decompress(data))
        except zlib.error as error:
            raise Unreadable(f"the gzip data is damaged: {error}") from error
        if not unzip.eof:
            raise Unreadable("the gzip data is truncated")
        data = unzip.unused_data
    return b"".join(parts)


def _unzstd(data: bytes) -> bytes:
    parts: list[bytes] = []
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while part := stream.read(_CHUNK):
                parts.append(part)
    except MemoryError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise Unreadable(f"the zstd data is damaged: {error}") from error
    return b"".join(parts)


class _Columnar(AbstractContextManager[None]):
    """Tells failing storage from damaged content while a columnar file is read."""

    def __init__(self, item: Item, what: str) -> None:
        self.item, self.what = item, what

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, (MemoryError, SourceError, Unreadable)):
            return
        if isinstance(error, OSError) and error.errno:
            raise vanished(self.item, error) from error
        if isinstance(error, (OSError, ValueError, TypeError, KeyError, pa.ArrowException)):
            guess = other_format(_head(self.item), self.item.format)
            raise Unreadable(f"not a readable {self.what} file: {guess or _one_line(error)}") from error


def columnar(item: Item, what: str) -> AbstractContextManager[None]:
    """A context in which errors of a columnar reader become SourceError (try again) or Unreadable (never)."""
    return _Columnar(item, what)


def _head(item: Item) -> bytes:
    try:
        with open(item.path, "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
