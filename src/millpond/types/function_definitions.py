"""Registered functions: Python of the administrator that queries may call."""

from __future__ import annotations

from dataclasses import dataclass

#: What references of functions begin with; no name in a query does.
REFERENCE = "udf__"

#: What follows the reference of an aggregate whose states merge, where rows are added to one.
ADD = "__add"

#: The states of such an aggregate in a query, whose reference is the first argument. No user writes it.
MERGED = "__merged"


def is_reference(name: str) -> bool:
    """Whether what is called is a registered function."""
    return name.startswith(REFERENCE)


@dataclass(frozen=True)
class FunctionDefinition:
    """A function that was registered. reference: what the engine calls it, in SQL and in the pond's folder.

    arguments, returns: DuckDB types. vectorised: it takes Arrow arrays and gives one, else it is called row by row.
    aggregate: it is called once for each group, with a list of values for each argument: `arguments` are lists.
    mergeable: its Python is an object that makes states of rows, and merges and finishes these.
    cost: microseconds that a row is said to take, until that is measured; None: nothing was said.
    """

    name: str
    reference: str
    arguments: tuple[str, ...]
    returns: str
    vectorised: bool = False
    cost: float | None = None
    id: int = 0
    aggregate: bool = False
    mergeable: bool = False

    @property
    def signature(self) -> str:
        """How it is called, and what it gives.

        >>> FunctionDefinition("match", "", ("VARCHAR", "VARCHAR"), "BOOLEAN").signature
        'match(VARCHAR, VARCHAR) -> BOOLEAN'
        """
        arguments = [a.removesuffix("[]") if self.aggregate else a for a in self.arguments]
        return f"{self.name}({', '.join(arguments)}) -> {self.returns}"
