"""Files of matched blocks: rows, the indexes made of them and the row sets found, mapped without copying."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import uuid
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from millpond.synopses.blocks import ARROW, Block, Casts, OrderedIndex, one_array
from millpond.synopses.predicate_index.matches import Matches

_MAGIC = b"MILLPND1"
_FORMAT = 1
_TAIL = struct.Struct("<QII8s")  # length of the contents, their checksum, length of the directory, magic
_ALIGN = 64


class _Sections:
    """A file being written as aligned sections, with a running checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.at = 0
        self.checksum = 0

    def put(self, data: Any) -> list[int]:
        """Append bytes; returns [offset, length]."""
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        self._write(bytes(-self.at % _ALIGN))
        place = [self.at, view.nbytes]
        self._write(view)
        return place

    def _write(self, data: Any) -> None:
        self.file.write(data)
        self.checksum = zlib.crc32(data, self.checksum)
        self.at += len(data)


def write_blocks(path: str, blocks: Sequence[Block], matches: Sequence[Matches | None] | None = None) -> int:
    """Write blocks, the indexes made so far and the matches as one file, replacing it atomically.

    Derived data: nothing is synced, `read_blocks` tells a torn file.

    Args:
        path: the file; its folder must exist.
        blocks: any number of blocks.
        matches: one per block (None: none); None: none at all.

    Returns:
        Bytes written.
    """
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        with open(temporary, "wb") as file:
            sections = _Sections(file)
            found = [None] * len(blocks) if matches is None else matches
            entries = [_put_block(sections, b, m) for b, m in zip(blocks, found, strict=True)]
            directory = json.dumps({"format": _FORMAT, "blocks": entries}).encode()
            sections.put(directory)
            file.write(_TAIL.pack(sections.at, sections.checksum, len(directory), _MAGIC))
            size = file.tell()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return size


def _put_block(sections: _Sections, block: Block, matches: Matches | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"time": block.time, "rows": sections.put(_ipc(block.rows)), "indexes": []}
    for (attribute, kind), index in block.made.items():
        values = pa.table({"v": pa.array(index.values, ARROW[kind], from_pandas=False)})
        entry["indexes"].append(
            {
                "attribute": attribute,
                "kind": kind,
                "nulls": index.nulls,
                "values": sections.put(_ipc(values)),
                "codes": sections.put(index.codes),
            }
        )
    if matches is not None:
        arrays = {name: [*sections.put(np.ascontiguousarray(a)), a.dtype.str] for name, a in matches.arrays().items()}
        entry["matches"] = {"size": matches.size, "version": matches.version, "arrays": arrays}
    return entry


def _ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read_blocks(path: str, casts: Casts = ()) -> list[tuple[Block, Matches | None]] | None:
    """Blocks of a file, memory-mapped without copying; None for a file that is missing, torn or of another format.

    casts: as of `Block`.
    """
    try:
        with pa.memory_map(path) as file:
            data = file.read_buffer()
    except (OSError, pa.ArrowInvalid):
        return None
    if data.size < _TAIL.size:
        return None
    length, checksum, directory, magic = _TAIL.unpack(data[data.size - _TAIL.size :])
    contents = data[: data.size - _TAIL.size]
    if magic != _MAGIC or length != contents.size or directory > length or zlib.crc32(contents) != checksum:
        return None
    try:
        head = json.loads(contents[length - directory :].to_pybytes())
        if head["format"] != _FORMAT:
            return None
        return [_read_block(contents, entry, casts) for entry in head["blocks"]]
    except (ValueError, KeyError, TypeError, pa.ArrowException):  # well-formed, but no file of ours
        return None


def _read_block(data: pa.Buffer, entry: dict[str, Any], casts: Casts) -> tuple[Block, Matches | None]:
    def table(place: list[int]) -> pa.Table:
        return pa.ipc.open_stream(data.slice(*place)).read_all()

    indexes: dict[tuple[str, str], OrderedIndex] = {}
    for stored in entry["indexes"]:
        column = table(stored["values"])["v"]
        if stored["kind"] == "text":
            values = np.empty(len(column), object)
            values[:] = column.to_pylist()
        else:
            values = one_array(column).to_numpy(zero_copy_only=False)
        codes = np.frombuffer(data.slice(*stored["codes"]), np.uint16)
        indexes[stored["attribute"], stored["kind"]] = OrderedIndex(values, codes, stored["nulls"])
    block = Block(table(entry["rows"]), entry["time"], indexes, casts)
    stored = entry.get("matches")
    if stored is None:
        return block, None
    arrays = {
        name: np.frombuffer(data.slice(at, size), np.dtype(kind)) for name, (at, size, kind) in stored["arrays"].items()
    }
    return block, Matches.from_arrays(arrays, stored["size"], stored["version"])
