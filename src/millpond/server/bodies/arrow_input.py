"""Reading Arrow IPC from strangers: bounded before anything is allocated, and checked before anything uses it."""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from millpond.server.failures import Failure, bad_request, over_limit

_FILE: Final = b"ARROW1\0\0"
_DICTIONARY: Final = 2
_RECORDS: Final = 3


def read_ipc(data: bytes, most_rows: int) -> pa.Table:
    """The table of an IPC stream (or file).

    Raises: Failure 400 when it is none, is compressed (a few bytes could claim gigabytes), or points outside of itself.
    """
    # A file is a stream between a magic word and a footer, and the footer is not needed.
    body = memoryview(data)[len(_FILE) :] if data.startswith(_FILE) else memoryview(data)
    try:
        _check_messages(body, most_rows)
        reader = pa.ipc.open_stream(pa.py_buffer(body))
        table = reader.read_all()
        if table.num_rows > most_rows:
            raise over_limit(413, "rows_per_request", f"the request has more than {most_rows:,} rows")
        table.validate(full=True)
        return table
    except Failure:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, struct.error, IndexError, NotImplementedError, KeyError):
        raise bad_request("the body is not a valid Arrow IPC stream") from None


def _check_messages(body: memoryview, most_rows: int) -> None:
    """Go over the messages' headers: lengths and compression, before Arrow believes them."""
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    rows = 0
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        metadata = message.metadata.to_pybytes()
        kind, records = _records(metadata)
        if records is None:
            continue
        length = _scalar(metadata, records, 0, "<q")
        if length < 0:
            raise ValueError("a negative length")
        rows = rows + length if kind == _RECORDS else max(rows, length)
        if rows > most_rows:
            raise over_limit(413, "rows_per_request", f"the request has more than {most_rows:,} rows")
        if _field(metadata, records, 3):
            raise bad_request("compressed Arrow IPC is not accepted; send it uncompressed")


def _records(metadata: bytes) -> tuple[int, int | None]:
    """The kind of a message, and where its RecordBatch table starts (flatbuffers; format/Message.fbs)."""
    root = struct.unpack_from("<I", metadata)[0]
    kind = _scalar(metadata, root, 1, "<B")
    if kind not in (_DICTIONARY, _RECORDS):
        return kind, None
    header = _table(metadata, root, 2)
    return kind, _table(metadata, header, 1) if kind == _DICTIONARY else header


def _field(data: bytes, table: int, index: int) -> int:
    """Where field `index` of a flatbuffer table is; 0: it is not there."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    if 4 + 2 * index >= size:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + 4 + 2 * index)[0]
    return table + offset if offset else 0


def _scalar(data: bytes, table: int, index: int, form: str) -> Any:
    at = _field(data, table, index)
    return struct.unpack_from(form, data, at)[0] if at else 0


def _table(data: bytes, table: int, index: int) -> int:
    at = _field(data, table, index)
    if not at:
        raise ValueError("a table is missing")
    offset: int = struct.unpack_from("<I", data, at)[0]
    return at + offset
