"""Columns as JSON and CSV, with Arrow's kernels: one text for each value, whoever writes it.

In JSON, whole numbers beyond 2^53 and decimals with a fraction are strings (JavaScript would round them); timestamps
are ISO 8601 in UTC with as many digits as they have, or "infinity" and "-infinity"; NaN and infinities are "NaN",
"Infinity" and "-Infinity"; binary values are base64; intervals are as DuckDB writes them; structs and maps are objects,
lists are arrays. Streams take these texts in again. CSV has the same texts without quotes, and JSON for nested
values.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from millpond.support.texts.far_instants import dates_texts, instants_texts
from millpond.support.texts.integer_texts import EXACT, integer_texts
from millpond.support.texts.timestamp_texts import timestamp_texts
from millpond.support.texts.weaving import woven

_ESCAPED: Final = re.compile(rb'["\\\x00-\x1f]')
_SLICE: Final = 8_192
#: Rows up to which loops are quicker than compiled functions, which have to be loaded.
_SMALL: Final = 200


def rows_json(table: pa.Table) -> bytes:
    """The rows as a JSON array of objects.

    >>> rows_json(pa.table({"a": [1, 2**60], "b": ['x"', None]}))
    b'[{"a":1,"b":"x\\\\""},{"a":"1152921504606846976","b":null}]'
    """
    return b"[" + b",".join(_rows(table, b",")) + b"]"


def lines_json(table: pa.Table) -> Iterator[bytes]:
    """The rows as JSON, an object a line, some thousand lines at a time.

    >>> list(lines_json(pa.table({"a": [1, 2]})))
    [b'{"a":1}\\n{"a":2}\\n']
    """
    for part in _rows(table, b"\n"):
        yield part + b"\n"


def prepare() -> None:
    """Have the machine code made, which the first answer would wait for (once per machine: it is kept on disk)."""
    some = pa.array(range(_SMALL + 1), pa.int64())
    rows_json(pa.table({"i": some, "t": some.cast(pa.timestamp("us"))}))


def _rows(table: pa.Table, between: bytes) -> Iterator[bytes]:
    """Rows as objects, with `between` rows; some thousand at a time."""
    names = [json.dumps(name, ensure_ascii=False).encode() for name in table.schema.names]
    before = [(b"," if index else b"{") + name + b":" for index, name in enumerate(names)]
    for start in range(0, table.num_rows, _SLICE):
        part = table.slice(start, _SLICE)
        if not names:
            yield between.join([b"{}"] * part.num_rows)
        elif part.num_rows <= _SMALL:
            words = [word.decode() for word in before]
            columns = [_small_texts(_whole(column)) for column in part.columns]
            rows = ("".join([w + t for w, t in zip(words, row, strict=True)]) for row in zip(*columns, strict=True))
            yield ("}" + between.decode()).join(rows).encode() + b"}"
        else:
            yield woven([json_texts(_whole(column)) for column in part.columns], before, b"}", between)


def _small_texts(array: pa.Array) -> list[str]:
    """As `json_texts`, of few values of the most usual types."""
    kind = array.type
    if pa.types.is_integer(kind):
        return ["null" if v is None else str(v) if -EXACT <= v <= EXACT else f'"{v}"' for v in array.to_pylist()]
    if pa.types.is_string(kind):
        return ["null" if v is None else encode_basestring(v) for v in array.to_pylist()]
    if pa.types.is_boolean(kind):
        return ["null" if v is None else "true" if v else "false" for v in array.to_pylist()]
    texts: list[str] = json_texts(array).to_pylist()
    return texts


# -- CSV ---------------------------------------------------------------------------------------------------------------


def csv_columns(table: pa.Table) -> pa.Table:
    """The table with columns that CSV writes as they are: texts, whole numbers, booleans; NULL stays NULL."""
    return pa.Table.from_arrays([_csv_column(_whole(column)) for column in table.columns], names=table.schema.names)


def csv_bytes(table: pa.Table) -> bytes:
    """The rows as CSV with a header; NULL is empty, an empty text is "", nested values are JSON."""
    sink = pa.BufferOutputStream()
    flat = csv_columns(table)
    if flat.num_columns:
        pyarrow.csv.write_csv(flat, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _csv_column(whole: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    kind = whole.type
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return whole
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return whole.cast(pa.string())
    texts = json_texts(whole)
    if not pa.types.is_nested(kind):  # what is quoted then holds no quote
        texts = pc.replace_substring(texts, '"', "")
    return pc.if_else(pc.is_valid(whole), texts, pa.scalar(None, pa.string()))


# -- values ------------------------------------------------------------------------------------------------------------


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
        return _timestamps(array)
    if types.is_decimal(kind):
        return _decimals(array, kind)
    if types.is_date(kind):
        return _quoted(dates_texts(array))
    if types.is_time(kind):
        return _quoted(array.cast(pa.string()))
    if types.is_struct(kind):
        return _structs(array, kind)
    if types.is_map(kind):
        return _maps(array)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return _lists(array.cast(pa.large_list(kind.value_type)))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _lists(array)
    if types.is_duration(kind):
        per = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        return _each(array.cast(pa.int64()), lambda v: f'"{interval_text(0, 0, v * per)}"')
    # binary values, intervals and unions are rare: value by value
    return _each(array, lambda v: json.dumps(_rare(v), ensure_ascii=False, separators=(",", ":")))


def _each(array: pa.Array, text: Any) -> pa.Array:
    return pa.array([None if v is None else text(v) for v in array.to_pylist()], pa.string())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _integers(array: pa.Array, kind: Any) -> pa.Array:
    if len(array) > _SMALL and (quick := integer_texts(array)) is not None:
        return quick
    texts = array.cast(pa.string())
    if kind.bit_width < 64 or not len(array):
        return texts
    span = pc.min_max(array).as_py()
    if span["min"] is None or (span["min"] >= -EXACT and span["max"] <= EXACT):
        return texts
    exact = pc.less_equal(array, pa.scalar(EXACT, kind))
    if pa.types.is_signed_integer(kind):
        exact = pc.and_(exact, pc.greater_equal(array, pa.scalar(-EXACT, kind)))
    return pc.if_else(exact, texts, _quoted(texts))


def _decimals(array: pa.Array, kind: Any) -> pa.Array:
    """Whole ones as integers are written; of the others every digit, as a string."""
    texts = array.cast(pa.string())
    if kind.scale > 6 and pc.any(pc.match_substring(texts, "E")).as_py():  # as Arrow writes what is small
        texts = _each(texts, lambda v: f"{decimal.Decimal(v):f}")
    if kind.scale:
        return _quoted(texts)
    if kind.precision < 16 or not len(array):
        return texts
    most = pa.scalar(decimal.Decimal(EXACT), kind)
    return pc.if_else(pc.less_equal(pc.abs(array), most), texts, _quoted(texts))


def _floats(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.string())
    if pc.any(whole := pc.equal(pc.floor(array), array)).as_py():  # they are no integers for all that
        plain_digits = pc.and_(whole, pc.invert(pc.match_substring(texts, "e")))
        texts = pc.if_else(plain_digits, pc.binary_join_element_wise(texts, ".0", ""), texts)
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


def _timestamps(array: pa.Array) -> pa.Array:
    if len(array) > _SMALL and (quick := timestamp_texts(array)) is not None:
        return quick
    return _quoted(instants_texts(array))


def _structs(array: pa.Array, kind: Any) -> pa.Array:
    pieces: list[Any] = []
    for index, child in enumerate(array.flatten()):
        name = json.dumps(kind.field(index).name, ensure_ascii=False)
        pieces += [f"{'{' if index == 0 else ','}{name}:", json_texts(child)]
    joined = pc.binary_join_element_wise(*pieces, "}", "") if pieces else pa.repeat(pa.scalar("{}"), len(array))
    return pc.if_else(pc.is_valid(array), joined, pa.scalar(None, pa.string()))


def _lists(array: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return _enclosed(array, offsets, json_texts(array.flatten()), "[", "]")


def _maps(array: pa.MapArray) -> pa.Array:
    keys, items = json_texts(array.keys), json_texts(array.items)
    quoted = pa.array([k if k.startswith('"') else encode_basestring(k) for k in keys.to_pylist()], pa.string())
    return _enclosed(array, array.offsets, pc.binary_join_element_wise(quoted, items, ":"), "{", "}")


def _enclosed(array: pa.Array, offsets: pa.Array, entries: pa.Array, opening: str, closing: str) -> pa.Array:
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, entries), ",")
    shown = pc.binary_join_element_wise(opening, joined, closing, "")
    return pc.if_else(pc.is_valid(array), shown, pa.scalar(None, pa.string()))


def _rare(value: Any) -> Any:
    """A value of a rare type as JSON has it, by the rules of this module."""
    if isinstance(value, pa.MonthDayNano):
        return interval_text(value.months, value.days, value.nanoseconds)
    if isinstance(value, dict):
        return {k: _rare(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rare(v) for v in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT:
        return str(value)
    return plain(value)


def interval_text(months: int, days: int, nanoseconds: int) -> str:
    """An interval as DuckDB writes it.

    >>> interval_text(14, -2, 3_500_000_000), interval_text(0, 0, -720_000_000_000), interval_text(0, 0, 0)
    ('1 year 2 months -2 days 00:00:03.5', '-00:12:00', '00:00:00')
    """
    sign = -1 if months < 0 else 1
    counts = (sign * (abs(months) // 12), "year"), (sign * (abs(months) % 12), "month"), (days, "day")
    parts = [f"{count} {word}{'' if abs(count) == 1 else 's'}" for count, word in counts if count]
    if nanoseconds or not parts:
        seconds, rest = divmod(abs(nanoseconds), 10**9)
        fraction = f".{rest:09}".rstrip("0").rstrip(".")
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
        parts.append(f"-{clock}" if nanoseconds < 0 else clock)
    return " ".join(parts)


def plain(value: Any) -> Any:
    """A value of Python, however nested, as `json.dumps` writes it; whole numbers stay numbers.

    >>> plain({"at": dt.datetime(2026, 1, 1), "share": float("nan"), "of": (1, b"x")})
    {'at': '2026-01-01T00:00:00.000000Z', 'share': 'NaN', 'of': [1, 'eA==']}
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return moment.isoformat(timespec="microseconds") + "Z"
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return interval_text(0, 0, value // dt.timedelta(microseconds=1) * 1000)
    return value if isinstance(value, (str, int, type(None))) else str(value)
