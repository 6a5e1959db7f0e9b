"""How columns lie in Delta tables: types that Delta lacks are widened on the way in and narrowed on the way out.

Timestamps are stored as UTC instants, so that every Delta reader opens an archive whatever features it knows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


def storage_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type that a column of type `kind` is stored as.

    >>> storage_type(pa.timestamp("us")), storage_type(pa.uint32())
    (TimestampType(timestamp[us, tz=UTC]), DataType(int64))
    """
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_time(kind):
        return pa.int64()
    if pa.types.is_dictionary(kind):
        return storage_type(kind.value_type)
    if pa.types.is_interval(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, storage_type(f.type)) for f in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", storage_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(storage_type(kind.key_type), storage_type(kind.item_type))
    if pa.types.is_null(kind):
        return pa.string()
    return kind


def storage_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of stored files for rows of `schema`."""
    return pa.schema([pa.field(f.name, storage_type(f.type)) for f in schema])


def to_storage(table: pa.Table) -> pa.Table:
    """The table as it is stored."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        target = storage_type(field.type)
        if pa.types.is_interval(field.type):
            column = _interval_bytes(column)
        elif pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type).cast(target)
        elif column.type != target:
            column = column.cast(target)
        columns.append(column)
    return pa.table(columns, schema=storage_schema(table.schema))


def from_storage(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Stored rows as rows of `schema`; columns that the file does not have are NULL."""
    columns = []
    # A look-up by name in Arrow costs as much as there are columns.
    stored = dict(zip(table.column_names, table.columns, strict=True))
    for field in schema:
        column = stored.get(field.name)
        if column is None:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        if pa.types.is_interval(field.type):
            column = _bytes_interval(column)
        elif pa.types.is_time(field.type):
            column = column.cast(pa.int64()).cast(field.type)
        elif column.type != field.type:
            column = column.cast(field.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


def _interval_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    view = pa.Array.from_buffers(pa.binary(16), len(array), array.buffers(), array.null_count, array.offset)
    return pa.chunked_array([view.cast(pa.binary())])


def _bytes_interval(column: pa.ChunkedArray) -> pa.ChunkedArray:
    array = column.cast(pa.binary(16)).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.binary(16))
    kind = pa.month_day_nano_interval()
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    data = array.buffers()[1].slice(array.offset * 16, len(array) * 16)
    return pa.chunked_array([pa.Array.from_buffers(kind, len(array), [bits, data])])
