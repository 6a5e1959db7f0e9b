"""The registered kinds of windows of an open pond: code that a pond does not keep, asked for at every opening."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from millpond.commands.execution.performing import execute
from millpond.commands.kind_commands import check_fits, drop_kind, register_kind, tried_kind
from millpond.engine.core import Core
from millpond.support.errors import PondError
from millpond.windows import registered
from millpond.windows.protocol import WindowKind


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
                kind = wanted.pop(name)
                check_fits(known, kind)
                registered.share(self.core.path, known.reference, kind)
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
        return execute(self.core, lambda facts: register_kind(facts, new)).message

    def drop(self, name: str) -> str:
        """See `Pond.drop_window_kind`."""
        return execute(self.core, lambda facts: drop_kind(facts, name)).message

    def close(self) -> None:
        """Forget the kinds in this process."""
        registered.withdraw(self.core.path)
        for known in self.core.catalog.kinds.values():
            registered.drop(known.reference)
