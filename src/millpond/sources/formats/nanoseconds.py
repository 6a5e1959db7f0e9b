"""Nanoseconds as microseconds: the microsecond that they lie in, before 1970 as after it, also inside nested values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def floored(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """The column with microseconds for nanoseconds wherever its target has microseconds.

    Arrow cuts toward 1970, and DuckDB rounds what is nested.

    Args:
        column: of any type. target: the type that it is to be brought to; where it is built in another way, the column
            stays as it is.

    Example:
        >>> column = pa.chunked_array([pa.array([-1], pa.timestamp("ns"))])
        >>> floored(column, pa.timestamp("us")).cast(pa.int64()).to_pylist()
        [-1]
    """
    kind = _kind(column.type, target)
    if kind == column.type:
        return column
    return pa.chunked_array([_brought(chunk, kind) for chunk in column.chunks], kind)


def _kind(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    """The type of a column with microseconds where `target` has them."""
    kinds = pa.types
    if kinds.is_timestamp(source) and source.unit == "ns":
        return pa.timestamp("us", source.tz) if kinds.is_timestamp(target) and target.unit == "us" else source
    if kinds.is_time64(source) and source.unit == "ns":
        return pa.time64("us") if kinds.is_time64(target) and target.unit == "us" else source
    if kinds.is_map(source):
        if not kinds.is_map(target):
            return source
        return pa.map_(_kind(source.key_type, target.key_type), _kind(source.item_type, target.item_type))
    if kinds.is_struct(source):
        if not kinds.is_struct(target):
            return source
        wanted = {field.name.lower(): field.type for field in target}
        return pa.struct([f.with_type(_kind(f.type, wanted.get(f.name.lower(), f.type))) for f in source])
    if _is_list(source) and _is_list(target):
        item = _kind(source.value_type, target.value_type)
        return source if item == source.value_type else _list_of(source, source.value_field.with_type(item))
    return source


def _is_list(kind: pa.DataType) -> bool:
    kinds = pa.types
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _list_of(source: pa.DataType, item: pa.Field) -> pa.DataType:
    """The type of a list as `source` of other items."""
    if pa.types.is_fixed_size_list(source):
        return pa.list_(item, source.list_size)
    return pa.large_list(item) if pa.types.is_large_list(source) else pa.list_(item)


def _brought(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array with the type that `_kind` says."""
    if array.type == kind:
        return array
    kinds = pa.types
    if kinds.is_timestamp(kind) or kinds.is_time(kind):
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy() // 1000
        return pa.array(numbers, pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False)).cast(kind)
    nulls = array.is_null()
    if kinds.is_struct(kind):
        fields = [_brought(array.field(n), kind.field(n).type) for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=nulls)
    if kinds.is_fixed_size_list(kind):
        size = kind.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        return pa.FixedSizeListArray.from_arrays(_brought(items, kind.value_type), type=kind, mask=nulls)
    width = np.int64 if kinds.is_large_list(kind) else np.int32
    offsets = pa.array(np.asarray(array.offsets.to_numpy(), width))
    if kinds.is_map(kind):
        keys, items = _brought(array.keys, kind.key_type), _brought(array.items, kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=nulls)
    values = _brought(array.values, kind.value_type)
    maker = pa.LargeListArray if kinds.is_large_list(kind) else pa.ListArray
    return maker.from_arrays(offsets, values, type=kind, mask=nulls)
