"""What the columns of files are called, from the beginnings of these files: before anything is taken."""

from __future__ import annotations

import os
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.sources.formats import csv, ndjson
from millpond.sources.formats.carriers import scratch
from millpond.sources.formats.lacking import Lacking, lacking
from millpond.sources.formats.opening import Unreadable, is_compressed, plain_text
from millpond.sources.intake_log import Format
from millpond.types import StreamDefinition

#: Bytes of a text that are looked at. A key may be missing in the first lines of a longer one, and come later.
_HEAD: Final = 4 << 20


def lacks(path: str, kind: Format, definition: StreamDefinition) -> Lacking | None:
    """Which declared column a file lacks, as far as its beginning tells; None: none, or reading it will tell.

    Raises: Unreadable: it is a CSV file whose header names no column of the stream.
    """
    head = None
    try:
        match kind:
            case "parquet":
                return lacking(pq.read_schema(path).names, definition)
            case "arrow":
                with pa.OSFile(path) as file:
                    return lacking(pa.ipc.open_file(file).schema.names, definition)
            case "csv":
                head, _ = _head(path)
            case "ndjson":
                return _lacking_keys(*_head(path), definition)
    except (OSError, pa.ArrowException, Unreadable):  # reading it will tell
        return None
    first = None if head is None else csv.read_head(head, csv.as_named(definition, path))
    return None if first is None else lacking(first.names, definition)


def _lacking_keys(data: bytes, whole: bool, definition: StreamDefinition) -> Lacking | None:
    names = ndjson.keys(data, scratch())
    return lacking(names, definition) if whole else None


def _head(path: str) -> tuple[bytes, bool]:
    """The beginning of a text, to the end of a line, and whether that is all of it."""
    with open(path, "rb") as file:
        data, size = file.read(_HEAD), os.fstat(file.fileno()).st_size
        whole = len(data) >= size
        if is_compressed(data):
            return plain_text(data + file.read(), path), True
    return plain_text(data if whole else data[: data.rfind(b"\n") + 1] or data, path), whole
