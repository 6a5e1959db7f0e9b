"""What an aggregate is split into: components kept per pane (sub) and an expression over them (super)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from millpond.types import Expression

Kind = Literal[
    "add", "min", "max", "moments", "comoments", "list", "set", "counts", "frequent", "quantiles", "distinct", "steps",
    "bit_and", "bit_or", "bit_xor", "product", "states",
]  # fmt: skip

#: Kinds that keep a list of entries, which `millpond.synopses.aggregates.entries` makes few.
ENTRIES = ("counts", "frequent", "quantiles", "distinct", "steps", "states")

#: Kinds of one column that combine by an operation of their own.
OPERATIONS = ("bit_and", "bit_or", "bit_xor", "product")

#: Kinds whose size is bounded, whatever the number of rows.
SKETCHES = ("frequent", "quantiles", "distinct")


#: Stands in `Split.final` for what `Split.values` gives.
VALUE = "$x"


@dataclass(frozen=True)
class Component:
    """One accumulator of a pane partial.

    name: prefix of its columns, derived from what it computes, so that equal components of several queries are one.
    kind: how two accumulators combine.
    columns: (suffix, aggregate over stream columns) of each physical column.
    safe: whether computing it cannot fail on a row: it reads bare columns. A row on which an expression fails is left
        out for the query that asked for it, so only queries with the same unsafe components can share.
    size: how many entries a sketch keeps. function: the registered aggregate whose states are kept, by reference.
    alone: its column over a single row, without an aggregate; '': only the aggregate says it.
    """

    name: str
    kind: Kind
    columns: tuple[tuple[str, Expression], ...]
    safe: bool = True
    size: int = 0
    alone: str = field(default="", compare=False)
    function: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Its physical columns."""
        return tuple(self.name + suffix for suffix, _ in self.columns)

    @property
    def listed(self) -> tuple[str, ...]:
        """Its physical columns as a SELECT list over rows has them."""
        return tuple(f"({sql}) AS {self.name}{suffix}" for suffix, sql in self.columns)

    @property
    def counts_rows(self) -> bool:
        """Whether it is the number of rows: it adds up, and looks at nothing in them."""
        return self.kind == "add" and self.safe and not any(sql.columns for _, sql in self.columns)


@dataclass(frozen=True)
class Split:
    """An aggregate as components and the DuckDB expression that gives its value from their columns.

    values: a SELECT of (_at, x) over all windows at once, from table `folded`, whose rows are numbered by `_at`;
        `VALUE` in `final` is this x. For values that are computed from entries of lists: in a subquery of its own for
        every window, each entry would carry its whole list along.
    """

    components: tuple[Component, ...]
    final: str
    values: str | None = None
