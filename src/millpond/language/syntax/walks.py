"""The FROM items of a tree."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def tables_of(select: exp.Expr) -> Iterator[exp.Table]:
    """The FROM items of a tree, at every level, but for names that a WITH defines."""
    return (t for t in select.find_all(exp.Table, bfs=False) if not is_cte(t))


def is_cte(table: exp.Table) -> bool:
    """Whether the name is one that a WITH around it defines, before it."""
    if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
        return False
    name = table.name.lower()
    inside: exp.Expr = table
    node = table.parent
    while node is not None:
        if isinstance(node, exp.With):
            for cte in node.expressions:
                if cte is inside:
                    break
                if cte.alias.lower() == name:
                    return True
        elif (
            (clause := node.args.get("with_")) is not None
            and clause is not inside
            and any(cte.alias.lower() == name for cte in clause.expressions)
        ):
            return True
        inside, node = node, node.parent
    return False
