"""Types of expressions by DuckDB, and the smallest part that it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from millpond.language.inference.duck import Refused, typed_relation
from millpond.language.syntax.source_text import Source, nearest
from millpond.support.errors import StatementError
from millpond.types import Column, Expression

_NOT_VALUES = (exp.Identifier, exp.DataType, exp.Var, exp.Star, exp.Table)
_TRUTH = ("BOOLEAN", '"NULL"', "NULL")

#: SQL of a node, or None when it has no value of its own.
Render = Callable[[exp.Expr], "str | None"]


@dataclass(frozen=True)
class Item:
    """An expression whose type is wanted, and the node that it came from."""

    expression: Expression
    node: exp.Expr

    @property
    def sql(self) -> str:
        """The expression's SQL."""
        return self.expression.sql


class Typer:
    """Asks DuckDB for types of expressions over some columns.

    Arguments:
        source: the text that errors point into.
        columns: what the expressions may refer to.
        render: SQL of a part of an expression, to find the part that is wrong.
    """

    def __init__(self, source: Source, columns: Iterable[Column], render: Render) -> None:
        self.source, self.render = source, render
        self.relation = typed_relation(columns)

    def typed(self, items: Sequence[Item]) -> list[Expression]:
        """The expressions with their types; StatementError at the smallest part that DuckDB refuses."""
        if not items:
            return []
        try:
            kinds = self.relation.types([item.sql for item in items])
            return [item.expression.typed(kind) for item, kind in zip(items, kinds, strict=True)]
        except Refused as refused:
            for item in items:
                if (reason := self.refusal(item.sql)) is not None:
                    raise self.fault(item.node, reason) from None
            raise self.fault(items[0].node, refused) from None

    def truth(self, clause: str, item: Item, kind: str) -> None:
        """Check that an item, whose type is `kind`, is a truth value."""
        if kind not in _TRUTH:
            raise self.source.error(f"{clause} needs a condition, but this is {kind}", item.node, "a BOOLEAN")

    def refusal(self, sql: str) -> Refused | None:
        """What DuckDB says against an expression, or None."""
        try:
            self.relation.types([sql])
        except Refused as refused:
            return refused
        return None

    def fault(self, node: exp.Expr, refused: Refused) -> StatementError:
        """The error for a refused expression."""
        place, reason = self.smallest(node, refused)
        like = nearest(reason.names[-1], reason.candidates) if reason.names and reason.candidates else ""
        return self.source.error(reason.reason, place, like=like)

    def smallest(self, node: exp.Expr, refused: Refused) -> tuple[exp.Expr, Refused]:
        """The smallest part of a refused expression that is refused by itself."""
        for child in node.iter_expressions():
            if (found := self._failing(child)) is not None:
                return found
        return node, refused

    def _failing(self, node: exp.Expr) -> tuple[exp.Expr, Refused] | None:
        if isinstance(node, _NOT_VALUES):
            return None
        try:
            sql = self.render(node)
        except StatementError:
            sql = None
        if sql is not None:
            refused = self.refusal(sql)
            return None if refused is None else self.smallest(node, refused)
        return next((f for f in map(self._failing, node.iter_expressions()) if f is not None), None)
