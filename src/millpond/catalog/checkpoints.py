"""The register as of a moment, as one Arrow file: opening reads it and replays only what came after."""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millpond.catalog.register_rows import Rows
from millpond.tables import write_durably

_KEY = b"millpond.register"
_FORMAT = 2


@dataclass(frozen=True)
class Checkpoint:
    """generation, offset: of the log, up to which the checkpoint covers it. version: events until then.
    lines: how many of the log. bases: per stream the version of its index's base.
    users: fallible factors and their queries, by stream.
    """

    generation: int
    offset: int
    version: int
    next_id: int
    lines: int
    bases: dict[int, int]
    users: dict[str, dict[str, list[int]]]
    rows: pa.Table

    def to_rows(self) -> Rows:
        """The queries."""
        return Rows.from_table(self.rows)


def _path(folder: str) -> str:
    return os.path.join(folder, "register.arrow")


def write_checkpoint(folder: str, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint in `folder`, durably."""
    head = {
        "format": _FORMAT,
        "generation": checkpoint.generation,
        "offset": checkpoint.offset,
        "version": checkpoint.version,
        "next_id": checkpoint.next_id,
        "lines": checkpoint.lines,
        "bases": {str(k): v for k, v in checkpoint.bases.items()},
        "users": checkpoint.users,
    }
    table = checkpoint.rows.replace_schema_metadata({_KEY: json.dumps(head).encode()})

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()

    def write(file: Any) -> None:
        file.write(data)
        file.write(struct.pack("<I", zlib.crc32(data)))

    write_durably(_path(folder), write)


def read_checkpoint(folder: str, generation: int, size: int) -> Checkpoint | None:
    """The checkpoint in `folder`; None when there is none for this generation and size of the log, or it is damaged."""
    try:
        with open(_path(folder), "rb") as file:
            data = memoryview(file.read())
        if len(data) < 4 or struct.unpack("<I", data[-4:])[0] != zlib.crc32(data[:-4]):
            return None
        table = pa.ipc.open_file(pa.py_buffer(data[:-4])).read_all()
        head = json.loads((table.schema.metadata or {})[_KEY])
        if head["format"] != _FORMAT or head["generation"] != generation or head["offset"] > size:
            return None
        return Checkpoint(
            generation,
            head["offset"],
            head["version"],
            head["next_id"],
            head["lines"],
            {int(k): v for k, v in head["bases"].items()},
            head["users"],
            table,
        )
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None
