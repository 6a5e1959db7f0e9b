"""The file behind the register: an append-only log with group commit, read by offset, rewritten when mostly dead.

Many threads append at once: one of them writes and syncs for all that wait. A line that a crash tore is cut.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from millpond.support.checksums import sealed, unsealed, whole_lines
from millpond.support.damaged_files import reading
from millpond.support.errors import PondError
from millpond.tables import append_durably, sync_folder

_BUFFER = 1 << 22


class Entry:
    """What one caller appends. `applied` is called with the offsets of its lines once they are durable."""

    def __init__(self, lines: Sequence[bytes], applied: Callable[[list[int]], None]) -> None:
        self.lines, self.applied = lines, applied
        self.done = False
        self.error: BaseException | None = None


class RegisterLog:
    """The log in one file. Its first line says its generation and the number of events before it.

    generation: changes when the file is rewritten; offsets are of one generation.
    first: how many events there had been before the first line. size: bytes that are durable.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._queue: list[Entry] = []
        self._leading = False
        self._turn = threading.Condition()
        if not os.path.exists(path):
            self._replace(_header(1, 0, 1), [])
        else:
            self._open()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR)
        try:
            with reading(self.path):  # made by a rename of a whole file: cannot be torn
                first = os.pread(self._file, 4096, 0).partition(b"\n")[0]
                header = json.loads(unsealed(first))
                self.generation: int = header["generation"]
                self.first: int = header["first"]
                self.next_id: int = header["next_id"]
        except PondError:
            os.close(self._file)
            raise
        self.start = len(first) + 1
        self.size = os.fstat(self._file).st_size

    def replay(self, offset: int = 0) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """(offset, length, event) of every whole line from `offset` on; cuts what is torn behind the last one.

        To be called once, right after opening, and read to its end.
        """
        at = max(offset, self.start)
        rest = b""
        while data := os.pread(self._file, _BUFFER, at + len(rest)):
            data = rest + data
            end = data.rfind(b"\n") + 1
            for line in data[:end].splitlines(keepends=True):
                yield at, len(line), self._event(line, at)
                at += len(line)
            rest = data[end:]
        if at != self.size:
            with reading(self.path):
                whole_lines(rest)
            os.ftruncate(self._file, at)
            os.fsync(self._file)
            self.size = at

    def enqueue(self, lines: Sequence[bytes], applied: Callable[[list[int]], None]) -> Entry:
        """Give lines a place in the order of the log; `commit` makes them durable.

        applied: called in that order with the lines' offsets, in whichever thread commits.
        """
        entry = Entry(lines, applied)
        with self._turn:
            self._queue.append(entry)
        return entry

    def commit(self, entry: Entry) -> None:
        """Return when the entry is durable and applied.

        Raises: PondError when it cannot be written (the disk is full); then it has not happened.
        """
        with self._turn:
            while self._leading and not entry.done:
                self._turn.wait()
            if not entry.done:
                self._leading = True
                batch, self._queue = self._queue, []
        if not entry.done:
            try:
                self._write(batch)
            finally:
                with self._turn:
                    for e in batch:
                        e.done = True
                    self._leading = False
                    self._turn.notify_all()
        if entry.error is not None:
            raise entry.error

    def _write(self, batch: Sequence[Entry]) -> None:
        data = b"".join(line for entry in batch for line in entry.lines)
        if self._file < 0:
            for entry in batch:
                entry.error = PondError(f"the register {self.path} is closed")
            return
        try:
            append_durably(self._file, data, self.size)
        except BaseException as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            for entry in batch:
                entry.error = PondError(f"the register {self.path} cannot be written: {reason}")
            return
        at, self.size = self.size, self.size + len(data)
        for entry in batch:
            offsets = []
            for line in entry.lines:
                offsets.append(at)
                at += len(line)
            try:
                entry.applied(offsets)
            except BaseException as error:
                entry.error = error

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of one line."""
        if self._file < 0:
            raise PondError(f"the register {self.path} is closed")
        return os.pread(self._file, length, offset)

    def event(self, offset: int, length: int) -> dict[str, Any]:
        """The event of one line. Raises: PondError when it is not what was written."""
        return self._event(self.read(offset, length), offset)

    def _event(self, line: bytes, at: int) -> dict[str, Any]:
        with reading(f"byte {at:,} of {self.path}"):
            event: dict[str, Any] = json.loads(unsealed(line.removesuffix(b"\n")))
            return event

    def rewrite(self, keep: Callable[[], tuple[int, int, Iterable[bytes]]], swapped: Callable[[], None]) -> None:
        """Replace the file by one of the next generation; appends wait meanwhile.

        Arguments:
            keep: gives the number of events before the first line, the next id, and the lines.
            swapped: called when the new file is in place, before anybody appends.
        """
        with self._turn:
            while self._leading:
                self._turn.wait()
            self._leading = True
        try:
            first, next_id, lines = keep()
            old = self._file
            self._replace(_header(self.generation + 1, first, next_id), lines)
            swapped()
            os.close(old)
        finally:
            with self._turn:
                self._leading = False
                self._turn.notify_all()

    def _replace(self, header: bytes, lines: Iterable[bytes]) -> None:
        temporary = f"{self.path}.tmp"
        with open(temporary, "wb", buffering=_BUFFER) as file:
            file.write(header)
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)
        sync_folder(os.path.dirname(self.path))
        self._open()

    def close(self) -> None:
        """Close the file, after what is being written; nothing can be read or written any more."""
        with self._turn:
            while self._leading:
                self._turn.wait()
            # The number may be another file's soon.
            file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _header(generation: int, first: int, next_id: int) -> bytes:
    event = {"do": "log", "generation": generation, "first": first, "next_id": next_id}
    return sealed(json.dumps(event, separators=(",", ":")).encode()) + b"\n"
