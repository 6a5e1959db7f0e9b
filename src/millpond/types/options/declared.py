"""Options and settings as they are declared: each once, as a field of the dataclass that their values make.

    @dataclass(frozen=True)
    class QueryOptions:
        early: int | None = option(None, Span("10s"), "how often open windows are answered", live=True)

All ways in read values by this (`read`, and `OptionReader` of the language, which knows places); help, schemas and the
reference page are made from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from millpond.support.spelling import nearest
from millpond.types.options.value_kinds import Kind, OptionFault, Schema

T = TypeVar("T")

_KEY = "option"


@dataclass(frozen=True)
class Option:
    """An option or a setting.

    kind: how its values are read. about: what it is for, half a sentence. default: where it is not given.
    live: it may change while what it is of runs. derived: streams that are made by a query have it, too.
    of: what kinds of queries have it: 'windows', 'relations', 'pairs', 'rows'; none: it is no option of queries.
    word: 'option', 'setting' or 'limit'.
    """

    name: str
    kind: Kind[Any]
    about: str
    default: Any
    live: bool = False
    derived: bool = False
    of: tuple[str, ...] = ()
    word: str = "option"

    @property
    def called(self) -> str:
        """What errors call it."""
        return f"{self.word} '{self.name}'"

    @property
    def schema(self) -> Schema:
        """What JSON may have, as JSON Schema; null is as if it were not there."""
        found = self.kind.schema
        either = found.get("anyOf", [found])
        default = {} if self.default is None else {"default": self.kind.shown(self.default)}
        return {"anyOf": [*either, {"type": "null"}], "description": self.about, **default}

    def read(self, given: Any) -> Any:
        """The value of what is written or passed. Raises: OptionFault."""
        return self.kind.read(given, self.called)


#: Options by name.
Table = Mapping[str, Option]


def option(default: T, kind: Kind[Any], about: str, **more: Any) -> T:
    """A field of a dataclass that is an option; arguments as of `Option`."""
    return dataclasses.field(default=default, metadata={_KEY: Option("", kind, about, default, **more)})


@cache
def options_of(owner: type) -> Table:
    """The options that a dataclass declares, in order.

    Arguments:
        owner: a dataclass with fields by `option`; others are not to be had by its users.
    """
    found = [
        dataclasses.replace(f.metadata[_KEY], name=f.name) for f in dataclasses.fields(owner) if _KEY in f.metadata
    ]
    return MappingProxyType({o.name: o for o in found})


@cache
def live(owner: type) -> Table:
    """The options of a dataclass that may change while what it is of runs."""
    return MappingProxyType({name: found for name, found in options_of(owner).items() if found.live})


#: What options were called before, and are called now.
RENAMED = {"progress": "event_time"}
#: What other systems call them.
_MEANT = {"watermark": "event_time", "timestamp": "event_time", "rowtime": "event_time", "allowed_lateness": "lateness"}

#: Of each word that options are called by: what is said of one that cannot change, and what would be right.
_STAYS = {
    "setting": ("setting '{}' cannot change while the pond is open", "millpond.open(…, {0}=…)"),
    "option": ("option '{}' stays as it was created", "one that can change: {1}"),
}


def unknown(name: str, known: Table) -> OptionFault:
    """The fault for a name that there is not."""
    word = next(iter(known.values())).word
    if (now := RENAMED.get(name)) in known:
        return OptionFault(f"{word} '{name}' is called {now} now", f"{now}=…")
    here = " here" if word == "option" else ""
    return OptionFault(f"there is no {word} '{name}'{here}", f"one of {', '.join(known)}", _meant(name, known))


def stays(name: str, known: Table) -> OptionFault:
    """The fault for an option that stays as it is. known: those that can change."""
    message, expected = _STAYS[next(iter(known.values())).word]
    return OptionFault(message.format(name), expected.format(name, ", ".join(known)))


def _meant(name: str, known: Table) -> str:
    found = _MEANT.get(name, "")
    return found if found in known else nearest(name, known)


def read(known: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options that are passed as values of Python or JSON; None is as if it were not passed.

    Raises: OptionFault for the first that there is not, or that cannot be so.

    >>> from millpond.types import QueryOptions
    >>> read(options_of(QueryOptions), {"early": "10s", "empty": "report", "since": None})
    {'early': 10000000, 'empty': 'report'}
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise unknown(name, known)
        if value is not None:
            found[name] = known[name].read(value)
    return found
