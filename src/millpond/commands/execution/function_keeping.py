"""The registered functions of an open pond: kept in its folder, loaded by its processes."""

from __future__ import annotations

import os
from collections.abc import Callable

from millpond.archive.open_archives import Archives
from millpond.commands.execution.performing import CarryOut
from millpond.commands.function_commands import NewFunction, drop_function, register_function
from millpond.functions import use, withdraw


class UserFunctions:
    """The registered functions of an open pond.

    Arguments:
        archives: of the pond. carry_out: plans, and carries out.

    Attributes:
        changed: called when names have come to mean something else.
    """

    def __init__(self, archives: Archives, carry_out: CarryOut) -> None:
        self._archives, self._carry_out = archives, carry_out
        self.changed: Callable[[], None] = lambda: None
        use(archives.path)
        self._tidy()

    def register(self, new: NewFunction) -> str:
        """See `Pond.register_function`."""
        with self._archives.lock:
            said = self._carry_out(lambda facts: register_function(facts, new)).message
            self._tidy()
            self.changed()
        return said

    def drop(self, name: str) -> str:
        """See `Pond.drop_function`."""
        with self._archives.lock:
            said = self._carry_out(lambda facts: drop_function(facts, name)).message
            self._tidy()
            self.changed()
        return said

    def _tidy(self) -> None:
        """Remove from the pond's folder what the catalog has no longer.

        Not while an epoch runs, or is to be repeated: its queries are those of the catalog from when it was proposed,
        and workers read their functions when they first need them. Then the next call does it.
        """
        archives = self._archives
        folder = os.path.join(archives.path, "functions")
        if archives.epochs.in_flight is not None or not os.path.isdir(folder):
            return
        kept = {d.reference for d in archives.catalog.functions.values()}
        # Reduction functions lie there, too.
        kept |= {os.path.basename(file).removesuffix(".pickle") for file in archives.catalog.reductions.values()}
        for name in os.listdir(folder):
            if name.endswith(".pickle") and name.removesuffix(".pickle") not in kept:
                withdraw(archives.path, name.removesuffix(".pickle"))
