"""What resolving names needs of the catalog."""

from __future__ import annotations

from typing import Protocol

from millpond.types import FunctionDefinition, QueryDefinition, StreamDefinition, TableDefinition


class Schema(Protocol):
    """What the binder must know of the catalog."""

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """The stream, table or query of that name (case-insensitive), or None."""

    def names(self) -> list[str]:
        """All names, for the nearest one."""

    def missing(self, name: str) -> str:
        """Why nothing can be read from a name that `lookup` does not know (a row query, which only INVOKE answers), or
        ''."""

    def by_time(self, stream: StreamDefinition, column: str) -> StreamDefinition | None:
        """The stream of all rows of another one whose event time is that column, or None."""

    def reductions(self) -> list[str]:
        """Names of the registered reduction functions."""

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        """References and lengths of registered kinds of windows, by name in small letters."""

    def functions(self) -> dict[str, FunctionDefinition]:
        """Registered functions, by name in small letters."""
