"""Axes: how values of a type are ordered for the predicate index, and where a constant stands among them.

A comparison of an expression with a constant means what DuckDB means by it: which type it compares in, how it rounds
the constant. Whatever is not known for certain has no place on the axis (None), and the factor is evaluated as SQL.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from millpond.language.inference.duck import evaluate
from millpond.support.sql import text_literal
from millpond.types import micros_of

Form = Literal["integer", "decimal", "float", "text", "boolean", "DATE", "TIMESTAMP", "TIMESTAMPTZ"]
Kind = Literal["integer", "float", "text"]
Value: TypeAlias = "int | float | str | Fraction"

_LOW, _HIGH = -(2**63), 2**63 - 1
_INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (_LOW, _HIGH),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_NUMBER = re.compile(r"(\d*)(?:\.(\d*))?(?:[eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.(?:\d{3}|\d{6}))?", re.ASCII)
_DAY = 86_400_000_000
_FIRST_DAY = dt.date(1970, 1, 1).toordinal()

#: Digits of a decimal constant, or of a whole number beside one, so that no common type of DuckDB is too narrow.
_DIGITS, _WHOLE = 18, 19


class ConstantFault(ValueError):
    """A constant that DuckDB would refuse as a value of the type; `text` is the constant."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(f"'{text}' is not a value of type {kind}")
        self.text = text


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant as written: digits (with `negative` before them), a text, 'true' or 'false', or a typed text.

    slot: its number among the constants of the statement, where a template wants to know.
    """

    form: Form
    text: str
    negative: bool = False
    slot: int | None = None


#: A constant's place, and the type in which it is compared: constants of one IN or BETWEEN must agree in that.
Place: TypeAlias = "tuple[str, Value] | None"


@dataclass(frozen=True)
class Axis:
    """An attribute of the predicate index.

    attribute, kind: as of `millpond.types.Interval`. place: where a constant stands.
    low, high: the smallest and largest value of an integer axis.
    """

    attribute: str
    kind: Kind
    place: Callable[[Constant], Place]
    low: int = _LOW
    high: int = _HIGH


def truth_attribute(sql: str) -> str:
    """The attribute that is 1 where a condition holds, 0 where not."""
    return f"CAST(({sql}) AS BIGINT)"


def axis_of(sql: str, kind: str) -> Axis | None:
    """The axis of an expression of a DuckDB type; None for types that are compared by DuckDB alone."""
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        return Axis(sql, "integer", _place_integer(kind), low, high)
    if kind == "UBIGINT":
        expression = f"CAST(CAST({sql} AS HUGEINT) - 9223372036854775808 AS BIGINT)"
        return Axis(expression, "integer", _shifted(_place_integer(kind)))
    if (found := _DECIMAL.fullmatch(kind)) and int(found[1]) <= 18:
        width, scale = int(found[1]), int(found[2])
        expression = f"CAST(CAST({sql} AS DECIMAL(38, {scale})) * {10**scale} AS BIGINT)"
        bound = 10**width - 1
        return Axis(expression, "integer", _place_decimal(kind, scale), -bound, bound)
    if kind == "BOOLEAN":
        return Axis(truth_attribute(sql), "integer", _place_boolean, 0, 1)
    if kind in ("DOUBLE", "FLOAT"):
        return Axis(sql, "float", _place_double if kind == "DOUBLE" else _place_float)
    if kind == "VARCHAR":
        return Axis(sql, "text", _place_text)
    if kind == "DATE":
        return Axis(f"CAST(({sql}) - DATE '1970-01-01' AS BIGINT)", "integer", _place_date, -(2**31), 2**31)
    if kind in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        return Axis(_microseconds(sql, kind), "integer", _place_time(kind))
    if kind.startswith("ENUM(") and not kind.endswith("]"):  # compared by order, the constants have the ENUM's type
        return Axis(f"CAST({sql} AS VARCHAR)", "text", _place_text)
    if kind == "UUID":
        return Axis(f"CAST({sql} AS VARCHAR)", "text", _place_uuid)
    return None


def _microseconds(sql: str, kind: str) -> str:
    """Microseconds since 1970; infinite times come before and behind all others."""
    origin = "TIMESTAMPTZ '1970-01-01 00:00:00+00'" if kind != "TIMESTAMP" else "TIMESTAMP '1970-01-01'"
    outside = f"WHEN ({sql}) > {origin} THEN {_HIGH} WHEN ({sql}) < {origin} THEN {-_HIGH}"
    return f"coalesce(epoch_us({sql}), CASE {outside} END)"


# -- places ------------------------------------------------------------------------------------------------------


def _exact(constant: Constant, scale: int = 0) -> Place:
    """A whole number or a decimal beside integers and decimals, which DuckDB compares without rounding.

    scale: how many digits behind the point count as whole.
    """
    text = constant.text
    if constant.form == "integer":
        value = -int(text) if constant.negative else int(text)
        if len(text) <= _WHOLE:
            return "number", value * 10**scale
        return ("huge", value * 10**scale) if len(text) < 38 else None
    if constant.form != "decimal" or len(text) > _DIGITS + 1:
        return None
    whole, _, part = text.partition(".")
    value = int(whole + part)
    if constant.negative:
        value = -value
    behind = len(part) - scale
    return "number", value * 10**-behind if behind <= 0 else _simple(Fraction(value, 10**behind))


def _place_integer(kind: str) -> Callable[[Constant], Place]:
    small = kind not in ("BIGINT", "UBIGINT")

    def place(constant: Constant) -> Place:
        if constant.form == "text":
            return "text", _whole(constant.text, kind)
        if constant.form == "float" and small:  # a DOUBLE holds every value of the type
            value = _literal_float(constant)
            return None if value is None else ("float", Fraction(value))
        return _exact(constant)

    return place


def _shifted(place: Callable[[Constant], Place]) -> Callable[[Constant], Place]:
    def shifted(constant: Constant) -> Place:
        found = place(constant)
        return None if found is None or isinstance(found[1], str) else (found[0], found[1] - 2**63)

    return shifted


def _place_decimal(kind: str, scale: int) -> Callable[[Constant], Place]:
    def place(constant: Constant) -> Place:
        if constant.form == "text":
            value = _fold(f"TRY_CAST({text_literal(constant.text)} AS {kind})", constant.text, kind)
            assert isinstance(value, Decimal)
            return "text", int(value.scaleb(scale))
        return _exact(constant, scale)

    return place


def _simple(value: int | float | Fraction) -> int | float | Fraction:
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def _place_boolean(constant: Constant) -> Place:
    return ("boolean", int(constant.text == "true")) if constant.form == "boolean" else None


def _place_double(constant: Constant) -> Place:
    if constant.form == "text":
        value = _fold(f"TRY_CAST({text_literal(constant.text)} AS DOUBLE)", constant.text, "DOUBLE")
        return ("text", value + 0.0) if math.isfinite(value) else None
    number = _literal_float(constant)
    return None if number is None else ("number", number)


def _place_float(constant: Constant) -> Place:
    if constant.form == "float":  # compared as DOUBLE
        number = _literal_float(constant)
        return None if number is None else ("double", number)
    if constant.form in ("integer", "decimal") and len(constant.text) <= 36 and _NUMBER.fullmatch(constant.text):
        sign = "-" if constant.negative else ""
        value = _fold(f"CAST(TRY_CAST({sign}{constant.text} AS FLOAT) AS DOUBLE)", constant.text, "FLOAT")
        return ("float", value + 0.0) if math.isfinite(value) else None
    if constant.form == "text":
        literal = text_literal(constant.text)
        value = _fold(f"CAST(TRY_CAST({literal} AS FLOAT) AS DOUBLE)", constant.text, "FLOAT")
        return ("text", value + 0.0) if math.isfinite(value) else None
    return None


def _literal_float(constant: Constant) -> float | None:
    """A number as DOUBLE, where that cannot depend on how it is rounded twice."""
    if constant.form not in ("integer", "decimal", "float"):
        return None
    found = _NUMBER.fullmatch(constant.text)
    if found is None:
        return None
    digits = len(found[1].lstrip("0") + (found[2] or ""))
    value = float(constant.text)
    if not math.isfinite(value):
        return None
    if constant.form != "float" and digits > 15:
        if digits > 36:
            return None
        value = _fold(f"CAST({constant.text} AS DOUBLE)", constant.text, "DOUBLE")
    return (-value if constant.negative else value) + 0.0


def _place_text(constant: Constant) -> Place:
    return ("text", constant.text) if constant.form == "text" and "\0" not in constant.text else None


def _place_uuid(constant: Constant) -> Place:
    if constant.form != "text":
        return None
    sql = f"CAST(TRY_CAST({text_literal(constant.text)} AS UUID) AS VARCHAR)"
    return "text", _fold(sql, constant.text, "UUID")


def _place_date(constant: Constant) -> Place:
    if constant.form in ("text", "DATE"):
        return "date", _days(constant.text)
    if constant.form in ("TIMESTAMP", "TIMESTAMPTZ"):
        value = _instant(constant.text, constant.form)
        return None if value is None else ("time", _simple(Fraction(value, _DAY)))
    return None


def _place_time(kind: str) -> Callable[[Constant], Place]:
    zoned = kind != "TIMESTAMP"

    def place(constant: Constant) -> Place:
        if constant.form == "text":
            value = _instant(constant.text, "TIMESTAMPTZ" if zoned else "TIMESTAMP")
        elif constant.form == "DATE":
            days = _days(constant.text)
            value = days * _DAY if abs(days) < 100_000_000 else None
        elif constant.form in ("TIMESTAMP", "TIMESTAMPTZ"):
            value = _instant(constant.text, constant.form)
        else:
            return None
        # a text beside a value with a zone would be read with its offset
        return None if value is None else ("zone" if constant.form == "TIMESTAMPTZ" and not zoned else "time", value)

    return place


# -- constants by DuckDB -----------------------------------------------------------------------------------------


def _whole(text: str, kind: str) -> int:
    if len(text) <= 18 and text.isascii() and text.isdigit():
        value = int(text)
        if value <= _INTEGERS.get(kind, (0, _HIGH))[1]:
            return value
    return int(_fold(f"TRY_CAST({text_literal(text)} AS {kind})", text, kind))


def _days(text: str) -> int:
    if _DATE.fullmatch(text):
        try:
            return dt.date.fromisoformat(text).toordinal() - _FIRST_DAY
        except ValueError:
            pass
    return int(_fold(f"TRY_CAST({text_literal(text)} AS DATE) - DATE '1970-01-01'", text, "DATE"))


def _instant(text: str, kind: str) -> int | None:
    """Microseconds of a time; None for an infinite one."""
    if _TIME.fullmatch(text):
        try:
            return micros_of(dt.datetime.fromisoformat(text))
        except ValueError:
            pass
    value = int(_fold(_microseconds(f"TRY_CAST({text_literal(text)} AS {kind})", kind), text, kind))
    return value if abs(value) != _HIGH else None


def _fold(sql: str, text: str, kind: str) -> Any:
    value = _folded(sql)
    if value is None:
        raise ConstantFault(text, kind)
    return value


@functools.lru_cache(maxsize=4096)
def _folded(sql: str) -> Any:
    return evaluate(sql)
