"""The FROM items of a tree."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from millpond.language.builtins.allowed import TABLE_FUNCTIONS


def tables_of(select: exp.Expr) -> Iterator[exp.Table]:
    """The FROM items of a tree, at every level, but for names that a WITH defines and functions that make rows."""
    return (t for t in select.find_all(exp.Table, bfs=False) if not is_cte(t) and not makes_rows(t))


def makes_rows(table: exp.Table) -> bool:
    """Whether a FROM item is a function that makes rows out of its arguments, such as `range(3)`."""
    call = table.this
    return isinstance(call, exp.Anonymous) and isinstance(call.this, str) and call.name.lower() in TABLE_FUNCTIONS


def is_cte(table: exp.Table) -> bool:
    """Whether the name is one that a WITH around it defines: before it, or around it where it is RECURSIVE."""
    if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
        return False
    name = table.name.lower()
    inside: exp.Expr = table
    node = table.parent
    while node is not None:
        if isinstance(node, exp.With):
            recursive = bool(node.args.get("recursive"))
            for cte in node.expressions:
                if cte is inside and not recursive:
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
