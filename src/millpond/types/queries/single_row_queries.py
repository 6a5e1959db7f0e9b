"""Queries over single rows, which are asked again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from millpond.types.queries.stream_queries import GroupScan, RowScan
from millpond.types.selections import Edge, JoinFactor, Side
from millpond.types.sql_expressions import Expression, columns_read


@dataclass(frozen=True)
class RowQuery:
    """A standing query over rows (PSoup's SELECT-FROM-WHERE with its BEGIN-END).

    query: select list, groups and aggregates, DISTINCT, ORDER BY, LIMIT. With one side its expressions are over that
        stream's columns; with more they are over the joined row, whose columns are named "0.column", "1.column", …, and
        `query.where` holds what is neither a join factor's nor one side's own.
    join, further: how the sides come together, one after the other.
    """

    in_register: ClassVar[Literal[True]] = True

    query: GroupScan | RowScan
    sides: tuple[Side, ...]
    join: JoinFactor | None = None
    further: tuple[JoinFactor, ...] = ()

    @property
    def factors(self) -> tuple[JoinFactor, ...]:
        """The join factors, in the order in which sides come in."""
        return tuple(f for f in (self.join, *self.further) if f is not None)

    @property
    def scan(self) -> GroupScan | RowScan:
        """What is asked of the rows of its stretch."""
        return self.query

    @property
    def begins(self) -> tuple[tuple[str, Edge], ...]:
        """The streams that it reads, and from where on."""
        return tuple((s.stream, s.span.begin) for s in self.sides)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What its answer is made of, over a stream's columns or over joined rows."""
        query = self.query
        if query.of_groups:
            made = [*(k.expression for k in query.keys), *(e for a in query.aggregates for e in a.over)]
        else:
            made = [*(o.expression for o in query.select), *(t.expression for t in query.order_by)]
        return (*made, *(() if query.where is None else (query.where,)))

    def reads(self, side: int) -> frozenset[str]:
        """The columns of the stream of a side that it reads."""
        own = columns_read(self.sides[side].where)
        read = columns_read(*self.expressions)
        if self.query.feeds:
            names = dict(zip(self.query.feeds[0].columns, self.query.feeds[side].columns, strict=True))
            return own.union(names.get(name, name) for name in read)
        return own | (self.reads_joined(side) if self.factors else read)

    def reads_joined(self, side: int) -> frozenset[str]:
        """The columns of the stream of a side that are read once its own condition holds."""
        own = [v for f in self.factors for n, v in ((f.first, f.left), (f.second, f.right)) if n == side]
        read = columns_read(*self.expressions, *(f.where for f in self.factors))
        return columns_read(*own) | {name[2:] for name in read if name.startswith(f"{side}.")}
