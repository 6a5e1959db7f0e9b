"""Values as JSON, and back."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar

T = TypeVar("T")

#: How a value of JSON becomes one of a field; None: it stays as it is.
Reader = Callable[[Any], Any] | None

#: The key that says which class of a union a value is of.
TAG = "type"

_PLAIN = frozenset((str, int, float, bool, type(None)))


class Variant:
    """A class of a union: it is written with its own name, by which it is read back.

    So its name is part of what is kept on disk; a class that gets another name reads the old one in `upgraded`.
    """

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """JSON without a name, from before there was a union, as a class of the union writes it."""
        raise ValueError(f"a {cls.__name__} without its name: {value}")


class Upgraded:
    """A class whose JSON of earlier versions is read, too."""

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """JSON of this version or an earlier one as this version writes it."""
        return value


class Written(ABC):
    """A class that says itself how it is written as JSON."""

    @abstractmethod
    def written(self) -> Any:
        """It as JSON."""

    @classmethod
    @abstractmethod
    def read(cls, value: Any) -> Self:
        """What `written` gave, now or in an earlier version."""


def to_json(value: Any) -> Any:
    """A dataclass of this module as JSON-ready dicts and lists; one of a union says which (`Variant`)."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    write = _writer(typing.cast(Any, kind))
    return value if write is None else write(value)


def from_json(kind: type[T], value: Any) -> T:
    """The dataclass `kind` from what `to_json` gave; unknown fields are ignored, missing ones take their default."""
    if issubclass(kind, Upgraded) or (issubclass(kind, Variant) and TAG not in value):
        value = kind.upgraded(value)
    readers, found = _readers(typing.cast(Any, kind)), {}
    for name, v in value.items():
        if name in readers:
            read = readers[name]
            found[name] = v if v is None or read is None else read(v)
    return kind(**found)


# Catalogs and manifests are read and written in every epoch; looking at classes and annotations is far dearer than
# reading a value, so both are looked at once.
@functools.cache
def _writer(kind: Any) -> Callable[[Any], Any] | None:
    """How values of a class become JSON; None: they are it."""
    if issubclass(kind, Written):
        return lambda value: value.written()
    tag = {TAG: kind.__name__} if issubclass(kind, Variant) else {}
    if dataclasses.is_dataclass(kind):
        names = tuple(f.name for f in dataclasses.fields(kind))

        def fields(value: Any) -> dict[str, Any]:
            found = dict(tag)
            for name in names:
                v = getattr(value, name)
                found[name] = v if type(v) in _PLAIN else to_json(v)
            return found

        return fields
    if issubclass(kind, (list, tuple)):
        return lambda values: [v if type(v) in _PLAIN else to_json(v) for v in values]
    if issubclass(kind, dict):
        return lambda values: {k: v if type(v) in _PLAIN else to_json(v) for k, v in values.items()}
    return None


@functools.cache
def _readers(kind: Any) -> dict[str, Reader]:
    hints = typing.get_type_hints(kind)
    return {each.name: _reader(hints[each.name]) for each in dataclasses.fields(kind)}


def _read(reader: Reader, value: Any) -> Any:
    return value if value is None or reader is None else reader(value)


@functools.cache
def _reader(hint: Any) -> Reader:
    if isinstance(hint, TypeVar):
        return _reader(hint.__bound__)
    origin = typing.get_origin(hint)
    if origin is types.UnionType or origin is typing.Union:
        inner = [a for a in typing.get_args(hint) if a is not type(None) and typing.get_origin(a) is not Literal]
        return _reader(inner[0]) if len(inner) == 1 else _variant_reader(tuple(inner))
    if origin is tuple:
        items = typing.get_args(hint)
        if len(items) > 1 and items[1] is not Ellipsis:
            return _place_reader(tuple(map(_reader, items)))
        item = _reader(items[0])
        return tuple if item is None else lambda values: tuple([_read(item, v) for v in values])
    if origin is dict:
        key, inside = typing.get_args(hint)
        entry = _reader(inside)
        if key is int:  # JSON has no keys but texts
            return lambda values: {int(k): _read(entry, v) for k, v in values.items()}
        return dict if entry is None else lambda values: {k: _read(entry, v) for k, v in values.items()}
    return _record_reader(hint)


def _place_reader(places: tuple[Reader, ...]) -> Reader:
    """Reads a tuple whose places have types of their own."""
    if not any(places):
        return tuple
    return lambda values: tuple([_read(reader, v) for reader, v in zip(places, values, strict=True)])


def _record_reader(hint: Any) -> Reader:
    if isinstance(hint, type) and issubclass(hint, Written):
        return hint.read
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return functools.partial(from_json, hint)  # its own fields are looked at later: a class may contain itself
    return None


def _variant_reader(inner: tuple[Any, ...]) -> Reader:
    """Reads a class of a union; None where it is no union of variants."""
    variants = {kind.__name__: kind for kind in inner if isinstance(kind, type) and issubclass(kind, Variant)}
    if not variants:
        return None
    upgraded = next(iter(variants.values())).upgraded
    readers = {name: functools.partial(from_json, kind) for name, kind in variants.items()}

    def read(value: Any) -> Any:
        value = value if TAG in value else upgraded(value)
        return readers[value[TAG]](value)

    return read


def union_from_json(union: Any, value: Any) -> Any:
    """One of the classes of a union of variants from what `to_json` gave."""
    return _read(_reader(union), value)
