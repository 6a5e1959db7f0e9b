"""Answers as text: JSON lines, CSV, or a table for people.

Values in JSON lines: timestamps are ISO 8601 with microseconds and `Z`; dates, times and intervals ISO 8601; decimals
are numbers with every digit, without a fraction when they are integral (so that a 128-bit sum survives a reader with
big integers); NaN and infinities, which JSON does not know, are the strings "NaN", "Infinity" and "-Infinity"; binary
is base64; lists are arrays; structs, and maps with text keys, are objects; other maps are arrays of [key, value]. CSV
has the same texts without quotes where none are needed, an empty field for NULL and "" for an empty string; nested
values are JSON.

Columns are turned to text one at a time with Arrow's kernels, nested ones through their children.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

_BATCH = 16_384
#: Rows that a table for people shows at most.
TABLE_ROWS = 2_000


class Format(StrEnum):
    """How rows are written to standard output."""

    table = "table"
    json = "json"
    csv = "csv"


class OutputClosed(Exception):
    """Whoever read our standard output has gone."""


class Writer:
    """Writes results one after the other to a stream.

    Arguments:
        form: the format.
        stream: where rows go.
        messages: where remarks about the output go.
    """

    def __init__(self, form: Format, stream: IO[str], messages: IO[str]) -> None:
        self._form, self._stream, self._messages = form, stream, messages
        self._written = 0

    def write(self, table: pa.Table) -> None:
        """Write one result and flush.

        Raises: OutputClosed when the reader has gone.
        """
        try:
            if self._form is Format.json:
                self._json(table)
            elif self._form is Format.csv:
                self._csv(table)
            else:
                self._table(table)
            self._stream.flush()
        except BrokenPipeError:
            raise OutputClosed from None
        self._written += 1

    def _json(self, table: pa.Table) -> None:
        names = (json.dumps(name, ensure_ascii=False).replace("%", "%%") for name in table.column_names)
        row = "{" + ", ".join(f"{name}: %s" for name in names) + "}\n"
        self._rows(table, json_texts, row)

    def _csv(self, table: pa.Table) -> None:
        if self._written:
            self._stream.write("\n")
        self._stream.write(",".join(_csv_quoted(name) for name in table.column_names) + "\n")
        self._rows(table, csv_texts, ",".join(["%s"] * table.num_columns) + "\n")

    def _rows(self, table: pa.Table, texts: Callable[[pa.Array], list[str]], row: str) -> None:
        for batch in table.to_batches(max_chunksize=_BATCH):
            if batch.num_columns == 0:
                self._stream.write(row * batch.num_rows)
                continue
            columns = [texts(column) for column in batch.columns]
            self._stream.write("".join(map(row.__mod__, zip(*columns, strict=True))))

    def _table(self, table: pa.Table) -> None:
        if self._written:
            self._stream.write("\n")
        # A pipe has no width: a table cut to 80 columns would be lost data.
        console = Console(file=self._stream, width=None if self._stream.isatty() else 100_000, highlight=False)
        console.print(rows_table(table.slice(0, TABLE_ROWS)))
        rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        cut = table.num_rows > TABLE_ROWS
        self._messages.write(rows + (f", {TABLE_ROWS:,} shown: --format csv or json writes all\n" if cut else "\n"))


def rows_table(table: pa.Table) -> Table:
    """Rows as a Rich table; numbers to the right, NULL dimmed, floats to four decimals."""
    drawn = Table()
    for field in table.schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        drawn.add_column(Text(field.name), justify="right" if numeric else "left", overflow="fold")
    columns = [_people_texts(pa.array([]) if not c.num_chunks else c.combine_chunks()) for c in table.columns]
    for row in zip(*columns, strict=True):
        drawn.add_row(*(Text("NULL", style="dim") if text is None else Text(text) for text in row))
    return drawn


def json_texts(array: pa.Array) -> list[str]:
    """Each value of an array as JSON text."""
    kind = array.type
    if pa.types.is_null(kind):
        return ["null"] * len(array)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _or_null(array.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_decimal(kind):
        return _or_null(pc.replace_substring_regex(array.cast(pa.string()), r"\.0*$", ""))
    if _is_text(kind):
        return ["null" if value is None else json.dumps(value, ensure_ascii=False) for value in array.to_pylist()]
    if (moments := _moments(array)) is not None:
        return _or_null(pc.binary_join_element_wise('"', moments, '"', ""))
    if pa.types.is_dictionary(kind):
        return json_texts(array.dictionary_decode())
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return _lists(array.cast(pa.large_list(kind.value_type)))
    return [_other(value) for value in array.to_pylist()]


def csv_texts(array: pa.Array) -> list[str]:
    """Each value of an array as a CSV field."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _is_text(array.type):
        return ["" if value is None else _csv_quoted(value) for value in array.to_pylist()]
    texts = json_texts(array)
    if pa.types.is_nested(array.type):
        return ["" if text == "null" else _csv_quoted(text) for text in texts]
    # What is quoted in JSON here (times, binary, NaN) holds neither a comma nor a quote.
    return ["" if text == "null" else text.strip('"') for text in texts]


def _people_texts(array: pa.Array) -> list[str | None]:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _is_text(array.type):
        texts: list[str | None] = array.to_pylist()
        return texts
    if pa.types.is_floating(array.type):
        return [None if v is None else _short(v) for v in array.to_pylist()]
    if pa.types.is_timestamp(array.type) and (moments := _moments(array)) is not None:
        short = pc.replace_substring(pc.replace_substring_regex(moments, r"(\.0+)?Z$", ""), "T", " ")
        texts = short.to_pylist()
        return texts
    return [None if text == "null" else text.strip('"') for text in json_texts(array)]


def _short(value: float) -> str:
    if not math.isfinite(value) or (value != 0 and not 1e-3 <= abs(value) < 1e15):
        return f"{value:g}"
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _moments(array: pa.Array) -> pa.Array | None:
    """Timestamps, dates and times as ISO 8601; None for any other type."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        zone = None if kind.tz is None else "UTC"
        micros = array.cast(pa.timestamp("us", zone), safe=False).cast(pa.timestamp("us"))
        return pc.binary_join_element_wise(pc.strftime(micros, format="%Y-%m-%dT%H:%M:%S"), "Z", "")
    if pa.types.is_date(kind):
        return pc.strftime(array, format="%Y-%m-%d")
    return array.cast(pa.string()) if pa.types.is_time(kind) else None


def _or_null(texts: pa.Array) -> list[str]:
    filled: list[str] = texts.fill_null("null").to_pylist()
    return filled


def _floats(array: pa.Array) -> list[str]:
    # Narrow floats are written with their own shortest digits, not those of the double that they widen to.
    narrow = not pa.types.is_float64(array.type)
    values = (array.cast(pa.float32()).cast(pa.string()) if narrow else array).to_pylist()
    return ["null" if v is None else _float(v) for v in values]


def _float(value: float | str) -> str:
    number = float(value)
    if math.isfinite(number):
        return str(value)
    return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'


def _structs(array: pa.StructArray) -> list[str]:
    names = [json.dumps(field.name, ensure_ascii=False).replace("%", "%%") for field in array.type]
    row = "{" + ", ".join(f"{name}: %s" for name in names) + "}"
    children = [json_texts(child) for child in array.flatten()]
    texts = map(row.__mod__, zip(*children, strict=True)) if children else iter(["{}"] * len(array))
    return [text if valid else "null" for text, valid in zip(texts, array.is_valid().to_pylist(), strict=True)]


def _lists(array: pa.Array) -> list[str]:
    return _joined(array, json_texts(array.values), "[", "]")


def _maps(array: pa.MapArray) -> list[str]:
    keys, items = json_texts(array.keys), json_texts(array.items)
    if _is_text(array.type.key_type):
        return _joined(array, [f"{key}: {item}" for key, item in zip(keys, items, strict=True)], "{", "}")
    return _joined(array, [f"[{key}, {item}]" for key, item in zip(keys, items, strict=True)], "[", "]")


def _joined(array: Any, elements: list[str], opening: str, closing: str) -> list[str]:
    offsets = array.offsets.to_pylist()
    return [
        opening + ", ".join(elements[start:end]) + closing if valid else "null"
        for start, end, valid in zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    ]


def _other(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, pa.MonthDayNano):
        return f'"{_duration(value.months, value.days, value.nanoseconds)}"'
    if isinstance(value, timedelta):
        return f'"{_duration(0, 0, round(value / timedelta(microseconds=1)) * 1000)}"'
    return json.dumps(str(value), ensure_ascii=False)


def _duration(months: int, days: int, nanoseconds: int) -> str:
    """ISO 8601, each unit with its own sign, as an INTERVAL has them."""
    seconds = f"{nanoseconds / 1e9:.6f}".rstrip("0").rstrip(".")
    parts = [f"{months}M" if months else "", f"{days}D" if days else "", f"T{seconds}S" if nanoseconds else ""]
    return "P" + ("".join(parts) or "T0S")


def _csv_quoted(text: str) -> str:
    if text and not any(c in text for c in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


__all__ = ["TABLE_ROWS", "Format", "OutputClosed", "Writer", "csv_texts", "json_texts", "rows_table"]
