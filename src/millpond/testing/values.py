"""Answers as text rows, and their comparison with expected rows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millpond.testing.streams import timestamp_text

#: Two reals are equal when they differ by no more than this, relative to the larger.
TOLERANCE = 1e-9


def table_rows(table: pa.Table, types: str) -> list[list[str]]:
    """The rows of an answer as text, a value per letter of `types`. Raises ValueError if the number of columns differs.

    >>> table_rows(pa.table({"a": [1, None], "b": [2.5, 3.0]}), "IR")
    [['1', '2.5'], ['NULL', '3.0']]
    """
    if table.num_columns != len(types):
        raise ValueError(
            f"the answer has {table.num_columns} columns ({', '.join(table.column_names)}), the types '{types}' say "
            f"{len(types)}"
        )
    columns = []
    for column, letter in zip(table.columns, types, strict=True):
        values = column.to_pylist()
        if pa.types.is_timestamp(column.type):
            # Through integers: Python's datetime would lose zones and refuse years that Arrow can hold.
            micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).to_pylist()
            show = _seconds if letter == "S" else timestamp_text
            columns.append(["NULL" if m is None else show(m) for m in micros])
        else:
            columns.append([show_value(v, letter) for v in values])
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _seconds(microseconds: int) -> str:
    whole, rest = divmod(microseconds, 1_000_000)
    return str(whole) if rest == 0 else str((Decimal(microseconds) / 1_000_000).normalize())


def show_value(value: Any, letter: str = "T") -> str:
    """One value as a case writes it.

    >>> show_value([1, None]), show_value({"a": True}), show_value(""), show_value(Decimal("12"), "I")
    ('[1, NULL]', "{'a': true}", '(empty)', '12')
    """
    if value is None:
        return "NULL"
    if letter == "I" and not isinstance(value, bool) and isinstance(value, (int, float, Decimal)):
        return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)
    if letter == "R" and isinstance(value, (int, float, Decimal)):
        return repr(float(value))
    return "(empty)" if value == "" else _text(value, False)


def _text(value: Any, nested: bool) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v, True) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"'{k}': {_text(v, True)}" for k, v in value.items()) + "}"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (dict, list)):
        return json.dumps(value)
    return str(value)


def split_row(line: str, columns: int) -> list[str]:
    """An expected line as values: between tabs, else between two or more spaces, else between single spaces.

    >>> split_row("a b  2", 2), split_row("1 2", 2), split_row("New York", 1)
    (['a b', '2'], ['1', '2'], ['New York'])
    """
    text = line.strip()
    if columns == 1:
        return [text]
    if "\t" in text:
        return [part.strip() for part in text.split("\t")]
    if re.search(r"\s{2,}", text):
        return re.split(r"\s{2,}", text)
    return text.split(" ")


def rows_equal(expected: Sequence[str], got: Sequence[str], types: str) -> bool:
    """Whether a row is what was expected: reals within `TOLERANCE` (NaN equals NaN), everything else as text."""
    if len(expected) != len(got) or len(expected) != len(types):
        return False
    return all(_equal(e, g, t) for e, g, t in zip(expected, got, types, strict=True))


def _equal(expected: str, got: str, letter: str) -> bool:
    if expected == got:
        return True
    if letter not in "RI":
        return False
    try:
        one, other = float(expected), float(got)
    except ValueError:
        return False
    if letter == "I":
        return False
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-12)


def sort_key(row: Sequence[str], types: str) -> tuple[tuple[int, float, str], ...]:
    """An order for `rowsort`: numbers by value (rounded, so that equal reals meet), text by text, NULL first."""
    keys = []
    for value, letter in zip(row, types, strict=True):
        try:
            number = float(value) if letter in "IRS" else None
        except ValueError:
            number = None
        if number is None or math.isnan(number):
            keys.append((0 if value == "NULL" else 2, 0.0, value))
        else:
            keys.append((1, float(f"{number:.8g}"), ""))
    return tuple(keys)
