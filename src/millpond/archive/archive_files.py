"""Archive segments: writing a split's rows as a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.progress import NEVER
from millpond.sources.formats.read import arrow_schema
from millpond.synopses import connection
from millpond.tables import DurableWrites, Segment
from millpond.tables.locations import know
from millpond.tables.storage_types import to_storage
from millpond.tables.stored_files import seal_parquet
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


def archive_home(pond: str, stream: StreamDefinition) -> str:
    """Below which place a stream's archive and its copies lie: the pond's folder, or one in an object store."""
    return pond if stream.options.archive_at is None else know(stream.options.archive_at, pond)


def archive_folder(pond: str, stream: StreamDefinition) -> str:
    """The folder of a stream's archive table."""
    return os.path.join(archive_home(pond, stream), "streams", stream.folder)


def dead_folder(pond: str, stream: StreamDefinition) -> str:
    """The folder of a stream's dead-letter table."""
    return os.path.join(pond, "dead", stream.folder)


def write_rows(
    folder: str,
    name: str,
    rows: pa.Table,
    time: str | None,
    epochs: tuple[int, int],
    level: int = 0,
    blocks: Sequence[int] = (),
    writes: DurableWrites | None = None,
) -> Segment:
    """Write rows as one file of a table, durably.

    Arguments:
        time, epochs, level: see `RowsWriter`.
        blocks: how many rows each row group gets, of a run (`archive.design.layout`); empty: rows lie as they are.
        writes: see `RowsWriter`; None: the file is in place on return.
    Returns: the segment to commit.
    """
    own = writes or DurableWrites()
    writer = RowsWriter(own, folder, name, time, epochs, level)
    writer.add(rows, blocks)
    segment = writer.close()
    if writes is None:
        own.finish()
    return segment


class RowsWriter:
    """Writes rows as one file of a table, piece by piece.

    Arguments:
        writes: what the file is written with; whoever gives it finishes it.
        time: the column with event time; None: there is none.
        epochs: the first and the last epoch whose rows these are. level: how often they were merged.
    """

    def __init__(
        self, writes: DurableWrites, folder: str, name: str, time: str | None, epochs: tuple[int, int], level: int = 0
    ) -> None:
        self._writes, self._name, self._time, self._epochs, self._level = writes, name, time, epochs, level
        self._path = os.path.join(folder, name)
        self._file: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._edges: list[int] = []
        self._blocks = 0

    def add(self, rows: pa.Table, blocks: Sequence[int] = ()) -> None:
        """Append rows; `blocks`: see `write_rows`."""
        stored = to_storage(rows)
        if self._writer is None:
            self._file = self._writes.open(self._path)
            self._writer = _writer(self._file, stored.schema, self._time)
        if not blocks:
            self._writer.write_table(stored, GROUP_ROWS)
        at = 0
        for count in blocks:
            self._writer.write_table(stored.slice(at, count), max(count, 1))
            at += count
        self._blocks += len(blocks)
        self._rows += rows.num_rows
        if self._time is not None and rows.num_rows:
            bounds = pc.min_max(rows[self._time].cast(pa.timestamp("us", rows[self._time].type.tz)).cast(pa.int64()))
            self._edges += [bounds["min"].as_py(), bounds["max"].as_py()]

    def close(self) -> Segment:
        """The file is whole; the segment to commit once `writes` is finished. At least one `add` came before."""
        assert self._writer is not None and self._file is not None
        self._writer.close()
        seal_parquet(self._file, self._path)
        size = self._writes.close(self._path, self._file)
        low, high = min(self._edges, default=NEVER), max(self._edges, default=NEVER)
        return Segment(self._name, self._rows, size, low, high, *self._epochs, self._level, blocks=self._blocks)


def _writer(file: pa.NativeFile, schema: pa.Schema, time: str | None) -> pq.ParquetWriter:
    texts = [f.name for f in schema if pa.types.is_string(f.type) or f.name in ("_epoch", "_bound", "epoch")]
    # Differences of integers and of times take less room than the numbers themselves, and less time to write.
    deltas = {f.name: "DELTA_BINARY_PACKED" for f in schema if _has_differences(f.type) and f.name not in texts}
    return pq.ParquetWriter(
        file,
        schema,
        compression="lz4",
        use_dictionary=texts,
        column_encoding=deltas or None,
        write_statistics=[time] if time else True,
        write_page_checksum=True,
    )


def _has_differences(kind: pa.DataType) -> bool:
    """Whether Parquet holds values of a type as 32-bit or 64-bit integers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))
