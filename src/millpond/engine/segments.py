"""Archive segments: writing a split's rows as a Parquet file, and reading rows of a time range back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.progress import NEVER
from millpond.sources.read import arrow_schema
from millpond.synopses import connection
from millpond.tables import Segment, write_durably
from millpond.tables.storage import from_storage, storage_schema, to_storage
from millpond.types import StreamDefinition

#: Columns that every archive has behind the stream's own: row id (intake ordinal and row in the item, so that
#: (event time, _id) is the stream's total order), the epoch that took the row in, and, for a row that was late, the
#: progress that it was behind.
HIDDEN = (("_id", pa.int64()), ("_epoch", pa.int64()), ("_bound", pa.int64()))

#: Rows of a row group, where rows lie in order.
GROUP_ROWS = 131_072

#: Dead letters: why, where from, which row of it, the record, and the epoch that met it.
DEAD = pa.schema(
    [
        ("reason", pa.string()),
        ("source", pa.string()),
        ("position", pa.int64()),
        ("record", pa.string()),
        ("epoch", pa.int64()),
    ]
)


def row_schema(definition: StreamDefinition) -> pa.Schema:
    """Arrow schema of a stream's rows in the engine: its columns and the hidden ones."""
    schema: pa.Schema = arrow_schema(definition, connection())
    for name, kind in HIDDEN:
        schema = schema.append(pa.field(name, kind))
    return schema


def archive_folder(pond: str, stream: StreamDefinition) -> str:
    """The folder of a stream's archive table."""
    return os.path.join(pond, "streams", f"{stream.name.lower()}-{stream.id}")


def dead_folder(pond: str, stream: StreamDefinition) -> str:
    """The folder of a stream's dead-letter table."""
    return os.path.join(pond, "dead", f"{stream.name.lower()}-{stream.id}")


def times_of(table: pa.Table, time: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Event times as microseconds."""
    instants = table[time].cast(pa.timestamp("us", table[time].type.tz))
    return np.asarray(instants.cast(pa.int64()).to_numpy(), np.int64)


def write_rows(
    folder: str,
    name: str,
    rows: pa.Table,
    time: str | None,
    first_epoch: int,
    last_epoch: int,
    level: int = 0,
    blocks: Sequence[int] = (),
) -> Segment:
    """Write rows as one file of a table, durably. Returns the segment to commit.

    Arguments:
        blocks: how many rows each row group gets, of a run (`millpond.archive.layout`); empty: rows lie as they are.
    """
    stored = to_storage(rows)
    texts = [f.name for f in stored.schema if pa.types.is_string(f.type) or f.name in ("_epoch", "_bound", "epoch")]
    deltas = {f.name: "DELTA_BINARY_PACKED" for f in stored.schema if f.name == "_id" or f.name == time}

    def write(file: BinaryIO) -> None:
        with pq.ParquetWriter(
            file,
            stored.schema,
            compression="lz4",
            use_dictionary=texts,
            column_encoding=deltas or None,
            write_statistics=[time] if time else True,
        ) as writer:
            if not blocks:
                writer.write_table(stored, GROUP_ROWS)
            at = 0
            for count in blocks:
                writer.write_table(stored.slice(at, count), max(count, 1))
                at += count

    size = write_durably(os.path.join(folder, name), write)
    low = high = NEVER
    if time is not None and rows.num_rows:
        bounds = pc.min_max(rows[time].cast(pa.timestamp("us", rows[time].type.tz)).cast(pa.int64()))
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return Segment(name, rows.num_rows, size, low, high, first_epoch, last_epoch, level, blocks=len(blocks))


def read_rows(
    paths: Sequence[str],
    schema: pa.Schema,
    columns: Iterable[str] | None = None,
    time: str | None = None,
    low: int | None = None,
    high: int | None = None,
) -> pa.Table:
    """Rows of archive files, restricted to event times low <= t < high (microseconds) and to `columns`.

    Row groups outside the range are not read.
    """
    wanted = schema if columns is None else pa.schema([f for f in schema if f.name in set(columns)])
    stored = storage_schema(wanted)
    bounds = []
    if time is not None and low is not None:
        bounds.append((time, ">=", _instant(low)))
    if time is not None and high is not None:
        bounds.append((time, "<", _instant(high)))
    tables = [from_storage(_stored_rows(p, stored.names, bounds), wanted) for p in paths]
    return pa.concat_tables(tables) if tables else wanted.empty_table()


def _stored_rows(path: str, names: Sequence[str], bounds: list[tuple[str, str, pa.Scalar]]) -> pa.Table:
    """Columns of a file, of those that it has: the stream may have got others since it was written."""
    read = partial(pq.read_table, path, filters=bounds or None, partitioning=None, use_threads=False)
    try:
        return read(columns=names)
    except pa.ArrowInvalid:
        there = set(pq.read_schema(path).names)
        if there.issuperset(names):
            raise
        return read(columns=[n for n in names if n in there])


def _instant(micros: int) -> pa.Scalar:
    return pa.scalar(max(-(2**62), min(2**62, micros)), pa.int64()).cast(pa.timestamp("us", "UTC"))
