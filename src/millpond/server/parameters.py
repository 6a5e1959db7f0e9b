"""Parameters of operations and fields of JSON bodies: read and checked, with a message that says what would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from millpond.server.failures import bad_request

_MOST_TEXT = 4_000


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation. `least`, `most`: bounds of an integer or number."""

    name: str
    kind: Literal["string", "integer", "number", "boolean"] = "string"
    summary: str = ""
    place: Literal["query", "path", "header"] = "query"
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    example: str | None = None

    def read(self, text: str) -> Any:
        """The value of it. Raises: Failure 400."""
        if len(text) > _MOST_TEXT or any(ord(c) < 32 or ord(c) == 127 for c in text):
            raise bad_request(f"'{self.name}' has at most {_MOST_TEXT:,} printable characters")
        if self.kind == "string":
            if self.choices and text not in self.choices:
                raise bad_request(f"'{self.name}' is one of {', '.join(self.choices)}")
            return text
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise bad_request(f"'{self.name}' is true or false")
            return text == "true"
        try:
            if not text.isascii() or len(text) > 30 or "_" in text or text != text.strip():
                raise ValueError
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            what = "a whole number" if self.kind == "integer" else "a number"
            raise bad_request(f"'{self.name}' is {what}") from None
        least, most = self.least, self.most
        if not ((least is None or value >= least) and (most is None or value <= most)):  # false for NaN, too
            raise bad_request(f"'{self.name}' is from {least:g} on" + (f" to {most:,g}" if most is not None else ""))
        return value


def fields_of(body: Any, known: Mapping[str, type | tuple[type, ...]], required: Sequence[str]) -> dict[str, Any]:
    """The fields of a JSON object, checked by type.

    Raises: Failure 400 for a body that is no object, unknown or missing fields, and wrong types.

    >>> fields_of({"a": 1}, {"a": int, "b": str}, ["a"])
    {'a': 1}
    """
    if not isinstance(body, dict):
        raise bad_request("the body is a JSON object")
    for name, value in body.items():
        if name not in known:
            raise bad_request(f"there is no field '{name[:100]}'; known: {', '.join(known)}")
        kinds = known[name]
        if not isinstance(value, kinds) or (
            isinstance(value, bool) and kinds is not bool and bool not in _kinds(kinds)
        ):
            raise bad_request(f"field '{name}' is of another type than {_names(kinds)}")
        if isinstance(value, str) and "\0" in value:
            raise bad_request(f"field '{name}' has a NUL character")
    missing = [name for name in required if name not in body]
    if missing:
        raise bad_request(f"field '{missing[0]}' is missing")
    return body


def _kinds(kinds: type | tuple[type, ...]) -> tuple[type, ...]:
    return kinds if isinstance(kinds, tuple) else (kinds,)


def _names(kinds: type | tuple[type, ...]) -> str:
    names = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}
    return " or ".join(names.get(kind, "null") for kind in _kinds(kinds))


__all__ = ["Parameter", "fields_of"]
