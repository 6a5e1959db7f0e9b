"""The factors of a conjunction."""

from __future__ import annotations

from sqlglot import exp


def conjuncts(node: exp.Expr) -> list[tuple[exp.Expr, bool]]:
    """The factors of a condition in their order, each with whether it is negated."""
    found: list[tuple[exp.Expr, bool]] = []
    waiting = [(node, False)]
    while waiting:
        each, negated = waiting.pop()
        if isinstance(each, exp.Paren):
            waiting.append((each.this, negated))
        elif isinstance(each, exp.Not):
            waiting.append((each.this, not negated))
        elif isinstance(each, exp.Or if negated else exp.And):
            waiting.append((each.expression, negated))
            waiting.append((each.this, negated))
        else:
            found.append((each, negated))
    return found


def factor(node: exp.Expr, negated: bool) -> exp.Expr:
    """A factor by itself."""
    return exp.Not(this=exp.Paren(this=node.copy())) if negated else node.copy()
