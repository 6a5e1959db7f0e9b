"""What the columns of files are called, from the beginnings of these files: before anything is taken."""

from __future__ import annotations

import os
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.sources.formats import csv, ndjson
from millpond.sources.formats.carriers import Carrier, carriers, scratch
from millpond.sources.formats.convert import convert
from millpond.sources.formats.guesses import spread_object
from millpond.sources.formats.lacking import Lacking, lacking
from millpond.sources.formats.opening import Unreadable, is_compressed, plain_text
from millpond.sources.intake_log import Format
from millpond.support.errors import SourceError
from millpond.types import StreamDefinition

#: Bytes of a text that are looked at. A key may be missing in the first lines of a longer one, and come later.
_HEAD: Final = 4 << 20
#: Bytes, and rows of NDJSON, whose values are looked at.
_SAMPLE: Final = 1 << 20
_ROWS: Final = 10_000


def lacks(path: str, kind: Format, definition: StreamDefinition) -> Lacking | None:
    """Which declared column a file lacks, as far as its beginning tells; None: none, or reading it will tell.

    Raises: Unreadable: it is a CSV file whose header names no column of the stream, or one twice; or its objects stand
        over several lines each.
    """
    head = b""
    try:
        match kind:
            case "parquet":
                return lacking(pq.read_schema(path).names, definition)
            case "arrow":
                with pa.OSFile(path) as file:
                    return lacking(pa.ipc.open_file(file).schema.names, definition)
            case "csv" | "ndjson":
                head, whole = _head(path)
    except (OSError, pa.ArrowException, Unreadable):  # reading it will tell
        return None
    if kind == "ndjson":
        return _lacking_keys(head, whole, definition)
    first = csv.read_head(head, csv.as_named(definition, path))
    return None if first is None else lacking(first.names, definition)


def _lacking_keys(data: bytes, whole: bool, definition: StreamDefinition) -> Lacking | None:
    names = ndjson.keys(data, scratch())
    if names is None and (why := spread_object(data)):
        raise Unreadable(f"no line is a JSON object; {why}")
    return lacking(names, definition) if whole else None


def fitting(path: str, kind: Format, definition: StreamDefinition) -> tuple[bool, ...]:
    """Which columns of a stream have a type that every value at a file's beginning fits, as far as that tells."""
    every = (True,) * len(definition.columns)
    if kind not in ("csv", "ndjson"):
        return every
    try:
        data, _ = _head(path, _SAMPLE)
        fits = [_fits(data, path, kind, definition, carrier) for carrier in carriers(definition)]
    except (OSError, Unreadable, SourceError):  # declaring it will tell
        return every
    return tuple(fits[: len(every)])


def _fits(data: bytes, path: str, kind: Format, definition: StreamDefinition, carrier: Carrier) -> bool:
    db = scratch()
    is_csv = kind == "csv"
    texts = csv.texts(data, data, path, definition, carrier) if is_csv else ndjson.texts(data, carrier, db, _ROWS)
    return texts is None or convert(texts, carrier, db, json=not is_csv).unfit is None


def _head(path: str, most: int = _HEAD) -> tuple[bytes, bool]:
    """The beginning of a text, to the end of a line where there is one, and whether that is all of it."""
    with open(path, "rb") as file:
        data, size = file.read(most), os.fstat(file.fileno()).st_size
        whole = len(data) >= size
        if is_compressed(data):
            return plain_text(data + file.read(), path), True
    return plain_text(data if whole else data[: data.rfind(b"\n") + 1] or data, path), whole
