"""The first rows of each group: `LIMIT n PER a, b`, and QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) <= n.

Queries over windows that have ends know the first form, all others the second: each is written as what is known.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millpond.language.resolve.expressions import function_name, has_aggregate
from millpond.language.resolve.scope import WINDOW_COLUMNS
from millpond.language.syntax.source_text import Source

_WORKS = "QUALIFY row_number() OVER (PARTITION BY a ORDER BY b DESC) <= 3, or ORDER BY b DESC LIMIT 3 PER a"


def per_of(select: exp.Expr) -> list[exp.Expr]:
    """The expressions behind LIMIT n PER."""
    limit = select.args.get("limit")
    return list(limit.args.get("expressions") or ()) if isinstance(limit, exp.Limit) else []


def top_rows(tree: exp.Query, source: Source, in_windows: Callable[[exp.Select], bool]) -> exp.Query:
    """A statement whose SELECTs, each by itself, say their first rows in the form that they know.

    Arguments:
        in_windows: whether a SELECT is over windows that have ends.
    Raises: StatementError for what the form cannot say.
    """
    asking = ("qualify", "distinct", "limit")
    if not any(select.args.get(key) for select in tree.find_all(exp.Select) for key in asking):
        return tree
    tree = tree.copy()
    for select in list(tree.find_all(exp.Select)):
        if in_windows(select):
            _limited(select, source)
        else:
            _qualified(select, source)
    return tree


def _limited(select: exp.Select, source: Source) -> None:
    """Turn QUALIFY of a SELECT over windows into LIMIT … PER and ORDER BY, and DISTINCT rows into groups.

    Raises: StatementError where QUALIFY says something else.
    """
    plain = not any(map(has_aggregate, select.expressions)) and not any(map(_has_star, select.expressions))
    distinct = select.args.get("distinct")
    if distinct and not distinct.args.get("on") and not select.args.get("group") and plain:
        select.set("distinct", None)
        select.set("group", exp.Group(all=True))
    if (clause := select.args.get("qualify")) is None:
        return
    count, over = _counted(clause.this, source)
    if select.args.get("order") or select.args.get("limit") or select.args.get("offset"):
        message = "QUALIFY over windows says the order and the limit: ORDER BY and LIMIT are said twice"
        raise source.error(message, clause.this, _WORKS)
    select.set("qualify", None)
    per = [each.copy() for each in over.args.get("partition_by") or () if not _is_window(each)]
    order = over.args.get("order")
    select.set("order", None if order is None else order.copy())
    select.set("limit", exp.Limit(expression=exp.Literal.number(count), expressions=per))


def _qualified(select: exp.Select, source: Source) -> None:
    """Turn LIMIT … PER into QUALIFY.

    Raises: StatementError without an order, since rows of a relation have none.
    """
    per = per_of(select)
    if not per:
        return
    order, limit, before = select.args.get("order"), select.args["limit"], select.args.get("qualify")
    if order is None:
        raise source.error("LIMIT … PER needs an order: which rows are the first?", limit.expression, _WORKS)
    if before is not None or select.args.get("offset"):
        raise source.error("LIMIT … PER does not go with QUALIFY or OFFSET", limit.expression, _WORKS)
    number = exp.Window(
        this=exp.Anonymous(this="row_number"), partition_by=[p.copy() for p in per], order=order.copy(), over="OVER"
    )
    select.set("qualify", exp.Qualify(this=exp.LTE(this=number, expression=limit.expression.copy())))
    select.set("limit", None)


def _counted(test: exp.Expr, source: Source) -> tuple[int, exp.Window]:
    """How many rows a condition on row_number() lets pass, and its OVER."""
    test = test.unnest()
    over, number = test.args.get("this"), test.args.get("expression")
    if (
        isinstance(test, exp.LTE | exp.LT | exp.EQ)
        and isinstance(over, exp.Window)
        and isinstance(over.this, exp.Func)
        and function_name(over.this) == "row_number"
        and not over.args.get("spec")
        and isinstance(number, exp.Literal)
        and number.name.isdigit()
    ):
        count = int(number.name) - isinstance(test, exp.LT)
        if not isinstance(test, exp.EQ) or count == 1:
            return count, over
    message = "QUALIFY over windows keeps the first rows of each group: row_number() up to a number"
    raise source.error(message, test, f"{_WORKS}; or SELECT … FROM q QUALIFY … over a query's answers")


def _has_star(node: exp.Expr) -> bool:
    return node.is_star


def _is_window(node: exp.Expr) -> bool:
    """Whether an expression is a column that answers of windows have, by which they are apart anyway."""
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in WINDOW_COLUMNS
