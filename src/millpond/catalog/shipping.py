"""Predicate indexes on their way to workers: per stream a base and deltas as files, named by register version.

    catalog/boxes/<stream>/b<version>.boxes          the index as of a version
    catalog/boxes/<stream>/d<from>-<to>.boxes        what changed between two versions

A worker that has a version follows deltas; one that has none, or has missed some that are gone, starts from the newest
base. The files of a manifest's version are durable before the manifest is.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import threading
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from millpond.synopses.predicate_index.boxes import BoxTable
from millpond.tables import remove_file, write_durably
from millpond.types import Interval

Boxes = tuple[tuple[Interval, ...], ...]

#: Deltas behind one base after which a new base is due.
LONGEST = 256

_MAGIC = b"MPBOXES2"


def boxes_folder(pond: str, stream: int) -> str:
    """Where the files of a stream lie."""
    return os.path.join(pond, "catalog", "boxes", str(stream))


def write_base(folder: str, version: int, tables: dict[str, pa.Table], factors: dict[str, str]) -> None:
    """Write an index as of a version, durably. factors: expressions that can fail, with the query to name."""
    os.makedirs(folder, exist_ok=True)
    head = {"removed": [], "factors": factors}
    write_durably(os.path.join(folder, f"b{version:016d}.boxes"), lambda file: _write(file, head, tables))


def write_delta(
    folder: str, before: int, version: int, last: dict[int, Boxes | None], factors: dict[str, str | None]
) -> None:
    """Write what changed after `before` up to `version`, durably: queries that came, and (None) that went.

    factors: those whose query to name has changed; None: nobody uses it any more.
    """
    os.makedirs(folder, exist_ok=True)
    delta = BoxTable()
    delta.add_many([(query, boxes) for query, boxes in last.items() if boxes is not None])
    head = {"removed": sorted(q for q, boxes in last.items() if boxes is None), "factors": factors}
    path = os.path.join(folder, f"d{before:016d}-{version:016d}.boxes")
    write_durably(path, lambda file: _write(file, head, delta.to_tables()))


def read_base(folder: str, version: int) -> BoxTable | None:
    """The index that `write_base` wrote; None when the file is missing or damaged."""
    found = _read(os.path.join(folder, f"b{version:016d}.boxes"))
    return None if found is None else BoxTable.from_tables(found[1])


class BoxReader:
    """A worker's copies of predicate indexes, brought to the version that a manifest names."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By folder: of which opening of the pond, and what.
        self._held: dict[str, tuple[str, tuple[int, BoxTable, dict[str, str]]]] = {}

    def at(self, folder: str, version: int, opening: str) -> tuple[BoxTable, dict[str, str]] | None:
        """The index of the stream in `folder` as of `version`, and its factors that can fail.

        None when the stream has none, or its files are gone (then nothing is matched ahead, and no answer changes).
        The table is the reader's own: it changes with the next call.

        Args:
            opening: which opening of the pond has the version; of another history nothing is used.
        """
        with self._lock:
            bases, deltas = listing(folder)
            whose, held = self._held.get(folder, ("", None))
            if held is None or whose != opening or held[0] > version:
                held = None
            if held is not None:
                reached, held = self._follow(folder, held, deltas, version)
                if held is not None and any(reached < b <= version for b in bases):
                    held = None  # deltas in between are gone
            if held is None:
                base = max((b for b in bases if b <= version), default=None)
                found = None if base is None else _read(os.path.join(folder, f"b{base:016d}.boxes"))
                if found is None or base is None:
                    self._held.pop(folder, None)
                    return None
                _, held = self._follow(
                    folder, (base, BoxTable.from_tables(found[1]), found[0]["factors"]), deltas, version
                )
                if held is None:
                    self._held.pop(folder, None)
                    return None
            while len(self._held) > 8:
                self._held.pop(next(iter(self._held)))
            self._held[folder] = opening, held
            return held[1], held[2]

    def _follow(
        self, folder: str, held: tuple[int, BoxTable, dict[str, str]], deltas: Sequence[tuple[int, int]], version: int
    ) -> tuple[int, tuple[int, BoxTable, dict[str, str]] | None]:
        reached, table, factors = held
        steps: dict[int, int] = {}
        for before, after in deltas:
            if after <= version:
                steps[before] = max(after, steps.get(before, after))
        while reached in steps:
            after = steps[reached]
            found = _read(os.path.join(folder, f"d{reached:016d}-{after:016d}.boxes"))
            if found is None:
                return reached, None
            table.remove_many(found[0]["removed"])
            table.merge(BoxTable.from_tables(found[1]))
            changed = found[0]["factors"]
            if changed:
                factors = {e: n for e, n in {**factors, **changed}.items() if n is not None}
            reached = after
        return reached, (reached, table, factors)


def listing(folder: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Versions of the bases and (from, to) of the deltas in a folder."""
    bases, deltas = [], []
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return [], []
    for name in names:
        stem, _, end = name.partition(".")
        if end != "boxes":
            continue
        if stem.startswith("b"):
            bases.append(int(stem[1:]))
        else:
            before, _, after = stem[1:].partition("-")
            deltas.append((int(before), int(after)))
    return bases, deltas


def prune(folder: str, needed: int, newest: int) -> None:
    """Remove files that no manifest from version `needed` on can ask for. newest: a base to keep."""
    bases, deltas = listing(folder)
    first = max((b for b in bases if b <= needed), default=None)
    if first is None:
        return
    for base in bases:
        if base < first and base != newest:
            remove_file(os.path.join(folder, f"b{base:016d}.boxes"))
    for before, after in deltas:
        if after <= first:
            remove_file(os.path.join(folder, f"d{before:016d}-{after:016d}.boxes"))
    for name in os.listdir(folder):
        if name.endswith(".tmp") and f".{os.getpid()}." not in name:
            remove_file(os.path.join(folder, name))


def remove_streams(pond: str, live: Iterable[int]) -> None:
    """Remove the files of streams that are not `live`."""
    folder = os.path.join(pond, "catalog", "boxes")
    kept = {str(s) for s in live}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name not in kept:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _write(file: Any, head: dict[str, Any], tables: dict[str, pa.Table]) -> None:
    parts = []
    for name, table in sorted(tables.items()):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        parts.append((name, sink.getvalue()))
    written = json.dumps({**head, "parts": [(name, part.size) for name, part in parts]}).encode()
    check = zlib.crc32(written)
    for _, part in parts:
        check = zlib.crc32(part, check)
    file.write(_MAGIC + struct.pack("<QI", len(written), check) + written)
    for _, part in parts:
        file.write(part)


def _read(path: str) -> tuple[dict[str, Any], dict[str, pa.Table]] | None:
    try:
        with open(path, "rb") as file:
            data = pa.py_buffer(file.read())
    except OSError:
        return None
    try:
        head, at = _head(memoryview(data))
        tables = {}
        for name, size in head["parts"]:
            tables[name] = pa.ipc.open_stream(data.slice(at, size)).read_all()
            at += size
        return (head, tables) if at == data.size else None
    except (ValueError, KeyError, struct.error, pa.ArrowException):
        return None


def _head(data: memoryview) -> tuple[dict[str, Any], int]:
    if bytes(data[:8]) != _MAGIC:
        raise ValueError("not a file of boxes")
    size, check = struct.unpack("<QI", data[8:20])
    # A wrong bit would not stop anything, and queries would miss rows.
    if zlib.crc32(data[20:]) != check:
        raise ValueError("a damaged file of boxes")
    head: dict[str, Any] = json.loads(bytes(data[20 : 20 + size]))
    return head, 20 + size
