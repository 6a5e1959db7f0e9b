"""Answers as JSON and CSV, column by column with Arrow's kernels.

In JSON, integers beyond 2^53 and decimals are strings (JavaScript would round them), timestamps are ISO 8601 in UTC,
NaN and infinities are "NaN", "Infinity" and "-Infinity", binary values are base64, maps are objects. All of it can be
ingested again.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from millpond.progress import FOREVER, NEVER
from millpond.server.bodies.instants import timestamp_texts
from millpond.server.bodies.integers import EXACT, integer_texts
from millpond.server.bodies.weaving import woven
from millpond.types import moment_of

_ESCAPED: Final = re.compile(rb'["\\\x00-\x1f]')
_SLICE: Final = 8_192
_SMALL: Final = 200


def instant(micros: int | None) -> str | None:
    """An instant as ISO 8601 in UTC; None for none, 'end' for the end of time.

    >>> instant(0), instant(FOREVER), instant(NEVER)
    ('1970-01-01T00:00:00.000000Z', 'end', None)
    """
    if micros is None or micros <= NEVER:
        return None
    if micros >= FOREVER:
        return "end"
    try:
        return moment_of(micros).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        return str(micros)


def columns_json(schema: pa.Schema) -> list[dict[str, str]]:
    """Names and Arrow types of the columns."""
    return [{"name": field.name, "type": str(field.type)} for field in schema]


def rows_json(table: pa.Table) -> bytes:
    """The rows as a JSON array of objects.

    >>> rows_json(pa.table({"a": [1, 2**60], "b": ['x"', None]}))
    b'[{"a":1,"b":"x\\\\""},{"a":"1152921504606846976","b":null}]'
    """
    if table.num_rows <= _SMALL and all(_is_simple(field.type) for field in table.schema):
        return _small_rows(table)
    return b"[" + b",".join(_joined(table)) + b"]"


def prepare() -> None:
    """Have the machine code made, which the first answer would wait for (once per machine: it is kept on disk)."""
    some = pa.array(range(_SMALL + 1), pa.int64())
    rows_json(pa.table({"i": some, "t": some.cast(pa.timestamp("us"))}))


def _is_simple(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_float64(kind) or types.is_boolean(kind) or types.is_string(kind)
    ) or bool(types.is_timestamp(kind) or types.is_decimal(kind) or types.is_date(kind))


def _small_rows(table: pa.Table) -> bytes:
    """The same for few rows, where a dozen kernel calls would cost more than the rows do."""
    columns = [_small_column(_whole(column), column.type) for column in table.columns]
    names = table.schema.names
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()


def _small_column(array: pa.Array, kind: Any) -> list[Any]:
    if pa.types.is_timestamp(kind):
        texts = array.cast(pa.timestamp(kind.unit)).cast(pa.string()).to_pylist()
        if not any(v is not None and v.startswith("<") for v in texts):
            return [v if v is None else v.replace(" ", "T", 1) + "Z" for v in texts]
        return [json.loads(v) for v in json_texts(array).to_pylist()]
    values: list[Any] = array.to_pylist()
    if pa.types.is_integer(kind):
        wide = kind.bit_width == 64
        return [str(v) if v is not None and abs(v) > EXACT else v for v in values] if wide else values
    if pa.types.is_floating(kind):
        return [v if v is None or math.isfinite(v) else _plain(v) for v in values]
    if pa.types.is_decimal(kind) or pa.types.is_date(kind):
        return [v if v is None else str(v) for v in values]
    return values


def _joined(table: pa.Table) -> Iterator[bytes]:
    names = [json.dumps(name, ensure_ascii=False).encode() for name in table.schema.names]
    before = [(b"," if index else b"{") + name + b":" for index, name in enumerate(names)]
    for start in range(0, table.num_rows, _SLICE):
        part = table.slice(start, _SLICE)
        if not names:
            yield b",".join([b"{}"] * part.num_rows)
            continue
        yield woven([json_texts(_whole(column)) for column in part.columns], before, b"}", b",")


def csv_bytes(table: pa.Table) -> bytes:
    """The rows as CSV with a header; NULL is empty, an empty text is "", nested values are JSON."""
    columns = []
    for column in table.columns:
        whole = _whole(column)
        kind = whole.type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            texts = json_texts(whole)
            if not (pa.types.is_nested(kind) or pa.types.is_floating(kind)):
                texts = pc.utf8_trim(texts, '"')
            elif pa.types.is_floating(kind):
                texts = pc.replace_substring(texts, '"', "")
            whole = pc.if_else(pc.is_valid(whole), texts, pa.scalar(None, pa.string()))
        columns.append(whole)
    sink = pa.BufferOutputStream()
    flat = pa.Table.from_arrays(columns, names=table.schema.names)
    if flat.num_columns:
        pyarrow.csv.write_csv(flat, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def json_texts(array: pa.Array) -> pa.Array:
    """Each value as JSON text; NULL is 'null'."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return json_texts(array.storage)
    if pa.types.is_dictionary(kind):
        return json_texts(array.cast(kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        return json_texts(pc.run_end_decode(array))
    texts = _texts(array, kind)
    return pc.fill_null(texts, "null") if texts.null_count else texts


def _texts(array: pa.Array, kind: Any) -> pa.Array:
    types = pa.types
    if types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if types.is_boolean(kind):
        return array.cast(pa.string())
    if types.is_integer(kind):
        return _integers(array, kind)
    if types.is_floating(kind):
        return _floats(array if kind.bit_width > 16 else array.cast(pa.float32()))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _strings(array.cast(pa.string()))
    if types.is_timestamp(kind):
        return _timestamps(array, kind)
    if types.is_decimal(kind) or types.is_date(kind) or types.is_time(kind):
        return _quoted(array.cast(pa.string()))
    if types.is_struct(kind):
        return _structs(array, kind)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _lists(array)
    # binary values, maps, intervals and durations are rare: value by value
    return pa.array([None if v is None else _dumps(_plain(v, kind)) for v in array.to_pylist()], pa.string())


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _integers(array: pa.Array, kind: Any) -> pa.Array:
    if (quick := integer_texts(array)) is not None:
        return quick
    texts = array.cast(pa.string())
    if kind.bit_width < 64 or not len(array):
        return texts
    span = pc.min_max(array).as_py()
    if span["min"] is None or (span["min"] >= -EXACT and span["max"] <= EXACT):
        return texts
    exact = pc.less_equal(array, pa.scalar(EXACT, kind))
    if types_signed(kind):
        exact = pc.and_(exact, pc.greater_equal(array, pa.scalar(-EXACT, kind)))
    return pc.if_else(exact, texts, _quoted(texts))


def types_signed(kind: Any) -> bool:
    """Whether an integer type has a sign."""
    return bool(pa.types.is_signed_integer(kind))


def _floats(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.string())
    finite = pc.is_finite(array)
    if pc.all(finite, min_count=0).as_py():
        return texts
    names = pc.if_else(pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0.0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(finite, texts, names)


def _strings(array: pa.Array) -> pa.Array:
    data = array.buffers()[2]
    # A slice shares the buffer of the whole: a needless escape check costs nothing but time.
    if data is None or _ESCAPED.search(data) is None:
        return _quoted(array)
    return pa.array([None if v is None else encode_basestring(v) for v in array.to_pylist()], pa.string())


def _timestamps(array: pa.Array, kind: Any) -> pa.Array:
    if (quick := timestamp_texts(array)) is not None:
        return quick
    texts = array.cast(pa.timestamp(kind.unit)).cast(pa.string())
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    shown = pc.binary_join_element_wise('"', texts, 'Z"', "")
    beyond = pc.starts_with(texts, "<")  # what Arrow writes for instants no calendar has: DuckDB's infinities
    if not pc.any(beyond).as_py():
        return shown
    positive = pc.greater(array.cast(pa.int64()), 0)
    return pc.if_else(beyond, pc.if_else(positive, '"infinity"', '"-infinity"'), shown)


def _structs(array: pa.Array, kind: Any) -> pa.Array:
    pieces: list[Any] = []
    for index, child in enumerate(array.flatten()):
        name = json.dumps(kind.field(index).name, ensure_ascii=False)
        pieces += [f"{'{' if index == 0 else ','}{name}:", json_texts(child)]
    joined = pc.binary_join_element_wise(*pieces, "}", "") if pieces else pa.repeat(pa.scalar("{}"), len(array))
    return pc.if_else(pc.is_valid(array), joined, pa.scalar(None, pa.string()))


def _lists(array: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, json_texts(array.flatten())), ",")
    shown = pc.binary_join_element_wise("[", joined, "]", "")
    return pc.if_else(pc.is_valid(array), shown, pa.scalar(None, pa.string()))


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any, kind: Any = None) -> Any:
    """A Python value as JSON has it, by the rules of this module."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, pa.MonthDayNano):
        return _interval(value)
    if kind is not None and pa.types.is_map(kind):
        return {k if isinstance(k, str) else _key(k): _plain(v) for k, v in value}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT:
        return str(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return f"PT{value.total_seconds():f}S"
    return str(value) if isinstance(value, decimal.Decimal) else value


def _key(value: Any) -> str:
    plain = _plain(value)
    return plain if isinstance(plain, str) else _dumps(plain)


def _interval(value: Any) -> str:
    seconds = decimal.Decimal(value.nanoseconds).scaleb(-9)
    text = f"{seconds:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value.months} months {value.days} days {text} seconds"


__all__ = ["columns_json", "csv_bytes", "instant", "json_texts", "prepare", "rows_json"]
