"""The `files` source: a file, a folder or a glob that may grow while the stream runs; each file is taken once, whole.

A file is taken when it is complete. Nobody tells when a writer is done, so it counts as complete when one of these
holds: it was not modified for `settle`; we saw it unchanged for `settle`; it looks whole (a Parquet or Arrow file with
its footer, text that ends with a line end) and was unchanged for `stable`. Writers that rename finished files into
place are always safe; names that begin with `.` or `_` or end in .tmp, .part, .partial, .crdownload are left alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, cast

import pyarrow.parquet as pq

from millpond.sources.formats.columns_there import lacks
from millpond.sources.formats.lacking import Lacking
from millpond.sources.formats.opening import Unreadable
from millpond.sources.intake_log import HEAD_BYTES, Format, IntakeLog, Item, checksum
from millpond.sources.listing import Seen, check_path, folder_time, list_path
from millpond.support.errors import SourceError
from millpond.support.event_log import event_log
from millpond.types import SECOND, StreamDefinition

LOG = event_log(__name__)

FORMATS: Final[dict[str, Format]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".arrow": "arrow",
    ".feather": "arrow",
}
_COMPRESSED: Final = (".gz", ".zst")
_TEXT: Final = ("csv", "ndjson")

#: So many files are looked at when a stream is declared: a wrong name is seen at once, and others are when they are
#: read.
_LOOKED_AT: Final = 16

#: The folders' times are trusted once they are this much older than the clock (their resolution).
_RESOLUTION_NS: Final = 50_000_000


@dataclass
class _Pending:
    """A file that is not complete yet: as it was when it last changed, and when that was noticed (ns)."""

    seen: Seen
    since: int


class FileSource:
    """The files of one stream; lives in the driver. Not thread-safe: one thread polls.

    Arguments:
        definition: the stream; its options name path, format and order.
        log: its intake log: what is in there is known.
        settle: microseconds after which a file that is not modified counts as complete.
        stable: microseconds for which a file that looks whole must be unchanged.
        recheck: microseconds between looks at the known files for changes, while folders stay the same.
        clock: nanoseconds since 1970, of the clock that files are compared with. ticks: nanoseconds of one that never
            goes back.

    Attributes:
        changed: paths of files whose content changed after they were taken; they are not taken again.
        pending: how many files are there that are not complete.
        unrecognised: how many files were left out because their name tells no format.

    Raises:
        SourceError: the stream has no path.
    """

    def __init__(
        self,
        definition: StreamDefinition,
        log: IntakeLog,
        settle: int = SECOND,
        stable: int = 50_000,
        recheck: int = 5 * SECOND,
        clock: Callable[[], int] = time.time_ns,
        ticks: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if not definition.options.path:
            raise SourceError(f"stream '{definition.name}' has no path: WITH (source='files', path='…')")
        self.definition, self.log = definition, log
        self.path = os.path.abspath(os.path.expanduser(definition.options.path))
        self.changed: list[str] = []
        self.unrecognised = 0
        self._settle, self._stable, self._recheck = settle * 1000, stable * 1000, recheck * 1000
        self._clock, self._ticks = clock, ticks
        self._known: dict[str, Item] = {}
        self._read_to = 0
        self._pending: dict[str, _Pending] = {}
        self._looked_at: dict[str, tuple[int, int, bool]] = {}  # known path → size, mtime, whether it had changed
        self._folders: dict[str, int | None] = {}
        self._listed = 0

    @property
    def pending(self) -> int:
        """How many files are there that are not complete yet."""
        return len(self._pending)

    def poll(self, clock_us: int, settle: bool = True) -> list[Item]:
        """Take the files that are new and complete: they are in the log, in order, when this returns.

        Arguments:
            clock_us: the clock reading that becomes their arrival.
            settle: False takes everything that is there now, complete or not (`DRAIN`).

        Returns:
            The items taken, with their ordinals.

        Raises:
            SourceError: a folder cannot be read.
            PondError: the log cannot be written; nothing was taken.
        """
        if settle and self._quiet():
            return []
        self._learn()
        now = self._clock()
        listing = list_path(self.path)
        fresh: list[Seen] = []
        changed: list[str] = []
        unrecognised: list[str] = []
        pending: dict[str, _Pending] = {}
        for path, seen in listing.files.items():
            known = self._known.get(path)
            if known is not None:
                if self._has_changed(known, seen):
                    changed.append(path)
            elif self.format_of(path) is None:
                unrecognised.append(path)
            elif settle and not self._complete(seen, now, pending):
                continue
            else:
                fresh.append(seen)
        by_name = self.definition.options.order == "name"
        fresh.sort(key=lambda s: (0 if by_name else s.mtime_ns, s.path))
        items = [item for seen in fresh if (item := self._item(seen, clock_us, settle, pending, now)) is not None]
        taken = self.log.append(items)
        self._learn()
        self._tell(changed, unrecognised)
        self._pending, self.changed, self.unrecognised = pending, sorted(changed), len(unrecognised)
        self._listed = self._ticks()
        # a folder that was changed just now may change again without showing it
        self._folders = {f: t for f, t in listing.folders.items() if t is None or now - t > _RESOLUTION_NS}
        if len(self._folders) < len(listing.folders):
            self._folders = {}
        return taken

    def _tell(self, changed: Sequence[str], unrecognised: Sequence[str]) -> None:
        """Say which files are not taken, as often as there are new ones."""
        name, fresh = self.definition.name, sorted(set(changed) - set(self.changed))
        if fresh:
            LOG.warning("files changed after they were taken", stream=name, files=len(fresh), first=fresh[0])
        if len(unrecognised) > self.unrecognised:
            new = len(unrecognised) - self.unrecognised
            LOG.warning("files have no known format", stream=name, files=new, such_as=max(unrecognised))

    def format_of(self, path: str) -> Format | None:
        """How to read a file: as declared, else as its name says; None: the name does not say."""
        declared = self.definition.options.format
        if declared is not None:
            return declared
        return format_of(path)

    def _quiet(self) -> bool:
        """Whether no file can have come since the last look."""
        if self._pending or not self._folders or self._ticks() - self._listed > self._recheck:
            return False
        return all(folder_time(folder) == then for folder, then in self._folders.items())

    def _learn(self) -> None:
        """Know what the log holds."""
        for item in self.log.items(self._read_to):
            if item.kind == "file":
                self._known[item.path] = item
            self._read_to = item.ordinal + 1

    def _has_changed(self, known: Item, seen: Seen) -> bool:
        if seen.size == known.size and seen.mtime_ns == known.mtime_ns:
            return False
        before = self._looked_at.get(seen.path)
        if before is not None and before[:2] == (seen.size, seen.mtime_ns):
            return before[2]
        # only touched, when size and head are the same
        changed = seen.size != known.size or _head(seen.path) not in (known.head, None)
        self._looked_at[seen.path] = (seen.size, seen.mtime_ns, changed)
        return changed

    def _complete(self, seen: Seen, now: int, pending: dict[str, _Pending]) -> bool:
        if 0 <= self._settle <= now - seen.mtime_ns:
            return True
        before = self._pending.get(seen.path)
        if before is None or before.seen != seen:
            before = _Pending(seen, now)
        unchanged = now - before.since
        if unchanged >= self._settle or (
            (unchanged >= self._stable or now - seen.mtime_ns >= self._stable) and self._looks_whole(seen)
        ):
            return True
        pending[seen.path] = before
        return False

    def _looks_whole(self, seen: Seen) -> bool:
        """Whether the end of the file is one that writers leave last."""
        if seen.size == 0:
            return False
        kind = self.format_of(seen.path)
        try:
            with open(seen.path, "rb") as file:
                file.seek(max(0, seen.size - 6))
                end = file.read(6)
        except OSError:
            return False
        if kind == "parquet":
            return end.endswith(b"PAR1") and seen.size > 12
        if kind == "arrow":
            return end == b"ARROW1"
        return end.endswith(b"\n") and not seen.path.lower().endswith(_COMPRESSED)

    def _item(self, seen: Seen, clock_us: int, settle: bool, pending: dict[str, _Pending], now: int) -> Item | None:
        """The item of a file, unless the file changes or goes while it is looked at."""
        kind = cast(Format, self.format_of(seen.path))
        rows = _rows(seen.path) if kind == "parquet" else None
        head = _head(seen.path)
        try:
            status = os.stat(seen.path)
        except OSError:
            return None
        if head is None:
            return None
        if (status.st_size, status.st_mtime_ns) != (seen.size, seen.mtime_ns):
            if settle:
                pending[seen.path] = _Pending(Seen(seen.path, status.st_size, status.st_mtime_ns), now)
                return None
            seen = Seen(seen.path, status.st_size, status.st_mtime_ns)
        return Item(0, "file", seen.path, kind, seen.size, seen.mtime_ns, head, rows, "", clock_us)


@dataclass(frozen=True)
class Looked:
    """What a look at the files of a stream finds: how many there are, how many whose names tell no format.

    lacks: the first that lacks a declared column; of many files some are looked at, from both ends.
    """

    files: int
    unrecognised: int
    lacks: Lacking | None

    def __str__(self) -> str:
        files = "1 file is" if self.files == 1 else f"{self.files:,} files are"
        more = f", {self.unrecognised:,} more whose names tell no format" if self.unrecognised else ""
        return f"{files} there{more}"


def look_at(definition: StreamDefinition) -> Looked:
    """The files of a stream that is about to be declared.

    Raises: SourceError: a folder cannot be read, or the header of a CSV file names no column of the stream.
    """
    options = definition.options
    every = sorted(list_path(os.path.abspath(os.path.expanduser(options.path or ""))).files)
    known = [(path, kind) for path in every if (kind := options.format or format_of(path)) is not None]
    some = known if len(known) <= _LOOKED_AT else [*known[: _LOOKED_AT // 2], *known[-_LOOKED_AT // 2 :]]
    for path, kind in some:
        try:
            found = lacks(path, kind, definition)
        except Unreadable as error:
            raise SourceError(f"{path}: {error}") from None
        if found is not None:
            return Looked(len(known), len(every) - len(known), replace(found, file=path))
    return Looked(len(known), len(every) - len(known), None)


def format_of(path: str) -> Format | None:
    """The format that a file's name tells, .gz and .zst aside; None: it tells none.

    >>> format_of("/d/a.csv.gz"), format_of("a.PARQUET"), format_of("readme.md"), format_of("a.parquet.gz")
    ('csv', 'parquet', None, None)
    """
    suffixes = [s.lower() for s in PurePath(path).suffixes[-2:]]
    compressed = bool(suffixes) and suffixes[-1] in _COMPRESSED
    kind = FORMATS.get((suffixes[:-1] if compressed else suffixes)[-1]) if len(suffixes) > compressed else None
    return kind if not compressed or kind in _TEXT else None


def _head(path: str) -> str | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return checksum(file.read(HEAD_BYTES))
    except OSError:
        return None


def _rows(path: str) -> int | None:
    """The number of rows that a Parquet footer tells; None when it cannot be read."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except MemoryError:
        raise
    except Exception:  # whatever is wrong with it is found, and told, when the file is read
        return None


__all__ = ["FORMATS", "FileSource", "Looked", "check_path", "format_of", "look_at"]
