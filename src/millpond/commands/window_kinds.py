"""Registering kinds of windows: checked, recorded in the catalog, asked for again when the pond is opened."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np

from millpond.engine.core import Core
from millpond.support.errors import PondError, QueryError
from millpond.types import KindDefinition, micros_of, to_json
from millpond.windows import registered
from millpond.windows.protocol import WindowKind

#: Times of the years 1970 to 2100 that every kind is tried on, microseconds.
SAMPLES = [int(t) for t in np.random.default_rng(4).integers(0, 4_102_444_800_000_000, 200)]


class WindowKinds:
    """The registered kinds of an open pond."""

    def __init__(self, core: Core, given: Mapping[str, WindowKind] | None = None) -> None:
        self.core = core
        self.open(given or {})

    def open(self, given: Mapping[str, WindowKind]) -> None:
        """Take the kinds that a pond needs when it is opened.

        Raises: PondError when one is missing that queries use, QueryError when it gives other windows than before.
        """
        catalog = self.core.catalog
        wanted = {name.lower(): kind for name, kind in given.items()}
        registered.withdraw(self.core.path)
        for name, known in catalog.kinds.items():
            users = sorted(q.definition.name for q in catalog.of_kind(known.reference))
            if name in wanted:
                self._take(known, wanted.pop(name))
            elif users:
                raise PondError(
                    f"{', '.join(users)} use{'s' if len(users) == 1 else ''} the window kind '{known.name}', which is"
                    f" Python code that a pond does not keep: open it with window_kinds={{'{known.name}': …}}"
                )
        for name, kind in wanted.items():
            self.register(name, kind)

    def register(self, name: str, kind: WindowKind, times: Iterable[dt.datetime | int] = ()) -> str:
        """See `Pond.register_window_kind`."""
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
        fingerprint = _digest(seen)
        core = self.core
        with core.lock:
            known = core.catalog.kinds.get(name.lower())
            if known is not None:
                self._take(known, kind)
                return f"window kind {known.name} is known"
            number = core.register.reserve_id(core.catalog.next_id)
            longest = registered.Axis(name, kind).longest
            length = max(end - start for _, start, end in tried) if longest is None else longest
            definition = KindDefinition(
                name, f"{name}@{core.ownership.opening[:8]}.{number}", fingerprint, length, number
            )
            registered.share(core.path, definition.reference, kind)
            registered.put(definition.reference, kind)
            core.catalog_log.record({"do": "create_kind", "definition": to_json(definition)})
        return f"window kind {name} registered"

    def drop(self, name: str) -> str:
        """See `Pond.drop_window_kind`."""
        core = self.core
        with core.lock:
            known = core.catalog.kinds.get(name.lower())
            if known is None:
                raise QueryError(f"there is no window kind '{name}'")
            users = sorted(q.definition.name for q in core.catalog.of_kind(known.reference))
            if users:
                raise QueryError(f"window kind {known.name} is used by {', '.join(users)}; drop these first")
            core.catalog_log.record({"do": "drop_kind", "name": known.name})
            registered.drop(known.reference)
            registered.withdraw(core.path, [k.reference for k in core.catalog.kinds.values()])
        return f"window kind {known.name} dropped"

    def close(self) -> None:
        """Forget the kinds in this process."""
        registered.withdraw(self.core.path)
        for known in self.core.catalog.kinds.values():
            registered.drop(known.reference)

    def _take(self, known: KindDefinition, kind: WindowKind) -> None:
        if _digest(_windows(known.name, kind, SAMPLES)) != known.fingerprint:
            raise QueryError(
                f"the window kind '{known.name}' gives other windows than when it was registered; answers would not fit"
                " together: register it under another name"
            )
        registered.share(self.core.path, known.reference, kind)
        registered.put(known.reference, kind)


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
