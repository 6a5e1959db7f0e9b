"""The registered kinds of windows of an open pond: code that a pond does not keep, asked for at every opening."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from millpond.archive.open_archives import Archives
from millpond.commands.execution.performing import CarryOut
from millpond.commands.kind_commands import check_fits, drop_kind, register_kind, tried_kind
from millpond.support.errors import PondError
from millpond.windows import registered
from millpond.windows.protocol import WindowKind


class WindowKinds:
    """The registered kinds of an open pond.

    Arguments:
        archives: of the pond. carry_out: plans, and carries out. given: kinds by name, which the pond may need.
    """

    def __init__(self, archives: Archives, carry_out: CarryOut, given: Mapping[str, WindowKind] | None = None) -> None:
        self._archives, self._carry_out = archives, carry_out
        self.open(given or {})

    def open(self, given: Mapping[str, WindowKind]) -> None:
        """Take the kinds that a pond needs when it is opened.

        Raises: PondError when one is missing that queries use, QueryError when it gives other windows than before.
        """
        catalog = self._archives.catalog
        wanted = {name.lower(): kind for name, kind in given.items()}
        registered.withdraw(self._archives.path)
        for name, known in catalog.kinds.items():
            users = sorted(q.definition.name for q in catalog.of_kind(known.reference))
            if name in wanted:
                kind = wanted.pop(name)
                check_fits(known, kind)
                registered.share(self._archives.path, known.reference, kind)
                registered.put(known.reference, kind)
            elif users:
                raise PondError(
                    f"{', '.join(users)} use{'s' if len(users) == 1 else ''} the window kind '{known.name}', which is"
                    f" Python code that a pond does not keep: open it with window_kinds={{'{known.name}': …}}"
                )
        for name, kind in wanted.items():
            self.register(name, kind)

    def register(self, name: str, kind: WindowKind, times: Iterable[dt.datetime | int] = ()) -> str:
        """See `Pond.register_window_kind`."""
        new = tried_kind(name, kind, times)
        return self._carry_out(lambda facts: register_kind(facts, new)).message

    def drop(self, name: str) -> str:
        """See `Pond.drop_window_kind`."""
        return self._carry_out(lambda facts: drop_kind(facts, name)).message

    def close(self) -> None:
        """Forget the kinds in this process."""
        registered.withdraw(self._archives.path)
        for known in self._archives.catalog.kinds.values():
            registered.drop(known.reference)
