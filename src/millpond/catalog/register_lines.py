"""A line of the register's log: one registration, drop or change of status, as compact JSON that stands for itself."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from millpond.support.checksums import sealed, unsealed
from millpond.types import Interval, QueryOptions, RowQuery, Variant, from_json
from millpond.types.json_records import TAG, Written

_PLAIN = QueryOptions()

RegisterStatus = Literal["live", "paused"]


@dataclass(frozen=True)
class NewSelection:
    """A selection to register.

    streams: ids of the streams that its sides read, side by side. text: as it was written.
    name: None for one that is called '#<id>'. owner: whom limits count it for.
    epoch: the last epoch that was published when it came. replaces: id of the query whose name it takes over.
    version, previous: of CREATE OR REPLACE, as in the catalog.
    """

    selection: RowQuery
    streams: tuple[int, ...]
    text: str = ""
    name: str | None = None
    owner: str = ""
    options: QueryOptions = _PLAIN
    epoch: int = 0
    replaces: int | None = None
    version: int = 1
    previous: tuple[int, ...] = ()


@dataclass(frozen=True)
class Registered:
    """A registered selection as it stands. registered_epoch: the last epoch published when it was registered."""

    id: int
    name: str
    owner: str
    selection: RowQuery
    options: QueryOptions
    status: RegisterStatus
    registered_epoch: int
    streams: tuple[int, ...] = ()
    text: str = ""
    version: int = 1
    previous: tuple[int, ...] = ()


@functools.cache
def _fields(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Field names of a dataclass with their defaults."""
    return tuple((f.name, f.default) for f in dataclasses.fields(kind))


def compact(value: Any) -> Any:
    """As `to_json`, without the fields that have their default value; `from_json` reads it.

    >>> compact(Interval('"a"', "integer", low=1))
    {'attribute': '"a"', 'kind': 'integer', 'low': 1}
    """
    kind: Any = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if kind in (tuple, list):
        return [compact(v) for v in value]
    if issubclass(kind, Written):
        return value.written()
    shown: dict[str, Any] = {TAG: kind.__name__} if issubclass(kind, Variant) else {}
    for name, default in _fields(kind):
        field = getattr(value, name)
        # 1 == True and 0.0 == -0.0: only the same kind of default may be left out.
        if field is default or (field == default and type(field) is type(default) and type(field) is not float):
            continue
        shown[name] = compact(field)
    return shown


def _textless(selection: RowQuery) -> RowQuery:
    """Without its text, which stands in the line by itself."""
    return replace(selection, query=replace(selection.query, text="")) if selection.query.text else selection


def add_fragment(new: NewSelection) -> bytes:
    """The part of an add line that does not depend on the id."""
    selection = compact(_textless(new.selection))
    event: dict[str, Any] = {"streams": new.streams, "text": new.text, "selection": selection}
    for name in ("name", "owner", "epoch", "replaces", "previous"):
        if (value := getattr(new, name)) not in (None, "", 0, ()):
            event[name] = value
    if new.version != 1:
        event["version"] = new.version
    if options := compact(new.options):
        event["options"] = options
    return json.dumps(event, separators=(",", ":")).encode()[1:]


def add_line(query: int, fragment: bytes) -> bytes:
    """The add line of a query from its fragment."""
    return sealed(b'{"do":"add","id":%d,' % query + fragment) + b"\n"


def fit_event(added: dict[str, Any], selection: RowQuery) -> dict[str, Any]:
    """The event that gives the query of an add line, or of such an event's, another definition."""
    kept = {k: v for k, v in added.items() if k != "replaces"}  # that was done when it came
    return {**kept, "do": "fit", "selection": compact(_textless(selection))}


def as_added(line: bytes) -> bytes:
    """The line of a query as a log has it that begins with it, in as many bytes.

    >>> as_added(b'{"do":"fit","id":7}\\n')
    b'{"do":"add","id":7}\\n'
    """
    if not line.startswith(b'{"do":"fit"'):
        return line
    written = line.removesuffix(b"\n")
    plain = unsealed(written)
    added = plain.replace(b'{"do":"fit"', b'{"do":"add"', 1)
    return (added if len(plain) == len(written) else sealed(added)) + b"\n"


def other_line(event: dict[str, Any]) -> bytes:
    """A line of any other event."""
    return sealed(json.dumps(event, separators=(",", ":")).encode()) + b"\n"


def boxes_in(side: dict[str, Any]) -> tuple[tuple[Interval, ...], ...]:
    """The boxes of a side from its JSON; quicker than the general reader, since opening reads very many."""
    boxes = side.get("boxes")
    return ((),) if boxes is None else tuple(tuple(Interval(**i) for i in box) for box in boxes)


def name_of(query: int, name: str | None) -> str:
    """What a query is called."""
    return f"#{query}" if name is None else name


def registered(event: dict[str, Any], status: RegisterStatus) -> Registered:
    """The query of an add line, read and parsed."""
    selection = from_json(RowQuery, event["selection"])
    sides = tuple(
        replace(side, boxes=boxes_in(written))
        for side, written in zip(selection.sides, event["selection"]["sides"], strict=True)
    )
    text = event.get("text", "")
    return Registered(
        event["id"],
        name_of(event["id"], event.get("name")),
        event.get("owner", ""),
        replace(selection, query=replace(selection.query, text=text), sides=sides),
        from_json(QueryOptions, event.get("options", {})),
        status,
        event.get("epoch", 0),
        tuple(event["streams"]),
        text,
        event.get("version", 1),
        tuple(event.get("previous", ())),
    )


def sides_of(streams: Sequence[int]) -> list[int]:
    """Which sides of a selection the predicate index of their stream holds.

    The two sides of a stream joined with itself would be one query of one index: they are left to be matched on demand.
    """
    return [] if len(set(streams)) < len(streams) else list(range(len(streams)))
