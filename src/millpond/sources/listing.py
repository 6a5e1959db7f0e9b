"""Which files a path means: a file, a folder (the files directly in it), or a glob (`*`, `?`, `[…]`, `**`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from millpond.support.errors import SourceError

_MAGIC: Final = frozenset("*?[")
_UNFINISHED: Final = (".tmp", ".part", ".partial", ".crdownload")


class Seen(NamedTuple):
    """A file as it was listed."""

    path: str
    size: int
    mtime_ns: int


@dataclass
class Listing:
    """What a look at a path gave.

    files: everything that could be taken, unordered.
    folders: the folders that were looked into, with their modification times (None: absent). While they stay the
        same, no file came or went.
    """

    files: dict[str, Seen] = field(default_factory=dict)
    folders: dict[str, int | None] = field(default_factory=dict)


def is_hidden(name: str) -> bool:
    """Whether a file is none of ours: hidden, or still being written by its name."""
    return name.startswith((".", "_")) or name.lower().endswith(_UNFINISHED)


def split_pattern(path: str) -> tuple[str, list[str]]:
    """The fixed folder that a path begins with, and the pattern of each further part.

    >>> split_pattern("/data/2013-*/**/*.csv")
    ('/data', ['2013-*', '**', '*.csv'])
    >>> split_pattern("/data")
    ('/data', [])
    """
    if os.path.lexists(path) or not _MAGIC & set(path):
        return path, []
    parts = path.split("/")
    first = next(i for i, part in enumerate(parts) if _MAGIC & set(part))
    return "/".join(parts[:first]) or "/", [p for p in parts[first:] if p]


def list_path(path: str) -> Listing:
    """Look at an absolute path; what does not exist (yet) gives nothing.

    Raises:
        SourceError: a folder cannot be read for another reason (permissions, failing storage).
    """
    listing = Listing()
    base, patterns = split_pattern(path)
    if patterns:
        _walk(base, patterns, listing, frozenset())
    elif os.path.isdir(base):
        _walk(base, ["*"], listing, frozenset())
    else:
        listing.folders[os.path.dirname(base)] = folder_time(os.path.dirname(base))
        try:
            status = os.stat(base)
        except OSError:
            return listing
        listing.files[base] = Seen(base, status.st_size, status.st_mtime_ns)
    return listing


def folder_time(folder: str) -> int | None:
    """When a folder was changed; None: it is not there."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None


def check_path(path: str) -> str:
    """See that a path can be the source of a stream, and return it absolute.

    The files need not be there yet; the folder that they will come into has to be.

    Raises:
        SourceError: the folder does not exist.
    """
    if not path:
        raise SourceError("the path is empty: give a file, a folder or a glob")
    if "\0" in path:
        raise SourceError("the path holds a NUL character")
    absolute = os.path.abspath(os.path.expanduser(path))
    base, patterns = split_pattern(absolute)
    folder = base if patterns else os.path.dirname(base)
    if not os.path.isdir(folder):
        there = folder
        while there != "/" and not os.path.isdir(there):
            there = os.path.dirname(there)
        raise SourceError(f"{path}: there is no folder {folder} (there is {there}); make it first, it may be empty")
    return absolute


def _walk(folder: str, patterns: list[str], listing: Listing, above: frozenset[tuple[int, int]]) -> None:
    pattern, rest = patterns[0], patterns[1:]
    try:
        status = os.stat(folder)
        listing.folders[folder] = status.st_mtime_ns
        entries = list(_entries(folder))
    except (FileNotFoundError, NotADirectoryError):
        listing.folders[folder] = None
        return
    except OSError as error:
        raise SourceError(f"{folder}: the folder cannot be read: {error.strerror or error}") from error
    identity = (status.st_dev, status.st_ino)
    if identity in above:  # a symbolic link that leads back up
        return
    inside = above | {identity}
    if pattern == "**":
        _files(folder, entries, "*" if not rest else None, listing)
        if rest:
            _walk(folder, rest, listing, above)
        for entry in entries:
            if _is_folder(entry) and not is_hidden(entry.name):
                _walk(entry.path, patterns, listing, inside)
    elif not rest:
        _files(folder, entries, pattern, listing)
    else:
        for entry in entries:
            if fnmatchcase(entry.name, pattern) and _is_folder(entry) and _visible(entry.name, pattern):
                _walk(entry.path, rest, listing, inside)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _visible(name: str, pattern: str) -> bool:
    """A hidden folder is looked into only when the pattern says so."""
    return not is_hidden(name) or pattern[:1] == name[:1]


def _files(folder: str, entries: list[os.DirEntry[str]], pattern: str | None, listing: Listing) -> None:
    if pattern is None:
        return
    for entry in entries:
        name = entry.name
        if is_hidden(name) or (pattern != "*" and not fnmatchcase(name, pattern)):
            continue
        try:
            if not entry.is_file():
                continue
            status = entry.stat()
        except OSError:  # it went away meanwhile
            continue
        listing.files[entry.path] = Seen(entry.path, status.st_size, status.st_mtime_ns)
