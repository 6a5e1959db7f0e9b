"""Streams, items and connections for the tests of the sources."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from millpond.sources.files import format_of
from millpond.sources.formats.read import Read, read
from millpond.sources.intake_log import Item, checksum
from millpond.types import Column, StreamDefinition, StreamOptions

ARRIVED = 1_700_000_000_000_000


def stream(*columns: str, **options: Any) -> StreamDefinition:
    """A stream from 'name TYPE' texts; its time is `ts` where there is one."""
    pairs = [c.split(" ", 1) for c in columns]
    if any(name == "ts" for name, _ in pairs):
        options.setdefault("time", "ts")
    options.setdefault("source", "files")
    return StreamDefinition("s", tuple(Column(n, t) for n, t in pairs), StreamOptions(**options), id=1)


def item_of(path: Path | str, kind: str | None = None, **fields: Any) -> Item:
    """The item of a file as it is now."""
    status = os.stat(path)
    with open(path, "rb") as file:
        head = checksum(file.read(65_536))
    values: dict[str, Any] = {"rows": None, "partition": "", "arrival": ARRIVED} | fields
    form: Any = kind or format_of(str(path))
    return Item(0, "file", str(path), form, status.st_size, status.st_mtime_ns, head, **values)


@cache
def engine_db() -> duckdb.DuckDBPyConnection:
    """A connection as the engine has them, one for all tests."""
    db = duckdb.connect(config={"enable_external_access": "false"})
    db.execute("SET threads = 1; SET TimeZone = 'UTC'; SET lock_configuration = true")
    return db


def read_text(folder: Path, name: str, content: str | bytes, definition: StreamDefinition, **fields: Any) -> Read:
    """Write a file and read it as an item."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(item_of(path, definition.options.format, **fields), definition, None, engine_db())


def bad(result: Read) -> list[tuple[int | None, str]]:
    """Positions and reasons of the rejected records."""
    return [(r["position"], r["reason"]) for r in result.rejected.to_pylist()]
