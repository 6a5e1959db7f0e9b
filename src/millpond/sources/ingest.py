"""What a user ingests, in whatever form, into the stream's canonical schema; or an error: what does not fit."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millpond.sources.formats.carriers import Carrier, carriers, scratch
from millpond.sources.formats.convert import Converted, convert
from millpond.sources.formats.shape import value_texts
from millpond.support.errors import SourceError
from millpond.types import ARRIVAL, StreamDefinition


def to_table(data: Any, definition: StreamDefinition, db: duckdb.DuckDBPyConnection | None = None) -> pa.Table:
    """User data as a table in the stream's canonical schema.

    Arguments:
        data: a table, record batch or reader of pyarrow, a list of dicts, a dict of columns, or anything that exports
            an Arrow stream (Polars, DuckDB, pandas …).
        definition: the stream.
        db: a DuckDB connection (UTC); None: a private one.

    Returns:
        All columns of the stream, in order; missing ones NULL. NULL event times pass: they become dead letters when
        the rows are read. `arrival_ts` of a stream on arrival time is NULL here, too, and filled at that time.

    Raises:
        SourceError: a column that the stream does not have, or a value that does not fit its column.

    Example:
        >>> from millpond.types import Column
        >>> stream = StreamDefinition("s", (Column("a", "INTEGER"), Column("b", "VARCHAR")))
        >>> to_table([{"a": 1}, {"B": "x"}], stream).to_pylist()[1]
        {'a': None, 'b': 'x', 'arrival_ts': None}
    """
    connection = db or scratch()
    columns, length = _columns(data, definition)
    known = {c.name.lower(): c for c in carriers(definition)}
    matched: dict[str, Any] = {}
    for name, values in columns.items():
        carrier = known.get(name.lower())
        if carrier is None:
            raise unknown_column(name, definition)
        if carrier.name.lower() in matched:
            raise SourceError(f"column '{name}' is given twice (names are case-insensitive)")
        matched[carrier.name.lower()] = values
    arrays = []
    for name, carrier in known.items():
        if name not in matched or (definition.options.time == ARRIVAL and name == ARRIVAL):
            arrays.append(pa.chunked_array([pa.nulls(length, carrier.arrow)]))
        else:
            arrays.append(_fit(matched[name], carrier, definition, connection))
    return pa.Table.from_arrays(arrays, names=[c.name for c in known.values()])


def _columns(data: Any, definition: StreamDefinition) -> tuple[Mapping[str, Any], int]:
    """The data's columns by name, as Arrow or as Python values, and their length."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, Mapping):
        return _of_dict(data, definition)
    elif isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        if all(isinstance(row, pa.RecordBatch) for row in data) and data:
            data = pa.concat_tables([pa.Table.from_batches([b]) for b in data], promote_options="permissive")
        else:
            return _of_rows(data, definition)
    if not isinstance(data, pa.Table):
        if not hasattr(data, "__arrow_c_stream__"):
            raise SourceError(
                f"cannot ingest a {type(data).__name__} into stream '{definition.name}': give a pyarrow table or "
                "record batch, a list of dicts, a dict of columns, or an object that exports an Arrow stream"
            )
        data = pa.table(data)
    names = data.schema.names
    if len({n.lower() for n in names}) < len(names):
        twice = next(n for i, n in enumerate(names) if n.lower() in [m.lower() for m in names[:i]])
        raise SourceError(f"column '{twice}' is given twice (names are case-insensitive)")
    return dict(zip(names, data.columns, strict=True)), len(data)


def _of_dict(data: Mapping[Any, Any], definition: StreamDefinition) -> tuple[Mapping[str, Any], int]:
    columns: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for name, values in data.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise SourceError(
                f"column '{name}' of the data for stream '{definition.name}' is a {type(values).__name__}, not a list "
                "of values; a single row is [{…}]"
            )
        columns[str(name)] = values if isinstance(values, (pa.Array, pa.ChunkedArray, np.ndarray)) else list(values)
        lengths[str(name)] = len(values)
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{n}: {count}" for n, count in lengths.items())
        raise SourceError(f"the columns have different lengths ({told})")
    return columns, next(iter(lengths.values()), 0)


def _of_rows(data: Sequence[Any], definition: StreamDefinition) -> tuple[Mapping[str, Any], int]:
    keys: dict[Any, None] = {}
    for number, row in enumerate(data):
        if not isinstance(row, Mapping):
            raise SourceError(
                f"row {number} for stream '{definition.name}' is a {type(row).__name__}, not a dict of column names"
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


def _fit(values: Any, carrier: Carrier, definition: StreamDefinition, db: duckdb.DuckDBPyConnection) -> pa.ChunkedArray:
    column = values if isinstance(values, pa.ChunkedArray) else _array(values, carrier, definition)
    converted: Converted = convert(column, carrier, db)
    if converted.unfit is not None:
        row = int(np.flatnonzero(converted.unfit)[0])
        text = value_texts(column.slice(row, 1), db)[0].as_py()
        raise _misfit(text, str(column.type), row, carrier, definition)
    return converted.column


def _array(values: Any, carrier: Carrier, definition: StreamDefinition) -> pa.ChunkedArray:
    """Python values as Arrow: by their own type, else by the stream's."""
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    try:
        return _chunked(pa.array(values))
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        pass
    try:
        return _chunked(pa.array(values, carrier.arrow))
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        pass
    if all(v is None or isinstance(v, (str, int, float)) for v in values):  # numbers and text mixed
        with contextlib.suppress(UnicodeEncodeError):  # half a surrogate pair, say
            return _chunked(pa.array([v if v is None or isinstance(v, str) else str(v) for v in values], pa.string()))
        carrier = dataclasses.replace(carrier, arrow=pa.string())
    for row, value in enumerate(values):
        try:
            pa.array([value], carrier.arrow)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise _misfit(value, type(value).__name__, row, carrier, definition) from error
    raise SourceError(f"the values of column '{carrier.name}' do not fit {carrier.declared}")


def _chunked(array: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _misfit(value: Any, kind: str, row: int, carrier: Carrier, definition: StreamDefinition) -> SourceError:
    shown = repr(value)[:100]
    return SourceError(
        f"row {row}, column '{carrier.name}' of stream '{definition.name}': {shown} (a {kind}) does not fit "
        f"{carrier.declared}"
    )


def unknown_stream(name: str, taken: bool) -> SourceError:
    """The error of a name that rows cannot be ingested into. taken: it is a query's or a table's."""
    what = f"'{name}' is not a stream, and only streams take rows"
    return SourceError(what if taken else f"there is no stream '{name}'; CREATE STREAM {name} (…) makes one")


def unknown_column(name: str, definition: StreamDefinition) -> SourceError:
    """The error of a column that a stream does not have, with the nearest that it has."""
    names = {c.name.lower(): c.name for c in definition.columns}
    near = difflib.get_close_matches(name.lower(), list(names), 1, 0.5)
    hint = f"did you mean '{names[near[0]]}'?" if near else f"it has {', '.join(names.values())}"
    return SourceError(f"stream '{definition.name}' has no column '{name}': {hint}")


__all__ = ["to_table", "unknown_column", "unknown_stream"]
