"""Values of join factors, one for each row."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from millpond.synopses import connection, query_ordered
from millpond.synopses.blocks import KINDS
from millpond.synopses.partials.specs import as_declared, casts_of
from millpond.types import Expression, StreamDefinition


def key_values(stream: StreamDefinition, rows: pa.Table, value: Expression, kind: str) -> pa.Array:
    """One side of a join factor for each row: BIGINT, DOUBLE or VARCHAR; NULL where the expression fails.

    Arguments:
        value: over the stream's columns. kind: as of `types.JoinFactor`.
    """
    names = [n for n in rows.column_names if n in value.columns]
    if value.column is not None:
        column = rows[value.column]
        wanted = {"integer": pa.int64(), "float": pa.float64(), "text": pa.string()}[kind]
        if column.type == wanted or (kind == "integer" and pa.types.is_signed_integer(column.type)):
            return _single(column.cast(wanted))
    table = rows.select([*names, "_id"])
    source = as_declared("side", casts_of(stream), names)
    cast = f"({value})::{KINDS[kind]}"
    try:
        found = query_ordered(connection(), f"SELECT {cast} AS v FROM {source}", side=table)
    except duckdb.Error:
        found = query_ordered(connection(), f"SELECT TRY({cast}) AS v FROM {source}", side=table)
    return _single(found["v"])


def _single(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else (pa.array([], column.type))
    )
