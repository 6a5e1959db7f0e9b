"""JSON bodies held to the schema that the document states for them; messages say where, and what would do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from millpond.server.access.limits import Limits
from millpond.server.failures import bad_request, over_limit
from millpond.server.schemas import Schema

_KINDS: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
    "null": (type(None), "null"),
}


def check(schema: Schema, value: Any, limits: Limits, apart: Collection[str] = (), what: str = "the body") -> None:
    """Hold a value to a schema.

    Args:
        apart: fields of the body that are checked by who reads them. what: what the value is called.

    Raises:
        Failure: 400, or 413 beyond a limit of the server.

    >>> check({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"n": 1}, Limits())
    """
    if "oneOf" in schema:
        check(_meant(schema["oneOf"], value), value, limits, apart, what)
        return
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        raise bad_request(f"{what} is of another type than {' or '.join(_KINDS[k][1] for k in kinds)}")
    if "enum" in schema and value not in schema["enum"]:
        raise bad_request(f"{what} is one of {', '.join(map(str, schema['enum']))}")
    for kind, checked in _CHECKS.items():
        if isinstance(value, kind) and not isinstance(value, bool):
            checked(schema, value, limits, what)
    if isinstance(value, dict):
        for name, inside in schema.get("properties", {}).items():
            if name in value and name not in apart:
                check(inside, value[name], limits, (), f"field '{name}'")
    elif isinstance(value, list):
        for number, entry in enumerate(value) if schema["items"] else ():
            check(schema["items"], entry, limits, (), f"{what}, entry {number}")


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _KINDS[kind][0]) and (kind == "boolean" or not isinstance(value, bool))


def _meant(alternatives: list[Schema], value: Any) -> Schema:
    """The alternative that has most of the fields."""
    names = set(value) if isinstance(value, dict) else set()
    return max(alternatives, key=lambda a: len(names & a.get("properties", {}).keys()))


def _number(schema: Schema, value: float, limits: Limits, what: str) -> None:
    least, most = schema.get("minimum"), schema.get("maximum")
    if not ((least is None or value >= least) and (most is None or value <= most)):
        raise bad_request(f"{what} is from {least:,} on" + (f" to {most:,}" if most is not None else ""))
    if (limit := schema.get("x-limit", "")) and value > getattr(limits, limit):
        raise over_limit(413, limit, f"{what} is at most {getattr(limits, limit):,}")


def _text(schema: Schema, value: str, _limits: Limits, what: str) -> None:
    if "\0" in value:
        raise bad_request(f"{what} has a NUL character")
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        raise bad_request(f"{what} has {schema.get('minLength', 0):,} to {schema['maxLength']:,} characters")


def _list(schema: Schema, value: list[Any], _limits: Limits, what: str) -> None:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        raise bad_request(f"{what} has {schema.get('minItems', 0):,} to {schema['maxItems']:,} entries")


def _object(schema: Schema, value: dict[str, Any], _limits: Limits, _what: str) -> None:
    known = schema.get("properties", {})
    unknown = [] if schema.get("additionalProperties", True) else [name for name in value if name not in known]
    if unknown:
        raise bad_request(f"there is no field '{unknown[0][:100]}'; known: {', '.join(known)}")
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        raise bad_request(f"field '{missing[0]}' is missing")


_CHECKS: Final[Mapping[type | tuple[type, ...], Callable[[Schema, Any, Limits, str], None]]] = {
    (int, float): _number,
    str: _text,
    list: _list,
    dict: _object,
}
