"""What a query computes: keys, aggregates, outputs and their order, and the streams of a union."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from millpond.support.sql import quote
from millpond.types.function_definitions import MERGED
from millpond.types.instants import Landmark
from millpond.types.json_records import Upgraded
from millpond.types.sql_expressions import Expression, retyped


@dataclass(frozen=True)
class OrderTerm:
    """One term of an ORDER BY: what by, direction, place of NULLs."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False

    @property
    def sql(self) -> str:
        """The term as DuckDB SQL."""
        return self.by(self.expression.sql)

    def by(self, sql: str) -> str:
        """The term as DuckDB SQL, where something else stands for its expression."""
        return f"{sql} {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


class _Valued(Upgraded):
    """What is a name for an expression, whose type is its own."""

    expression: Expression

    @property
    def type(self) -> str:
        """Its DuckDB type."""
        return self.expression.type

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The type stood beside the expression."""
        return {**value, "expression": retyped(value["expression"], value["type"])} if "type" in value else value


@dataclass(frozen=True)
class Key(_Valued):
    """A grouping key: its name in partial tables (k0, k1, …), and an expression over stream columns."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Aggregate(Upgraded):
    """One aggregate call of a query.

    name: how `select`, `having` and `order_by` of the bound query refer to it (a0, a1, …).
    function: canonical name, see `millpond.synopses.aggregates.splitting.FUNCTIONS`.
    arguments: over stream columns (empty for count(*)).
    filter: the condition of `FILTER (WHERE …)`.
    order: ORDER BY inside the call (list, string_agg, …), over stream columns.
    parameters: constants of the call as DuckDB literals (the fraction of a quantile, the separator of string_agg).
    type: DuckDB type of the result.
    range, since: the window behind the call, where the query has several: its RANGE (microseconds), or the landmark
        since which it grows; both None: the query's window, which holds all the others.
    measure: over rows with a weight: the 'estimate' of the aggregate over all rows, the 'low' and 'high' end of its
        95 % interval, how many rows were 'read', and which 'share' these are of all. '': the aggregate over the rows as
        they are.
    row: over a stream that takes rows back, the other columns that a row is told by; else empty.
    """

    name: str
    function: str
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    filter: Expression | None = None
    order: tuple[OrderTerm, ...] = ()
    parameters: tuple[str, ...] = ()
    type: str = "BIGINT"
    range: int | None = None
    measure: Literal["", "estimate", "low", "high", "read", "share"] = ""
    row: tuple[Expression, ...] = ()
    since: Landmark | None = None

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Types of arguments stood beside these."""
        kinds = value.get("argument_types")
        return {**value, "arguments": [*map(retyped, value["arguments"], kinds)]} if kinds else value

    @property
    def over(self) -> tuple[Expression, ...]:
        """The expressions over rows that it is made of."""
        order = (term.expression for term in self.order)
        return (*self.arguments, *order, *self.row, *(() if self.filter is None else (self.filter,)))

    @property
    def states_of(self) -> str:
        """The reference of the registered aggregate whose states it makes; '': it is one of the language."""
        return self.parameters[0] if self.function == MERGED else ""


@dataclass(frozen=True)
class Output(_Valued):
    """A column of an answer: its name, and an expression over k*, a*, window_start and window_end."""

    name: str
    expression: Expression

    @property
    def sql(self) -> str:
        """The column as a SELECT list of DuckDB has it."""
        return projected(self.expression, self.type, self.name)


def projected(value: Expression | str, kind: str, name: str) -> str:
    """An item of a SELECT list: a value as a type, under a name.

    >>> projected("NULL", "BIGINT", "n")
    '(NULL)::BIGINT AS "n"'
    """
    return f"({value})::{kind} AS {quote(name)}"


#: Bits of a row's id that say its place in its stream; the place of the stream in a union stands above.
PLACE = 58


@dataclass(frozen=True)
class Feed:
    """One stream of a union in FROM.

    stream: its id; name: as declared. columns: its columns, in the order of those of the union's first stream, by whose
    names the query knows them. on_time: only rows that were on time in their own stream enter (late='drop').
    """

    stream: int
    name: str
    columns: tuple[str, ...]
    on_time: bool = False
