"""Values of join factors as numbers that compare as DuckDB compares the values."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.answers.row_queries.pairing import Ints
from millpond.synopses import connection, query_ordered
from millpond.synopses.blocks import KINDS
from millpond.synopses.partials.specs import as_declared, casts_of
from millpond.types import StreamDefinition


def key_values(stream: StreamDefinition, rows: pa.Table, expression: str, kind: str) -> pa.Array:
    """One side of a join factor for each row: BIGINT, DOUBLE or VARCHAR; NULL where the expression fails.

    Arguments:
        expression: DuckDB SQL over the stream's quoted columns. kind: as of `types.JoinFactor`.
    """
    names = [n for n in rows.column_names if '"' + n.replace('"', '""') + '"' in expression]
    if len(names) == 1 and expression == '"' + names[0].replace('"', '""') + '"':
        column = rows[names[0]]
        wanted = {"integer": pa.int64(), "float": pa.float64(), "text": pa.string()}[kind]
        if column.type == wanted or (kind == "integer" and pa.types.is_signed_integer(column.type)):
            return _single(column.cast(wanted))
    table = rows.select([*names, "_id"])
    source = as_declared("side", casts_of(stream), names)
    value = f"({expression})::{KINDS[kind]}"
    try:
        found = query_ordered(connection(), f"SELECT {value} AS v FROM {source}", side=table)
    except duckdb.Error:
        found = query_ordered(connection(), f"SELECT TRY({value}) AS v FROM {source}", side=table)
    return _single(found["v"])


def numbers(*columns: pa.Array) -> tuple[list[Ints], list[NDArray[np.bool_]]]:
    """Columns of one kind as int64 numbers that compare across them as the values do, and which are not NULL.

    >>> keys, some = numbers(pa.array(["b", "a"]), pa.array(["ab", None]))
    >>> keys[0].tolist(), keys[1].tolist(), some[1].tolist()
    ([2, 0], [1, 0], [True, False])
    """
    some = [np.asarray(c.is_valid().to_numpy(zero_copy_only=False), bool) for c in columns]
    kind = columns[0].type
    if pa.types.is_integer(kind):
        return [np.asarray(c.fill_null(0).to_numpy(zero_copy_only=False), np.int64) for c in columns], some
    if pa.types.is_floating(kind):
        return [of_floats(c.fill_null(0.0).to_numpy(zero_copy_only=False)) for c in columns], some
    return _ranks(columns), some


def of_floats(values: NDArray[np.float64]) -> Ints:
    """Order-preserving int64 of float64: -0.0 = 0.0, NaN = NaN and above all."""
    values = np.asarray(values, np.float64) + 0.0
    values = np.where(np.isnan(values), np.nan, values)  # one NaN, with its sign bit clear
    bits = np.ascontiguousarray(np.abs(values)).view(np.int64)
    return np.where(np.signbit(values) & ~np.isnan(values), -bits, bits)


def _ranks(columns: tuple[pa.Array, ...]) -> list[Ints]:
    encoded = pa.chunked_array([c.cast(pa.large_binary()) for c in columns]).combine_chunks()
    encoded = (encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded).dictionary_encode()
    words = len(encoded.dictionary)
    rank = np.zeros(words + 1, np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(words)
    codes = rank[encoded.indices.fill_null(words).to_numpy(zero_copy_only=False)]
    ends = np.cumsum([len(c) for c in columns])
    return [np.asarray(part, np.int64) for part in np.split(codes, ends[:-1])]


def _single(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else (pa.array([], column.type))
    )
