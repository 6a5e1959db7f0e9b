"""A call of an aggregate, as it is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from millpond.language.builtins.approximate import typed_sql
from millpond.types import MERGED, Expression, Landmark, OrderTerm


@dataclass
class Call:
    """An aggregate call: its parts over row columns, beside the nodes that they came from."""

    node: exp.Expr
    function: str
    arguments: list[Expression] = field(default_factory=list)
    argument_nodes: list[exp.Expr] = field(default_factory=list)
    distinct: bool = False
    filter: Expression | None = None
    filter_node: exp.Expr | None = None
    order: list[OrderTerm] = field(default_factory=list)
    order_nodes: list[exp.Expr] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    range: int | None = None
    since: Landmark | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for calls that give the same value."""
        return (
            self.function, tuple(self.arguments), self.distinct, self.filter, tuple(self.order), tuple(self.parameters),
            self.range, self.since,
        )  # fmt: skip

    @property
    def sql(self) -> str:
        """The call as DuckDB SQL over row columns, for its type."""
        if self.function == "count_star":
            return "count(*)"
        if self.function == MERGED:
            return "list(''::BLOB)"
        arguments = [each.sql for each in self.arguments]
        if (sql := typed_sql(self.function, arguments, self.parameters)) is not None:
            return sql
        values = ", ".join([*arguments, *self.parameters])
        order = f" ORDER BY {', '.join(t.sql for t in self.order)}" if self.order else ""
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{values}{order})"
