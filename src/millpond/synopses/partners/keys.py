"""Keys as numbers: equal, or ordered, as DuckDB has the values they stand for.

0.0 and -0.0 are one value, and so are all NaN, which come behind infinity. NULL meets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.synopses.kernel import query_table
from millpond.synopses.partners.orders import Ints, Mask, Words, spread_codes

#: Digits of a decimal that fits into 64 bits.
_DIGITS = 18


@dataclass(frozen=True)
class Codes:
    """Keys as codes: equal keys have equal ones.

    valid: which rows have a key; None: all. exact: and only equal keys. kinds: the types of the keys' parts: codes of
    other kinds say nothing of each other.
    """

    codes: Words
    valid: Mask | None
    exact: bool
    kinds: tuple[str, ...]

    def take(self, rows: Ints) -> Codes:
        """Those of some rows."""
        return Codes(self.codes[rows], None if self.valid is None else self.valid[rows], self.exact, self.kinds)


def codes_of(db: duckdb.DuckDBPyConnection, columns: Sequence[pa.ChunkedArray], count: int) -> Codes:
    """The codes of keys that are made of some columns.

    Args:
        count: of rows; without a column all have the same key.
    """
    if not columns:
        return Codes(np.zeros(count, np.uint64), None, True, ())
    valid = None
    parts: list[tuple[str, Words, bool]] = []
    for column in columns:
        if column.null_count:
            own = pc.is_valid(column).to_numpy()
            valid = own if valid is None else valid & own
        parts.append(_coded(db, column))
    codes = parts[0][1]
    for _, part, _ in parts[1:]:
        codes = spread_codes(((codes ^ (codes >> np.uint64(29))) + part).view(np.int64))
    return Codes(codes, valid, len(parts) == 1 and parts[0][2], tuple(kind for kind, _, _ in parts))


def same_keys(db: duckdb.DuckDBPyConnection, one: pa.ChunkedArray, other: pa.ChunkedArray) -> Mask:
    """Which of the values in two columns of one type are equal."""
    if pa.types.is_string(one.type):
        return np.asarray(pc.fill_null(pc.equal(one, other), False).to_numpy(False), bool)
    both = pa.table({"a": one, "b": other})
    return np.asarray(query_table(db, "SELECT coalesce(a = b, false) AS s FROM t", t=both)["s"].to_numpy(), bool)


def _coded(db: duckdb.DuckDBPyConnection, column: pa.ChunkedArray) -> tuple[str, Words, bool]:
    """The kind of a column, the codes of its values, and whether these tell them apart."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if (numbers := _whole(column)) is not None:
        return numbers[0], spread_codes(numbers[1]), True
    if pa.types.is_decimal(column.type):
        wide = column.type.precision > _DIGITS
        words = np.concatenate([_low_words(chunk) for chunk in column.chunks] or [np.empty(0, np.int64)])
        return f"decimal {column.type.scale}{' wide' if wide else ''}", spread_codes(words), not wide
    hashed = query_table(db, "SELECT hash(k) AS h FROM t", t=pa.table({"k": column}))["h"].to_numpy()
    kind = "text" if pa.types.is_string(column.type) else str(column.type)
    return kind, spread_codes(hashed.view(np.int64)), False


def _whole(column: pa.ChunkedArray) -> tuple[str, Ints] | None:
    """The kind of a column, and whole numbers that are equal for equal values only; None where there are none."""
    kind = column.type
    if pa.types.is_floating(kind):
        return "float", of_floats(column.fill_null(0.0).to_numpy().astype(np.float64))
    if pa.types.is_boolean(kind):
        return "boolean", pc.fill_null(column.cast(pa.int8()), 0).to_numpy().astype(np.int64)
    if kind == pa.uint64():
        return str(kind), np.asarray(pc.fill_null(column, 0).to_numpy()).view(np.int64)
    if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)) or pa.types.is_interval(kind):
        return None
    narrow = column.cast(pa.int32()) if pa.types.is_date(kind) or pa.types.is_time32(kind) else column
    numbers = narrow.cast(pa.int64())
    name = "number" if pa.types.is_integer(kind) else str(kind)
    return name, (pc.fill_null(numbers, 0) if numbers.null_count else numbers).to_numpy()


def _low_words(chunk: pa.Array) -> Ints:
    """The lower 64 bits of decimals."""
    wide = chunk.cast(pa.decimal128(38, chunk.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2]
    return np.where(np.asarray(wide.is_valid().to_numpy(zero_copy_only=False), bool), words, 0)


def numbers(*columns: pa.Array) -> tuple[list[Ints], list[Mask]]:
    """Columns of one type as int64 numbers that compare across them as the values do, and which are not NULL.

    Args:
        columns: of whole numbers, floating ones or texts.

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
