"""An operation of the server as a value: what `app` dispatches to, checks arguments with, and `openapi` documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from starlette.datastructures import QueryParams

from millpond.server.auth import Role
from millpond.server.failures import bad_request

if TYPE_CHECKING:
    from millpond.server.call import Call

#: A handler gives an ASGI response.
Handler = Callable[["Call"], Awaitable[Any]]

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


@dataclass(frozen=True)
class Operation:
    """One method on one path.

    bodies: media type → JSON schema of the body (None: not JSON). answers: status → (summary, media types → schema).
    role: the least role; None: no token needed. long: it may wait for the engine, in threads of its own.
    big: its body may be as large as an ingest. optional_body: it may be empty.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    name: str
    summary: str
    handler: Handler
    role: Role | None = "read"
    parameters: tuple[Parameter, ...] = ()
    bodies: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[int, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    long: bool = False
    big: bool = False
    optional_body: bool = False

    def arguments(self, query: QueryParams, path: Mapping[str, str]) -> dict[str, Any]:
        """All path and query parameters, checked.

        Raises: Failure 400 for one that is unknown, given twice or wrong.
        """
        known = {p.name: p for p in self.parameters if p.place == "query"}
        found: dict[str, Any] = {}
        for name, text in query.multi_items():
            if name not in known:
                raise bad_request(f"there is no parameter '{name[:100]}'; known: {', '.join(known) or 'none'}")
            if name in found:
                raise bad_request(f"'{name}' is given twice")
            found[name] = known[name].read(text)
        for parameter in self.parameters:
            if parameter.place == "path":
                # The router matched the encoded path, so that a name may have a slash.
                try:
                    found[parameter.name] = parameter.read(unquote(path[parameter.name], errors="strict"))
                except UnicodeDecodeError:
                    raise bad_request(f"'{parameter.name}' is not UTF-8") from None
        return found


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


__all__ = ["Handler", "Operation", "Parameter", "fields_of"]
