"""Values as JSON, and back."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any, Literal, TypeVar

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """A dataclass of this module as JSON-ready dicts and lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, dict):
        return {k: to_json(v) for k, v in value.items()}
    return value


def from_json(kind: type[T], value: Any) -> T:
    """The dataclass `kind` from what `to_json` gave; unknown fields are ignored, missing ones take their default."""
    hints = _hints(typing.cast(Any, kind))
    return kind(**{k: _read(hints[k], v) for k, v in value.items() if k in hints})


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)  # evaluates every annotation: far dearer than reading a value


def _read(hint: Any, value: Any) -> Any:
    origin = typing.get_origin(hint)
    if value is None or origin is Literal:
        return value
    if origin is types.UnionType or origin is typing.Union:
        inner = [a for a in typing.get_args(hint) if a is not type(None) and typing.get_origin(a) is not Literal]
        return _read(inner[0], value) if len(inner) == 1 and dataclasses.is_dataclass(inner[0]) else value
    if origin is tuple:
        return tuple(_read(typing.get_args(hint)[0], v) for v in value)
    if origin is dict:
        return {k: _read(typing.get_args(hint)[1], v) for k, v in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value)
    return value
