"""Rows as users pass them, in whatever form, as columns of Arrow: the same here and on the way to a server."""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.support.errors import SourceError


@dataclass(frozen=True)
class Shape:
    """A column of a stream as rows have it: its name, its DuckDB type as declared, and the Arrow type of its values."""

    name: str
    declared: str
    arrow: pa.DataType


def columns_of(data: Any, stream: str) -> tuple[Mapping[str, Any], int]:
    """The columns of what a user passes by name, as Arrow or as Python values, and their length.

    Args:
        data: a table, record batch or reader of pyarrow, a list of dicts, a dict of columns, or anything that exports
            an Arrow stream (Polars, DuckDB, pandas …).
        stream: the name of the stream that it is for.

    Raises:
        SourceError: it is nothing of that, or names a column twice.

    >>> columns_of([{"a": 1}, {"A": 2}], "s")
    ({'a': [1, 2]}, 2)
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, Mapping):
        return _of_dict(data, stream)
    elif isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        if all(isinstance(row, pa.RecordBatch) for row in data) and data:
            data = pa.concat_tables([pa.Table.from_batches([b]) for b in data], promote_options="permissive")
        else:
            return _of_rows(data, stream)
    if not isinstance(data, pa.Table):
        if not hasattr(data, "__arrow_c_stream__"):
            raise SourceError(
                f"cannot ingest a {type(data).__name__} into stream '{stream}': give a pyarrow table or "
                "record batch, a list of dicts, a dict of columns, or an object that exports an Arrow stream"
            )
        data = pa.table(data)
    names = data.schema.names
    if len({n.lower() for n in names}) < len(names):
        twice = next(n for i, n in enumerate(names) if n.lower() in [m.lower() for m in names[:i]])
        raise SourceError(f"column '{twice}' is given twice (names are case-insensitive)")
    return dict(zip(names, data.columns, strict=True)), len(data)


def _of_dict(data: Mapping[Any, Any], stream: str) -> tuple[Mapping[str, Any], int]:
    columns: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for name, values in data.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise SourceError(
                f"column '{name}' of the data for stream '{stream}' is a {type(values).__name__}, not a list "
                "of values; a single row is [{…}]"
            )
        columns[str(name)] = values if isinstance(values, (pa.Array, pa.ChunkedArray, np.ndarray)) else list(values)
        lengths[str(name)] = len(values)
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{n}: {count}" for n, count in lengths.items())
        raise SourceError(f"the columns have different lengths ({told})")
    return columns, next(iter(lengths.values()), 0)


def _of_rows(data: Sequence[Any], stream: str) -> tuple[Mapping[str, Any], int]:
    keys: dict[Any, None] = {}
    for number, row in enumerate(data):
        if not isinstance(row, Mapping):
            raise SourceError(
                f"row {number} for stream '{stream}' is a {type(row).__name__}, not a dict of column names"
            )
        keys.update(dict.fromkeys(row))
    spelled: dict[str, list[Any]] = {}
    for key in keys:
        spelled.setdefault(str(key).lower(), []).append(key)
    columns: dict[str, Any] = {}
    for same in spelled.values():
        if len(same) > 1 and any(sum(key in row for key in same) > 1 for row in data):
            raise SourceError(f"column '{same[1]}' is given twice (names are case-insensitive)")
        first, *others = same
        columns[str(first)] = [row.get(next((k for k in others if k in row), first)) for row in data]
    return columns, len(data)


def array_of(values: Any, column: Shape, stream: str) -> pa.ChunkedArray:
    """Python values as Arrow: by their own type, else by the column's.

    Raises:
        SourceError: a value that is of neither.

    >>> array_of([1, "2"], Shape("a", "INTEGER", pa.int32()), "s").to_pylist()
    ['1', '2']
    """
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if _says_more(column) and any(isinstance(v, (Mapping, list, tuple)) for v in values):
        with contextlib.suppress(pa.ArrowException, OverflowError, ValueError, TypeError):
            return _as_declared(values, column, stream)
    try:
        return _chunked(pa.array(values))
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        pass
    try:
        return _chunked(pa.array(values, column.arrow))
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        pass
    if all(v is None or isinstance(v, (str, int, float)) for v in values):  # numbers and text mixed
        with contextlib.suppress(UnicodeEncodeError):  # half a surrogate pair, say
            return _chunked(pa.array([v if v is None or isinstance(v, str) else str(v) for v in values], pa.string()))
        column = dataclasses.replace(column, arrow=pa.string())
    for row, value in enumerate(values):
        try:
            pa.array([value], column.arrow)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise misfit(value, type(value).__name__, row, column, stream) from error
    raise SourceError(f"the values of column '{column.name}' do not fit {column.declared}")


def _says_more(column: Shape) -> bool:
    """Whether a declared type says what dicts are: keys of each value's own (MAP), or a text (JSON)."""
    return "JSON" in column.declared or "MAP(" in column.declared


def _as_declared(values: Any, column: Shape, stream: str) -> pa.ChunkedArray:
    """Values with dicts for MAP and JSON. Raises: what Arrow raises where they are of another type."""
    json_texts = "JSON" in column.declared
    if not pa.types.is_map(column.arrow):
        return _chunked(pa.array([_written(v, column.arrow, json_texts) for v in values], column.arrow))
    rows = [None if v is None else _pairs(v) for v in values]
    keys = array_of([k for row in rows for k, _ in row or ()], _part(column, column.arrow.key_type), stream)
    items = array_of([v for row in rows for _, v in row or ()], _part(column, column.arrow.item_type), stream)
    ends = np.cumsum([0, *(len(row or ()) for row in rows)], dtype=np.int32)
    offsets = pa.array(ends, pa.int32(), mask=np.array([*(row is None for row in rows), False]))
    return _chunked(pa.MapArray.from_arrays(offsets, keys.combine_chunks(), items.combine_chunks()))


def _part(column: Shape, kind: pa.DataType) -> Shape:
    return Shape(column.name, column.declared if pa.types.is_nested(kind) else "", kind)


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else [(key, item) for key, item in value]


def _written(value: Any, kind: pa.DataType, json_texts: bool) -> Any:
    """A value as Arrow takes it for a type, which it does not for dicts that are maps or JSON."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _written(item, kind.item_type, json_texts)) for key, item in _pairs(value)]
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        fields = {field.name: field.type for field in kind}
        if not value.keys() <= fields.keys():
            raise ValueError("it has other fields")
        return {name: _written(item, fields[name], json_texts) for name, item in value.items()}
    if pa.types.is_nested(kind) and isinstance(value, (list, tuple)):
        return [_written(item, kind.value_type, json_texts) for item in value]
    if json_texts and pa.types.is_string(kind) and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_of_json)
    return value


def _of_json(value: Any) -> Any:
    """What JSON has for a value that it has no form of its own for."""
    return float(value) if isinstance(value, decimal.Decimal) else str(value)


def _chunked(array: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def misfit(value: Any, kind: str, row: int, column: Shape, stream: str) -> SourceError:
    """The error of a value that does not fit its column. kind: what it is."""
    shown = repr(value)[:100]
    return SourceError(
        f"row {row}, column '{column.name}' of stream '{stream}': {shown} (a {kind}) does not fit {column.declared}"
    )
