"""The intake log: what a stream has taken, and in which order. Replay needs nothing else.

One log belongs to one stream. It is a file of JSON lines, one item a line, appended and fsynced before anything uses
the item; a line that a crash tore is cut when the log is opened.

    >>> import tempfile
    >>> log = IntakeLog(tempfile.mkdtemp())
    >>> taken = log.append([Item(0, "file", "/d/a.csv", "csv", 12, 0, "", None, "", 5)])
    >>> taken[0].ordinal, log.length, log.ended
    (0, 1, False)
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal

from millpond.support.checksums import is_whole, sealed, unsealed, whole_lines
from millpond.support.damaged_files import reading
from millpond.support.errors import PondError
from millpond.tables.durable_files import append_durably, sync_folder

#: How much of a file's beginning its checksum covers.
HEAD_BYTES: Final = 65_536

FILE_NAME: Final = "intake.jsonl"

Format = Literal["parquet", "csv", "ndjson", "arrow", "derived"]


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a stream has taken whole: a file, a batch that was ingested ("landing"), or what an epoch of other
    streams gave for it ("derived").

    ordinal: its place in the stream's intake order, from 0.
    path: absolute path of the file. format: how to read it; compression follows from the name (.gz, .zst).
    size, mtime_ns, head: what the file is known by; `head` is the checksum of its first 64 KiB.
    rows: number of rows where it is known without reading (Parquet, landing), else None.
    partition: the source partition that it belongs to ('' for one-partition sources).
    arrival: the clock reading at which it was taken, microseconds.
    key: the idempotency key of an ingest; values: the checksum of its rows' values ('': not known).
    more: the items after it were taken with it, all or none of them, up to the next without `more`.
    epoch, bound, parts: of derived items: the epoch that gave the rows; the progress that is reached with them (None:
        more items of the epoch follow); the files beside `path` that hold them.
    groups: bounds of groups that are reached with them, where they are further than before.
    """

    ordinal: int
    kind: Literal["file", "landing", "derived"]
    path: str
    format: Format
    size: int
    mtime_ns: int
    head: str
    rows: int | None
    partition: str
    arrival: int
    key: str | None = None
    epoch: int | None = None
    bound: int | None = None
    parts: tuple[str, ...] = ()
    more: bool = False
    groups: dict[str, int] = dataclasses.field(default_factory=dict)
    values: str = ""

    def to_json(self) -> dict[str, Any]:
        """The item as a JSON-ready dict."""
        names = [*_PLAIN, *(_DERIVED if self.kind == "derived" else ())]
        names += [name for name in _SELDOM if getattr(self, name)]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Item:
        """The item from what `to_json` gave; unknown fields are ignored."""
        known = {k: v for k, v in value.items() if k in _FIELDS}
        return cls(**known | {"parts": tuple(known["parts"])} if "parts" in known else known)


_FIELDS: Final = {f.name: None for f in dataclasses.fields(Item)}

_DERIVED: Final = ("epoch", "bound", "parts")

#: The fields that are written where they say something.
_SELDOM: Final = ("more", "groups", "values")

#: The fields that items of every kind have.
_PLAIN: Final = {name: None for name in _FIELDS if name not in (*_DERIVED, *_SELDOM)}


def checksum(head: bytes) -> str:
    """The checksum that files are known by.

    >>> checksum(b"")
    'cae66941d9efbd404e4d88758ea67670'
    """
    return blake2b(head[:HEAD_BYTES], digest_size=16).hexdigest()


class IntakeLog:
    """The append-only log of one stream's items, in `folder`, which is made if it does not exist.

    Thread-safe. Only one process may have it open for writing (the pond's lock sees to that).

    Raises:
        PondError: the log is damaged before its end, or cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.path = self.folder / FILE_NAME
        self._lock = threading.Lock()
        self._items: list[Item] = []
        self._ended_at: int | None = None
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self.folder.parent)
        new = not self.path.exists()
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if new:
            os.fsync(self._file)
            sync_folder(self.folder)
        with reading(str(self.path)):
            self._size = self._load()

    @property
    def length(self) -> int:
        """How many items there are; the next one gets this ordinal."""
        return len(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def ended(self) -> bool:
        """Whether the end of the stream's bounded source has been recorded."""
        return self._ended_at is not None

    @property
    def ended_at(self) -> int | None:
        """How many items there were when the end was recorded; items from this ordinal on came after it."""
        return self._ended_at

    def items(self, start: int = 0, end: int | None = None) -> list[Item]:
        """The items with ordinals from `start` up to, not including, `end`."""
        return self._items[start:end]

    def append(self, items: Iterable[Item]) -> list[Item]:
        """Record items, with one fsync, and return them with the ordinals that they got.

        When it returns, they are durable; when it raises, none of them has been taken.

        Raises:
            PondError: the log cannot be written (the disk is full).
        """
        with self._lock:
            first = len(self._items)
            taken = [
                item if item.ordinal == first + i else dataclasses.replace(item, ordinal=first + i)
                for i, item in enumerate(items)
            ]
            if taken:
                self._write([self._line(item) for item in taken])
                self._items.extend(taken)
            return taken

    def end(self) -> None:
        """Record that the stream's bounded source has ended (`DRAIN FINAL`); it survives a restart."""
        with self._lock:
            if self._ended_at is None:
                self._write([json.dumps({"end": True, "items": len(self._items)}, separators=(",", ":"))])
                self._ended_at = len(self._items)

    def close(self) -> None:
        """Close the file; what was appended stays readable in memory."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _line(self, item: Item) -> str:
        fields = item.to_json()
        if item.kind != "file":  # it lies inside the pond, which may be moved as a whole
            fields["path"] = os.path.relpath(item.path, self.folder)
        return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))

    def _write(self, lines: list[str]) -> None:
        if self._file < 0:
            raise PondError(f"the intake log {self.path} is closed")
        data = b"".join(sealed(line.encode("ascii")) + b"\n" for line in lines)
        try:
            append_durably(self._file, data, self._size)
        except OSError as error:
            raise PondError(f"the intake log {self.path} cannot be written: {error.strerror or error}") from error
        self._size += len(data)

    def _load(self) -> int:
        """Read the file, cut a torn tail, and return the number of good bytes."""
        data = self.path.read_bytes()
        good = len(whole_lines(data))
        lines = data[:good].split(b"\n")[:-1]
        try:
            records = json.loads(b"[" + b",".join(map(unsealed, lines)) + b"]") if lines else []
        except ValueError:
            records, good = self._salvage(lines)
        if len(records) != len(lines) and good == len(data):
            raise PondError(f"the intake log {self.path} is damaged: lines that hold no or several records")
        for number, record in enumerate(records):
            self._take(record, number)
        whole = self._cut_unfinished(records, lines)
        good = good if whole is None else whole
        if good < len(data):
            os.ftruncate(self._file, good)
            os.fsync(self._file)
        return good

    def _cut_unfinished(self, records: list[Any], lines: list[bytes]) -> int | None:
        """Forget the items at the end whose companions a crash has kept from the log; how many bytes are whole then."""
        keep = len(records)
        while keep and isinstance(records[keep - 1], dict) and records[keep - 1].get("more"):
            keep -= 1
            self._items.pop()
        return sum(len(line) + 1 for line in lines[:keep]) if keep < len(records) else None

    def _salvage(self, lines: list[bytes]) -> tuple[list[Any], int]:
        """The records before the first bad line, where that and what follows are blocks lost in a power cut."""
        records: list[Any] = []
        good = 0
        bad: int | None = None
        for number, line in enumerate(lines):
            try:
                record = json.loads(unsealed(line))
            except ValueError:
                bad = number if bad is None else bad
                if not is_whole(line):
                    continue
            if bad is not None:
                raise PondError(f"the intake log {self.path} is damaged at line {bad + 1}: restore it from a copy")
            records.append(record)
            good += len(line) + 1
        return records, good

    def _take(self, record: Any, number: int) -> None:
        if not isinstance(record, dict):
            raise PondError(f"the intake log {self.path} is damaged at line {number + 1}: not a record")
        if record.get("end"):
            self._ended_at = int(record.get("items", len(self._items)))
            return
        if "ordinal" not in record:
            return  # a kind of record that a later version writes
        item = Item(**record) if record.keys() == _PLAIN.keys() else Item.from_json(record)
        if item.ordinal != len(self._items):
            raise PondError(
                f"the intake log {self.path} is damaged at line {number + 1}: item {item.ordinal} where "
                f"{len(self._items)} should be"
            )
        if item.kind != "file":
            item = dataclasses.replace(item, path=os.path.normpath(self.folder / item.path))
        self._items.append(item)


__all__ = ["HEAD_BYTES", "Format", "IntakeLog", "Item", "checksum", "sync_folder"]
