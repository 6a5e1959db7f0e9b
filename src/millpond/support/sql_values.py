"""Values of Python as SQL constants, and as JSON that says their types."""

from __future__ import annotations

import datetime as dt
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from millpond.support.sql import text_literal

#: Values by name, or in order.
Parameters: TypeAlias = "Mapping[str, Any] | Sequence[Any]"

_MOST = 2**127 - 1
_DIGITS = 38
_TYPE = re.compile(r"[A-Za-z]\w*(?: \w+)*(?:\(\d+(?:, ?\d+)?\))?(?:\[\])*")

#: What says of an object of JSON that it is a value of a type; a mapping with such keys is of the type STRUCT.
_TYPED = frozenset(("type", "value"))
_STRUCT = "STRUCT"
_TOO_DEEP = "a value that is nested so deeply is no constant"

_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")

#: Types whose constants are written as the type and a text.
_WORDS = ("TIMESTAMP", "TIMESTAMPTZ", "DATE", "TIME", "INTERVAL")


class NoConstant(ValueError):
    """A value that SQL has no constant for."""


@dataclass(frozen=True)
class TypedText:
    """A value of a SQL type, as a text: `{"type": "DECIMAL(10, 2)", "value": "1.20"}` in JSON.

    text: or a list or mapping of values, or None, which are cast to the type.
    """

    kind: str
    text: Any

    @property
    def literal(self) -> str:
        """The constant."""
        if not _TYPE.fullmatch(self.kind):
            raise NoConstant(f"'{self.kind}' is not a type")
        if not isinstance(self.text, str):
            return f"CAST({literal(self.text)} AS {self.kind})"
        if self.kind.upper() in _WORDS:
            return f"{self.kind.upper()} {text_literal(self.text)}"
        return f"CAST({text_literal(self.text)} AS {self.kind})"


def literal(value: Any) -> str:
    """A value as a SQL constant of its type.

    Arguments:
        value: None, bool, int, float, str, bytes, Decimal, datetime (with a zone: its instant), date, time, timedelta,
            UUID, NumPy scalars and arrays, Arrow scalars, sequences (lists) and mappings (structs) of these.
    Raises: NoConstant for anything else, and for what is nested too deeply.

    >>> literal("it's"), literal(-3), literal([1.5, None]), literal({"a": True})
    ("'it''s'", '(-3)', '[1.5e0, NULL]', "{'a': TRUE}")
    >>> literal(Decimal("1.20")), literal(dt.datetime(2026, 3, 1, 8))
    ("CAST('1.20' AS DECIMAL(3, 2))", "TIMESTAMP '2026-03-01 08:00:00'")
    """
    try:
        return _literal(typed(value))
    except RecursionError:
        raise NoConstant(_TOO_DEEP) from None


def _literal(found: Any) -> str:
    if isinstance(found, TypedText):
        return found.literal
    if isinstance(found, list):
        return "[" + ", ".join(literal(each) for each in found) + "]"
    if isinstance(found, dict):
        if not found:
            raise NoConstant("an empty mapping has no type")
        return "{" + ", ".join(f"{text_literal(name)}: {literal(each)}" for name, each in found.items()) + "}"
    if isinstance(found, str):
        return text_literal(found)
    if isinstance(found, float):
        text = f"{found!r}" if "e" in repr(found) else f"{found!r}e0"
        return f"({text})" if text.startswith("-") else text
    if isinstance(found, bool) or found is None:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[found]
    return f"({found})" if found < 0 else str(found)


def typed(value: Any) -> Any:
    """A value as JSON has it; what JSON has not as `TypedText`. Lists and mappings are not looked into.

    Raises: NoConstant for what SQL has no constant for.
    """
    value = _plain(value)
    if value is None or isinstance(value, bool | str | TypedText):
        if isinstance(value, str) and _NO_TEXT.search(value):
            raise NoConstant("a text with a NUL character, or with half of a surrogate pair, is no constant")
        return value
    if isinstance(value, int):
        if abs(value) > _MOST:
            raise NoConstant(f"{value} has more than 128 bits")
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else TypedText("DOUBLE", str(value))
    if isinstance(value, Mapping):
        if any(not isinstance(name, str) for name in value):
            raise NoConstant("names of a mapping are texts")
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return list(value)
    return _typed_text(value)


def _plain(value: Any) -> Any:
    """Values of NumPy and Arrow as those of Python."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else value.astype("timedelta64[us]").item()
    if isinstance(value, np.ndarray):
        return _plain(value[()]) if not value.ndim else [_plain(each) for each in value]
    if isinstance(value, memoryview):
        return value.tobytes()
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__module__.startswith("pyarrow") and hasattr(value, "as_py"):
        return value.as_py()
    return value


def _typed_text(value: Any) -> TypedText:
    if isinstance(value, bytes | bytearray):
        return TypedText("BLOB", "".join(f"\\x{byte:02X}" for byte in value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise NoConstant(f"{value} is no DECIMAL")
        scale = max(0, -int(value.as_tuple().exponent))
        digits = max(len(value.as_tuple().digits), scale, value.adjusted() + 1 + scale)
        if digits > _DIGITS:
            raise NoConstant(f"{value} has more than {_DIGITS} digits")
        return TypedText(f"DECIMAL({digits}, {scale})", f"{value:f}")
    if isinstance(value, dt.datetime):
        return TypedText("TIMESTAMP", _in_utc(value).isoformat(" "))
    if isinstance(value, dt.date):
        return TypedText("DATE", value.isoformat())
    if isinstance(value, dt.time) and value.tzinfo is None:
        return TypedText("TIME", value.isoformat())
    if isinstance(value, dt.timedelta):
        micros = round(value / dt.timedelta(microseconds=1))
        return TypedText("INTERVAL", f"{micros} microseconds")
    if isinstance(value, uuid.UUID):
        return TypedText("UUID", str(value))
    raise NoConstant(f"a value of type {type(value).__name__} is no SQL constant")


def _in_utc(value: dt.datetime) -> dt.datetime:
    try:
        return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        raise NoConstant(f"{value} is beyond the years 1 to 9999 in UTC: write it as a text that is cast") from None


def to_json(value: Any) -> Any:
    """A value as JSON; what JSON has not, and mappings that could be taken for it, as `{"type": …, "value": …}`.

    Raises: NoConstant.

    >>> to_json([dt.date(2026, 3, 1), 5])
    [{'type': 'DATE', 'value': '2026-03-01'}, 5]
    """
    try:
        return _to_json(typed(value))
    except RecursionError:
        raise NoConstant(_TOO_DEEP) from None


def _to_json(found: Any) -> Any:
    if isinstance(found, TypedText):
        return {"type": found.kind, "value": found.text}
    if isinstance(found, list):
        return [to_json(each) for each in found]
    if isinstance(found, dict):
        plain = {name: to_json(each) for name, each in found.items()}
        return {"type": _STRUCT, "value": plain} if found.keys() == _TYPED else plain
    return found


def of_json(value: Any) -> Any:
    """What `to_json` was given, or something that is the same SQL constant."""
    if isinstance(value, list):
        return [of_json(each) for each in value]
    if isinstance(value, dict):
        if value.keys() == _TYPED and isinstance(value["type"], str):
            return _of_type(value["type"], value["value"])
        return {name: of_json(each) for name, each in value.items()}
    return value


def _of_type(kind: str, value: Any) -> Any:
    """A value of a type, as JSON has it."""
    if isinstance(value, dict) and kind.upper() == _STRUCT:
        return {name: of_json(each) for name, each in value.items()}
    if isinstance(value, bool | int | float):
        value = str(value).lower()
    return TypedText(kind, of_json(value))


def are_parameters(given: Any) -> bool:
    """Whether something holds values by name or in order.

    >>> are_parameters([5]), are_parameters({"a": 5}), are_parameters(5), are_parameters("a"), are_parameters({5})
    (True, True, False, False, False)
    """
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, Mapping | Sequence) and not isinstance(given, str | bytes | bytearray | memoryview)


def parameters_json(parameters: Parameters) -> Any:
    """Parameters as `POST /v1/statements` takes them. Raises: NoConstant."""
    if not are_parameters(parameters):
        raise NoConstant(f"parameters are a mapping of names, or a list of values: {type(parameters).__name__} is none")
    if isinstance(parameters, Mapping):
        return {name: to_json(each) for name, each in parameters.items()}
    return [to_json(each) for each in parameters]
