"""Whose query is whose: an append-only file in the pond's folder, read when the server starts."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from millpond.support.errors import PondError
from millpond.tables.durable_files import append_durably, sync_folder


class Owners:
    """Owners of queries by id; '' owns what nobody registered over HTTP. Thread-safe.

    A query is recorded after it was made: a crash in between leaves it without an owner, for admins to drop.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder) / "server" / "owners.jsonl"
        self._lock = threading.Lock()
        self._owners: dict[int, str] = {}
        self._counts: Counter[str] = Counter()
        self._read()

    def _read(self) -> None:
        if not self._path.is_file():
            return
        names: dict[str, str] = {}
        whole = 0
        data = self._path.read_bytes()
        for line in data.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break  # a crash tore the last line: nobody was told that it was written
            whole += len(line)
            entry = json.loads(line)
            owner = names.setdefault(entry["owner"], entry["owner"])
            for query in entry["queries"]:
                self._owners[query] = owner
            for query in entry.get("dropped", ()):
                self._owners.pop(query, None)
        if whole < len(data):
            os.truncate(self._path, whole)
        self._counts = Counter(self._owners.values())

    def of(self, query: int) -> str:
        """The owner of a query."""
        return self._owners.get(query, "")

    def count(self, owner: str) -> int:
        """How many queries an owner has, as far as is known."""
        return self._counts[owner]

    def record(self, owner: str, queries: Iterable[int] = (), dropped: Iterable[int] = ()) -> None:
        """Durably record who made queries, and which are gone."""
        with self._lock:
            new = [q for q in queries if self._owners.get(q) != owner]
            gone = [q for q in dropped if q in self._owners]
            if not new and not gone:
                return
            made = not self._path.exists()
            self._path.parent.mkdir(exist_ok=True)
            line = json.dumps({"owner": owner, "queries": new, "dropped": gone}).encode() + b"\n"
            try:
                with self._path.open("ab") as file:
                    append_durably(file.fileno(), line, file.tell())
            except OSError as error:
                raise PondError(f"{self._path} cannot be written: {error.strerror or error}") from error
            if made:
                sync_folder(self._path.parent)
                sync_folder(self._path.parent.parent)
            for query in new:
                self._owners[query] = owner
            for query in gone:
                self._owners.pop(query, None)
            self._counts = Counter(self._owners.values()) if gone else self._counts + Counter({owner: len(new)})

    def keep(self, queries: set[int]) -> None:
        """Forget queries that are not among these any more."""
        gone = [q for q in self._owners if q not in queries]
        self.record("", dropped=gone)
