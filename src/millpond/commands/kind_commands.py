"""Registering kinds of windows, and forgetting them: checked, and recorded in the catalog."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from millpond.commands.planned import DropKind, Ids, KeepKind, Plan, Record
from millpond.commands.pond_facts import Facts
from millpond.support.errors import QueryError
from millpond.types import KindDefinition, micros_of, to_json
from millpond.windows import registered
from millpond.windows.protocol import WindowKind

#: Times of the years 1970 to 2100 that every kind is tried on, microseconds.
SAMPLES = [int(t) for t in np.random.default_rng(4).integers(0, 4_102_444_800_000_000, 200)]


@dataclass(frozen=True)
class NewKind:
    """A kind of windows that has been tried. fingerprint: of the windows that it gives. length: none is longer."""

    name: str
    kind: WindowKind
    fingerprint: str
    length: int


def tried_kind(name: str, kind: WindowKind, times: Iterable[dt.datetime | int] = ()) -> NewKind:
    """A kind of windows, tried on many times.

    Raises:
        QueryError: it cannot have that name, or is unsound.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise QueryError(f"'{name}' is no name for a window kind: letters, digits and _, not a digit at first")
    if not isinstance(kind, WindowKind):
        raise QueryError("a kind of window has the methods windows(), extent() and wids()")
    seen = _windows(name, kind, SAMPLES)
    tried = [*seen, *_windows(name, kind, (t if isinstance(t, int) else micros_of(t) for t in times))]
    if not tried:
        raise QueryError(
            f"window kind '{name}': none of the times that were tried lies in a window; give some in `times`"
        )
    longest = registered.Axis(name, kind).longest
    length = max(end - start for _, start, end in tried) if longest is None else longest
    return NewKind(name, kind, _digest(seen), length)


def fits(known: KindDefinition, kind: WindowKind) -> bool:
    """Whether a kind gives the windows that it gave when it was registered."""
    return _digest(_windows(known.name, kind, SAMPLES)) == known.fingerprint


def check_fits(known: KindDefinition, kind: WindowKind) -> None:
    """Refuse other windows under a name that is known. Raises: QueryError."""
    if not fits(known, kind):
        raise QueryError(
            f"the window kind '{known.name}' gives other windows than when it was registered; answers would not fit"
            " together: register it under another name"
        )


def register_kind(facts: Facts, new: NewKind) -> Plan:
    """Plan `Pond.register_window_kind`. Raises: QueryError when the name stands for other windows."""
    known = facts.catalog.kinds.get(new.name.lower())
    if known is not None:
        check_fits(known, new.kind)
        return Plan(f"window kind {known.name} is known", (KeepKind(known.reference, new.kind),))
    ids = Ids(facts)
    number = ids.take()
    reference = f"{new.name}@{facts.opening[:8]}.{number}"
    definition = KindDefinition(new.name, reference, new.fingerprint, new.length, number)
    record = Record(({"do": "create_kind", "definition": to_json(definition)},))
    return Plan(f"window kind {new.name} registered", (KeepKind(reference, new.kind), record), ids.used)


def drop_kind(facts: Facts, name: str) -> Plan:
    """Plan `Pond.drop_window_kind`. Raises: QueryError when there is none of that name, or queries use it."""
    known = facts.catalog.kinds.get(name.lower())
    if known is None:
        raise QueryError(f"there is no window kind '{name}'")
    users = sorted(q.definition.name for q in facts.catalog.of_kind(known.reference))
    if users:
        raise QueryError(f"window kind {known.name} is used by {', '.join(users)}; drop these first")
    record = Record(({"do": "drop_kind", "name": known.name},))
    return Plan(f"window kind {known.name} dropped", (record, DropKind(known.reference)))


def _digest(windows: list[tuple[int, int, int]]) -> str:
    return hashlib.blake2b(json.dumps(windows).encode(), digest_size=8).hexdigest()


def _windows(name: str, kind: WindowKind, times: Iterable[int]) -> list[tuple[int, int, int]]:
    """The windows (id, start, end) that hold some times.

    Raises: QueryError when it is unsound there: extent() and wids() disagree (Li's duality), windows() differs from
    both, or ends do not ascend with ids.
    """
    axis = registered.Axis(name, kind)
    seen: list[tuple[int, int, int]] = []
    for time in times:
        at = time // axis.grid * axis.grid
        held = axis.held(at)
        near = [*held, held.start - 1, held.stop] if len(held) else []
        for wid in near:
            try:
                start, end = axis.extent(wid)
            except QueryError:
                if wid in held:
                    raise
                continue
            if start <= at < end and wid not in held:
                raise QueryError(
                    f"window kind '{name}': extent({wid}) covers time {at}, and wids({at}) does not have window {wid}"
                )
        if len(held) and sorted(kind.windows([at], registered.FOREVER)) != list(held):
            raise QueryError(f"window kind '{name}': windows([{at}]) and wids({at}) differ")
        seen += [(wid, *axis.extent(wid)) for wid in held]
    ordered = sorted(set(seen))
    for (one, _, end), (other, _, later) in pairwise(ordered):
        if later <= end:
            raise QueryError(
                f"window kind '{name}': ids are in the order of ends, and window {other} does not end after {one}"
            )
    return ordered
