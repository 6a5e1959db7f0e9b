"""Columns of any Arrow type into the types that a stream's columns are carried in; what does not fit is pointed out.

A cast that Arrow does without loss is done by Arrow; everything else is a TRY_CAST in DuckDB, so that text means what
it means in SQL. A value that cannot be represented (a fraction for an integer column, text that is no number) never
becomes another value: it does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.sources.formats.carriers import Carrier
from millpond.sources.formats.json_values import json_cast
from millpond.sources.formats.nanoseconds import floored

Mask = npt.NDArray[np.bool_]

#: Errors of DuckDB that say that a type or a value does not fit; all others (out of memory, interrupt) go up.
_UNFIT: Final = (
    duckdb.BinderException,
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.NotImplementedException,
    duckdb.OutOfRangeException,
    duckdb.TypeMismatchException,
)
_INTEGERS: Final = frozenset(
    {"tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"}
)
_PROBE: Final = 64
_TEXT: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)


@dataclass(frozen=True)
class Converted:
    """A column in its carried type; `unfit` marks values that did not fit (they are NULL), None: all did."""

    column: pa.ChunkedArray
    unfit: Mask | None = None


def convert(
    column: pa.ChunkedArray, carrier: Carrier, db: duckdb.DuckDBPyConnection, json: bool = False, trusted: bool = False
) -> Converted:
    """A column as its carrier wants it.

    Arguments:
        json: text for a nested column is JSON, not DuckDB's notation.
        trusted: the column was converted before (a landing), so that an equal Arrow type is enough.
    """
    column = _plain(column)
    if trusted and column.type == carrier.arrow:
        return Converted(column)
    column = floored(column, carrier.arrow)
    invalid = _invalid_text(column)
    if invalid is not None:
        column = blanked(column, invalid)
    fast = None if carrier.checked else _fast(column, carrier)
    result = Converted(fast) if fast is not None else _slow(column, carrier, db, json)
    if invalid is None:
        return result
    return Converted(result.column, invalid if result.unfit is None else invalid | result.unfit)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this Arrow type are text."""
    return any(test(kind) for test in _TEXT)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of this Arrow type are bytes."""
    return any(test(kind) for test in _BYTES)


def valid_utf8(data: bytes) -> bool:
    """Whether data is UTF-8, without decoding it."""
    edges = pa.py_buffer(np.array([0, len(data)], np.int64))
    return is_valid(pa.Array.from_buffers(pa.large_string(), 1, [None, edges, pa.py_buffer(data)]))


def blanked(column: pa.ChunkedArray, mask: Mask) -> pa.ChunkedArray:
    """The column with NULL where the mask is true."""
    keep = np.where(mask, -1, np.arange(len(mask)))
    return column.take(pa.array(keep, mask=mask))


def never_unfit(kind: pa.DataType, carrier: Carrier) -> bool:
    """Whether no value of this Arrow type can fail to fit, so that the column need not be looked at."""
    return bool(kind == carrier.arrow and not carrier.checked and not _holds_text(kind))


def without_wide_decimals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with decimals of 256 bits as text, also within nested values: DuckDB does not read them."""
    kind = _narrow(column.type)
    return column if kind == column.type else column.cast(kind)


def _narrow(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal256(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_narrow(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_narrow(kind.key_type)), kind.item_field.with_type(_narrow(kind.item_type))
        )
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_narrow(field.type)) for field in kind])
    return kind


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        return _plain(pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type))
    return column


def _holds_text(kind: pa.DataType) -> bool:
    if kind.num_fields:
        return any(_holds_text(kind.field(i).type) for i in range(kind.num_fields))
    return is_text(kind)


def _invalid_text(column: pa.ChunkedArray) -> Mask | None:
    """Which values hold bytes that are not UTF-8; None: none does. (Parquet readers do not look.)"""
    if not _holds_text(column.type):
        return None
    masks = [np.zeros(len(chunk), np.bool_) for chunk in column.chunks]
    found = False
    for chunk, mask in zip(column.chunks, masks, strict=True):
        if is_valid(chunk):
            continue
        found = True
        # bad bytes are rare: look block by block first. A slice will not do: its validation looks at all list items
        for start in range(0, len(chunk), 1024):
            block = range(start, min(start + 1024, len(chunk)))
            if not is_valid(chunk.take(pa.array(block))):
                mask[block.start : block.stop] = [not is_valid(chunk.take(pa.array([i]))) for i in block]
    return np.concatenate(masks) if found else None


def is_valid(array: pa.Array) -> bool:
    """Whether Arrow finds nothing wrong in an array; of texts, that they are UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _fast(column: pa.ChunkedArray, carrier: Carrier) -> pa.ChunkedArray | None:
    """The column cast by Arrow alone; None when that could change, lose or miss a value."""
    source, target = column.type, carrier.arrow
    if source == target:
        return column
    if is_text(source) and len(column) > 2 * _PROBE and _fast(column.slice(0, _PROBE), carrier) is None:
        return None  # Arrow is slow at failing
    if pa.types.is_null(source):
        return pa.chunked_array([pa.nulls(len(column), target)])
    try:
        if _alike(source, target):
            return column.cast(target)
        if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
            return column.cast(target)
        if pa.types.is_time(source) and pa.types.is_time(target):
            return column.cast(target)
        if _castable(source, target):
            return column.cast(target)
        if is_text(source) and pa.types.is_timestamp(target):
            return _timestamps(column, target)
        if is_text(source) and pa.types.is_decimal(target):
            return _decimals(column, target)
        if is_text(source) and _parsed_alike(target):
            return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return None


def _decimals(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray | None:
    """Of more digits than it has bits for Arrow keeps the lower ones: they are read with as many as it takes."""
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > 70:
        return None
    found = column.cast(pa.decimal256(76, target.scale)).cast(target)
    found.validate(full=True)
    return found


def _timestamps(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    try:
        column.slice(0, _PROBE).cast(target)
        return column.cast(target)
    except pa.ArrowInvalid:  # all with an offset, or all without one: else DuckDB does it
        other = pa.timestamp("us") if target.tz else pa.timestamp("us", "UTC")
        return column.cast(other).cast(target)


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Numbers and dates where Arrow's checked cast keeps the value or refuses."""
    kinds = pa.types
    number = kinds.is_integer(source) or kinds.is_floating(source)
    if kinds.is_float32(target):
        return bool(kinds.is_float16(source))  # Arrow would turn large doubles into infinity
    if kinds.is_integer(target) or kinds.is_floating(target):
        return bool(number)
    if kinds.is_decimal(target):
        return bool(kinds.is_decimal(source) or kinds.is_integer(source))
    if kinds.is_date32(target):
        return bool(kinds.is_date(source))
    return bool(kinds.is_timestamp(target) and kinds.is_date(source))


def _parsed_alike(target: pa.DataType) -> bool:
    """Types whose text Arrow reads as DuckDB does, or refuses."""
    kinds = pa.types
    return bool(
        kinds.is_integer(target) or kinds.is_floating(target) or kinds.is_boolean(target) or kinds.is_date32(target)
    )


def _alike(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the types differ in names of list items or in widths of offsets only."""
    kinds = pa.types
    if source == target or (is_text(source) and is_text(target)):
        return True
    if kinds.is_binary(target):
        return is_bytes(source)
    if kinds.is_list(target):
        lists = kinds.is_list(source) or kinds.is_large_list(source)
        return bool(lists and _alike(source.value_type, target.value_type))
    if kinds.is_fixed_size_list(target):
        same = kinds.is_fixed_size_list(source) and source.list_size == target.list_size
        return bool(same and _alike(source.value_type, target.value_type))
    if kinds.is_map(target):
        return bool(
            kinds.is_map(source)
            and _alike(source.key_type, target.key_type)
            and _alike(source.item_type, target.item_type)
        )
    if kinds.is_struct(target) and kinds.is_struct(source) and source.num_fields == target.num_fields:
        pairs = [(source.field(i), target.field(i)) for i in range(target.num_fields)]
        return all(a.name == b.name and _alike(a.type, b.type) for a, b in pairs)
    return False


def _slow(column: pa.ChunkedArray, carrier: Carrier, db: duckdb.DuckDBPyConnection, json: bool) -> Converted:
    """The column cast value by value in DuckDB."""
    if pa.types.is_timestamp(column.type) and column.type.unit in ("s", "ms"):
        # Beyond the reach of microseconds DuckDB does not refuse such a value, it dies of it.
        reach = 2**63 // (1_000_000 if column.type.unit == "s" else 1000) - 1
        instants = column.cast(pa.int64()).fill_null(0).to_numpy()
        mask = (instants > reach) | (instants < -reach)
        if mask.any():
            near = _slow(blanked(column, mask), carrier, db, json)
            return Converted(near.column, mask if near.unfit is None else near.unfit | mask)
    view = "millpond_convert"
    result: pa.ChunkedArray | None = None
    column = without_wide_decimals(column)
    db.register(view, pa.table({"c": column}))
    try:
        answer = db.sql(f"SELECT {_expression(column.type, carrier, json)} AS c FROM {view}").to_arrow_table()
        result = answer.column(0)
        if result.type != carrier.arrow:
            result = result.cast(carrier.arrow)
    except (*_UNFIT, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        result = pa.chunked_array([pa.nulls(len(column), carrier.arrow)])
    finally:
        db.unregister(view)
    if result.null_count == column.null_count:
        return Converted(result)
    unfit = pc.and_(column.is_valid(), result.is_null()).to_numpy()
    return Converted(result, unfit if unfit.any() else None)


def _expression(source: pa.DataType, carrier: Carrier, json: bool) -> str:
    """DuckDB SQL that casts `c` to the declared type and that to what carries it; NULL where it does not fit."""
    text, kinds = is_text(source), pa.types
    parsed = carrier.parsed if text else carrier.declared
    nested = carrier.nested or bool(source.num_fields)
    # TRY_CAST of a list only drops the items that do not fit; TRY drops the list
    cast = f"TRY(CAST(c AS {parsed}))" if nested else f"TRY_CAST(c AS {parsed})"
    if json and text and carrier.nested:
        cast = f"TRY({json_cast('CAST(c AS JSON)', parsed)})"
    if parsed != carrier.declared:
        cast = f"CAST({cast} AS {carrier.declared})"
    if carrier.kind in _INTEGERS and not nested:
        if kinds.is_floating(source) or kinds.is_decimal(source):
            cast = f"CASE WHEN c = trunc(c) THEN {cast} END"
        elif text:
            number = "TRY_CAST(c AS DOUBLE)"
            cast = f"CASE WHEN {number} IS NULL OR {number} = trunc({number}) THEN {cast} END"
    elif carrier.kind == "boolean" and (kinds.is_integer(source) or kinds.is_floating(source)):
        cast = f"CASE WHEN c IN (0, 1) THEN {cast} END"
    elif carrier.kind == "interval":  # Arrow holds nanoseconds: more than 292 years of hours would wrap around
        cast = f"CASE WHEN abs(date_part('hour', {cast})) < 2562047 THEN {cast} END"
    elif carrier.kind == "float" and kinds.is_float64(source):
        cast = f"CASE WHEN isinf(c) THEN c ELSE {cast} END"
    return cast if carrier.carried == carrier.declared else f"TRY(CAST({cast} AS {carrier.carried}))"
