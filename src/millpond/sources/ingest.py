"""What a user ingests, in whatever form, into the stream's canonical schema; or an error: what does not fit."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millpond.sources.formats.carriers import Carrier, carriers, scratch
from millpond.sources.formats.convert import Converted, convert
from millpond.sources.formats.shape import value_texts
from millpond.support.errors import SourceError
from millpond.support.spelling import nearest
from millpond.types import ARRIVAL, StreamDefinition
from millpond.types.batches import Shape, array_of, columns_of, misfit


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
    columns, length = columns_of(data, definition.name)
    known = {c.name.lower(): c for c in carriers(definition)}
    matched: dict[str, Any] = {}
    for name, values in columns.items():
        carrier = known.get(name.lower())
        if carrier is None:
            raise unknown_column(name, definition)
        if definition.makes(name) and name.lower() != ARRIVAL:
            raise SourceError(f"column '{name}' of stream '{definition.name}' is generated; leave it out")
        if carrier.name.lower() in matched:
            raise SourceError(f"column '{name}' is given twice (names are case-insensitive)")
        matched[carrier.name.lower()] = values
    arrays = []
    for name, carrier in known.items():
        if name not in matched or definition.makes(name):
            arrays.append(pa.chunked_array([pa.nulls(length, carrier.arrow)]))
        else:
            arrays.append(_fit(matched[name], carrier, definition, connection))
    return pa.Table.from_arrays(arrays, names=[c.name for c in known.values()])


def _fit(values: Any, carrier: Carrier, definition: StreamDefinition, db: duckdb.DuckDBPyConnection) -> pa.ChunkedArray:
    shape = Shape(carrier.name, carrier.declared, carrier.arrow)
    column = values if isinstance(values, pa.ChunkedArray) else array_of(values, shape, definition.name)
    converted: Converted = convert(column, carrier, db)
    if converted.unfit is not None:
        row = int(np.flatnonzero(converted.unfit)[0])
        text = value_texts(column.slice(row, 1), db)[0].as_py()
        raise misfit(text, str(column.type), row, shape, definition.name)
    return converted.column


def unknown_stream(name: str, taken: bool) -> SourceError:
    """The error of a name that rows cannot be ingested into. taken: it is a query's or a table's."""
    what = f"'{name}' is not a stream, and only streams take rows"
    return SourceError(what if taken else f"there is no stream '{name}'; CREATE STREAM {name} (…) makes one")


def unknown_column(name: str, definition: StreamDefinition) -> SourceError:
    """The error of a column that a stream does not have, with the nearest that it has."""
    names = {c.name.lower(): c.name for c in definition.columns}
    near = nearest(name, names.values())
    hint = f"did you mean '{near}'?" if near else f"it has {', '.join(names.values())}"
    return SourceError(f"stream '{definition.name}' has no column '{name}': {hint}")


__all__ = ["to_table", "unknown_column", "unknown_stream"]
