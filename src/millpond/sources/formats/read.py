"""Reading an item of a stream into the stream's own columns and types, whatever format it is in.

    rows = read(item, definition, None, db).rows

Runs inside Spark tasks: vectorised, on one thread, with a DuckDB connection that is given (session time zone UTC) and
needs no access to files. The same item gives the same rows and rejections whichever columns are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.sources import derived_stream as derived
from millpond.sources.formats import arrow, csv, ndjson, parquet
from millpond.sources.formats.carriers import Carrier, arrow_schema, carriers, scratch
from millpond.sources.formats.convert import convert
from millpond.sources.formats.json_arrays import is_array
from millpond.sources.formats.opening import Unreadable, check_taken, is_compressed, plain_text, vanished
from millpond.sources.formats.shape import FIRST_TIME, LAST_TIME, REJECTED, Read, event_micros, whole
from millpond.sources.intake_log import Item
from millpond.support.errors import SourceError
from millpond.types import ARRIVAL, StreamDefinition

_READERS = {
    "parquet": parquet.read,
    "csv": csv.read,
    "ndjson": ndjson.read,
    "arrow": arrow.read,
    "derived": derived.read,
}

#: Bytes of text that one row is guessed to take when the tail of a file is looked at.
_ROW_BYTES = 512


def read(
    item: Item,
    definition: StreamDefinition,
    columns: Sequence[str] | None = None,
    db: duckdb.DuckDBPyConnection | None = None,
) -> Read:
    """Read one item whole.

    Arguments:
        item: what the intake log says was taken.
        definition: the stream it belongs to.
        columns: which of the stream's columns to return, in this order; None: all (`definition.all_columns`).
        db: the task's DuckDB connection; None: a private one.

    Returns:
        The good rows, their positions, and the rejected records. A file that cannot be understood at all is one
        rejected record without a position.

    Raises:
        SourceError: the file vanished or was changed after it was taken; the epoch must be tried again.
    """
    try:
        return _READERS[item.format](item, definition, columns, db or scratch())
    except Unreadable as error:
        return whole(definition, columns, str(error))
    except KeyError as error:
        if item.format in _READERS:
            raise
        raise SourceError(f"{item.path}: no reader for format {item.format!r}") from error


def tail_times(
    item: Item, definition: StreamDefinition, db: duckdb.DuckDBPyConnection | None = None, rows: int = 1000
) -> npt.NDArray[np.int64]:
    """Event times (microseconds) of about the last `rows` rows of an item, in their order, reading little more.

    Times that would be rejected are left out, so that there may be fewer; an unreadable file has none. Only the time
    is looked at: rows that are rejected for another column count. The same item always gives the same times.

    Raises:
        SourceError: see `read`.
    """
    time = definition.options.time
    if time == ARRIVAL:
        return np.full(min(rows, item.rows if item.rows is not None else 1), item.arrival, np.int64)
    if definition.makes(time):
        made: npt.NDArray[np.int64] = event_micros(read(item, definition, [time], db).rows.column(0)).to_numpy()
        return made[-rows:]
    carrier = next((c for c in carriers(definition) if c.name.lower() == time.lower()), None)
    if carrier is None:
        raise SourceError(f"stream '{definition.name}' has no event-time column {time!r}")
    connection = db or scratch()
    try:
        if item.format in ("parquet", "arrow"):
            column = (parquet if item.format == "parquet" else arrow).tail(item, time, rows)
            return _times(column, carrier, connection)
        return _text_tail(item, definition, carrier, connection, rows)
    except Unreadable:
        return np.empty(0, np.int64)


def _times(column: pa.ChunkedArray | None, carrier: Carrier, db: duckdb.DuckDBPyConnection) -> npt.NDArray[np.int64]:
    if column is None:
        return np.empty(0, np.int64)
    micros = event_micros(convert(column, carrier, db).column).drop_null()
    times: npt.NDArray[np.int64] = micros.to_numpy()
    return times[(times >= FIRST_TIME) & (times <= LAST_TIME)]


def _text_tail(
    item: Item, definition: StreamDefinition, carrier: Carrier, db: duckdb.DuckDBPyConnection, rows: int
) -> npt.NDArray[np.int64]:
    """The times in the last bytes of a text file; as many bytes as it takes."""
    check_taken(item)
    span = max(65_536, rows * _ROW_BYTES)
    while True:
        head, tail, all_of_it = _ends(item, span)
        if not all_of_it and item.format == "ndjson" and is_array(head):  # where its items begin, only all of it tells
            span = item.size
            continue
        if item.format == "csv":
            times = csv.texts(head, tail, item.path, definition, carrier)
        else:
            times = ndjson.texts(tail, carrier, db, rows)
        if all_of_it or (times is not None and len(times) >= rows):
            return _times(times, carrier, db)[-rows:]
        span *= 4


def _ends(item: Item, span: int) -> tuple[bytes, bytes, bool]:
    """The first and the last bytes of a text file (from the beginning of a line), and whether the last are all."""
    try:
        with open(item.path, "rb") as file:
            head = file.read(min(item.size, 65_536))
            if is_compressed(head) or span >= item.size:
                data = plain_text(head + file.read(item.size - len(head)), item.path)
                return data, data, True
            file.seek(item.size - span, os.SEEK_SET)
            tail = file.read(span)
    except OSError as error:
        raise vanished(item, error) from error
    return plain_text(head, item.path), tail[tail.find(b"\n") + 1 :], False


__all__ = ["REJECTED", "Read", "arrow_schema", "read", "tail_times"]
