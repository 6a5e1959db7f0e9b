"""Many Arrow tables of different schemas in one Parquet file: state and results of all queries of a shard.

A file has one row per chunk: what it belongs to, its range of event time, and the table as an Arrow IPC stream. One
file per shard and epoch keeps the number of files independent of the number of queries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.tables.durable_files import write_durably
from millpond.tables.segments import Segment
from millpond.tables.stored_files import open_parquet, seal_parquet
from millpond.tables.writes import DurableWrites

SCHEMA = pa.schema(
    [
        ("owner", pa.string()),
        ("kind", pa.string()),
        ("epoch", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("rows", pa.int64()),
        ("payload", pa.binary()),
    ]
)
_HEAD = ["owner", "kind", "epoch", "low", "high", "rows"]
_LARGEST = 256 << 20

#: Rows that are looked at to see whether a column has runs; shorter tables are stored as they are.
_FEW = 1024

#: Under which a schema's metadata tells the names of all columns, and which stored column each of them is.
_COPIES = b"millpond.copies"

#: A packed table, as Arrow made it or as it came through Spark.
Payload: TypeAlias = pa.Buffer | bytes

Column = TypeVar("Column", pa.Array, pa.ChunkedArray)


@dataclass(frozen=True)
class Chunk:
    """A table with its owner (a synopsis or query), kind, epoch and range of event time in microseconds."""

    owner: str
    kind: str
    epoch: int
    low: int
    high: int
    table: pa.Table


def pack(table: pa.Table) -> pa.Buffer:
    """The table as an Arrow IPC stream, shortened where that is cheap.

    A column in which values come in long runs is stored as runs, and one that equals another before it not at all.
    """
    kept: list[tuple[pa.Field, pa.ChunkedArray]] = []
    #: For each column of the table, which of those kept it is.
    places: list[int] = []
    for field, column in zip(table.schema, table.columns, strict=True):
        settled = _settled(column)
        same = (i for i, (_, c) in enumerate(kept) if _is_exact(c.type) and c.equals(settled))
        place = len(kept) if len(settled) < _FEW else next(same, len(kept))
        if place == len(kept):
            kept.append((field, settled))
        places.append(place)
    columns = [_shortened(column) for _, column in kept]
    fields = [f if c.type == f.type else f.with_type(c.type) for (f, _), c in zip(kept, columns, strict=True)]
    metadata = dict(table.schema.metadata or {})
    if len(kept) < len(places):
        metadata[_COPIES] = json.dumps([table.column_names, places]).encode()
    stored = pa.table(columns, schema=pa.schema(fields, metadata or None))
    measure = pa.MockOutputStream()
    _write_stream(measure, stored)
    # In a buffer that grows, every byte of a large table would be moved and its pages touched several times.
    buffer = pa.allocate_buffer(measure.size())
    _write_stream(pa.FixedSizeBufferWriter(buffer), stored)
    return buffer


def _is_exact(kind: pa.DataType) -> bool:
    """Types of values that are equal only when their bytes are."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_string(kind))


def _shortened(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as runs of equal values where they are a quarter of its rows at most, judged by its first rows."""
    kind = column.type
    if len(column) < _FEW or not _is_exact(kind):
        return column
    if _runs(pc.run_end_encode(column.slice(0, _FEW))) > _FEW // 4:
        return column
    runs = pc.run_end_encode(column)
    if _runs(runs) > len(column) // 4:
        return column
    # Arrow leaves whatever it finds under the NULLs of the values of runs.
    return pa.chunked_array(
        [pa.RunEndEncodedArray.from_arrays(c.run_ends, _take_all(c.values)) for c in runs.chunks], runs.type
    )


def _runs(column: pa.ChunkedArray) -> int:
    return sum(len(chunk.run_ends) for chunk in column.chunks)


def _write_stream(sink: pa.NativeFile, table: pa.Table) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _settled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with nothing left under its NULLs: what lies there differs from run to run, and files must not."""
    if not column.null_count and not pa.types.is_nested(column.type):
        return column
    return _take_all(column)


def _take_all(values: Column) -> Column:
    return values.take(pa.array(np.arange(len(values))))


def binary(payload: Payload) -> pa.Array:
    """One binary value as an array, without copying it."""
    buffer = pa.py_buffer(payload)
    offsets = pa.py_buffer(np.array([0, buffer.size], np.int32).tobytes())
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, buffer])


def unpack(data: Payload) -> pa.Table:
    """The table that `pack` packed."""
    table = pa.ipc.open_stream(data).read_all()
    for at, field in enumerate(table.schema):
        if pa.types.is_run_end_encoded(field.type):
            column = pc.run_end_decode(table.column(at))
            table = table.set_column(at, field.with_type(column.type), column)
    metadata = dict(table.schema.metadata or {})
    if _COPIES not in metadata:
        return table
    names, places = json.loads(metadata.pop(_COPIES))
    fields = [table.schema.field(place).with_name(name) for name, place in zip(names, places, strict=True)]
    return pa.table([table.column(place) for place in places], schema=pa.schema(fields, metadata or None))


def write_chunks(
    folder: str,
    name: str,
    chunks: Iterable[Chunk],
    shard: int,
    level: int = 0,
    epoch: int | None = None,
    writes: DurableWrites | None = None,
) -> Segment:
    """Write a chunk file, durably before its commit names it; tables beyond 256 MB are cut.

    Arguments:
        writes: what the file is written with; whoever gives it finishes it. None: the file is in place on return.
    Returns: the segment to commit.
    """
    rows: list[tuple[Chunk, pa.Buffer]] = []
    for chunk in chunks:
        step = chunk.table.num_rows
        if chunk.table.nbytes > _LARGEST:
            step = max(1, int(chunk.table.num_rows * _LARGEST / chunk.table.nbytes))
        for at in range(0, max(chunk.table.num_rows, 1), max(step, 1)):
            piece = chunk.table.slice(at, step)
            rows.append((Chunk(chunk.owner, chunk.kind, chunk.epoch, chunk.low, chunk.high, piece), pack(piece)))

    path = os.path.join(folder, name)

    def write(file: pa.NativeFile) -> None:
        with pq.ParquetWriter(
            file,
            SCHEMA,
            compression="lz4",
            use_dictionary=["owner", "kind"],
            write_statistics=_HEAD,
            write_page_checksum=True,
        ) as writer:
            for one, payload in rows:
                values = [one.owner, one.kind, one.epoch, one.low, one.high, one.table.num_rows]
                arrays = [pa.array([v], SCHEMA.field(i).type) for i, v in enumerate(values)]
                writer.write_batch(pa.record_batch([*arrays, binary(payload)], schema=SCHEMA))
        seal_parquet(file, path)

    size = (write_durably if writes is None else writes.write)(path, write)
    epochs = [c.epoch for c, _ in rows] or [epoch or 0]
    return Segment(
        name,
        len(rows),
        size,
        min((c.low for c, _ in rows), default=0),
        max((c.high for c, _ in rows), default=0),
        min(epochs),
        max(epochs) if epoch is None else max(epoch, *epochs),
        level,
        shard,
    )


def read_chunks(
    paths: Sequence[str],
    owners: set[str] | None = None,
    wanted: Callable[[str, str, int, int, int], bool] | None = None,
) -> Iterator[Chunk]:
    """The chunks in the files at `paths`, in file order; payloads of others are not read.

    Arguments:
        owners: whose chunks; None: everybody's.
        wanted: (owner, kind, epoch, low, high) -> whether to read the chunk.
    """
    for path in paths:
        with open_parquet(path) as file:
            head = file.read(columns=_HEAD).to_pylist()
            at = 0
            for index in range(file.metadata.num_row_groups):
                count = file.metadata.row_group(index).num_rows
                group = [h if _is_wanted(h, owners, wanted) else None for h in head[at : at + count]]
                at += count
                if not any(group):
                    continue
                payloads = file.read_row_group(index, ["payload"])["payload"]
                for i, h in enumerate(group):
                    if h is not None:
                        table = unpack(payloads[i].as_buffer())
                        yield Chunk(h["owner"], h["kind"], h["epoch"], h["low"], h["high"], table)


def read_heads(path: str, owner: str) -> Iterator[tuple[str, int, int]]:
    """(kind, epoch, rows) of the chunks of an owner in a file; no payload is read."""
    with open_parquet(path) as file:
        head = file.read(columns=["owner", "kind", "epoch", "rows"])
    for each in head.filter(pc.equal(head["owner"], owner)).to_pylist():
        yield each["kind"], each["epoch"], each["rows"]


def chunk_sizes(path: str) -> Iterator[tuple[str, int, int]]:
    """(owner, rows, bytes) of the chunks in a file; no payload is read."""
    with open_parquet(path) as file:
        head = file.read(columns=["owner", "rows"])
        groups, payload = file.metadata, SCHEMA.get_field_index("payload")
        sizes = [groups.row_group(i).column(payload).total_compressed_size for i in range(groups.num_row_groups)]
    # A chunk is a row group of its own, as `write_chunks` writes them.
    yield from zip(head["owner"].to_pylist(), head["rows"].to_pylist(), sizes, strict=True)


def _is_wanted(
    head: dict[str, Any], owners: set[str] | None, wanted: Callable[[str, str, int, int, int], bool] | None
) -> bool:
    if owners is not None and head["owner"] not in owners:
        return False
    return wanted is None or wanted(head["owner"], head["kind"], head["epoch"], head["low"], head["high"])
