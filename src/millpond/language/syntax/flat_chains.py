"""Long flat chains of one operator, `a + b + c + …`: a parser makes trees of them that are as deep as they are long.

Passes go down trees by calling themselves, and so does DuckDB, whose optimiser takes a cube of the depth. So a long
chain is read as a tree of the same terms, in their order, that is as deep as its logarithm: (a + b) + (c + d).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sqlglot import exp

#: Operators of which it makes no difference where parentheses stand.
_ASSOCIATIVE = (exp.And, exp.Or, exp.Add, exp.Mul, exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
#: A chain of fewer terms stays as it is written.
MOST_TERMS = 128
#: What works where an expression is nested too deeply.
SHALLOW = "parts of it in parentheses: (a - b - …) - (c + d + …)"

T = TypeVar("T", bound=exp.Expr)


def flattened(tree: T) -> T:
    """The tree with its long chains as shallow trees; it is changed in place."""
    for node in list(tree.find_all(*_ASSOCIATIVE)):
        kind = type(node)
        if type(node.parent) is kind and node.arg_key == "this":
            continue  # within a longer one
        terms = _terms(node)
        if len(terms) < MOST_TERMS:
            continue
        made = _balanced(kind, [term.pop() for term in terms])
        if node is tree:
            return made  # type: ignore[return-value]  # of the same kind
        node.replace(made)
    return tree


def _terms(node: exp.Expr) -> list[exp.Expr]:
    """The terms of a chain, in order."""
    kind, found = type(node), []
    while type(node) is kind:
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]


def _balanced(kind: type[exp.Expr], terms: Sequence[exp.Expr]) -> exp.Expr:
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    left, right = _balanced(kind, terms[:middle]), _balanced(kind, terms[middle:])
    return kind(this=_grouped(kind, left), expression=_grouped(kind, right))


def _grouped(kind: type[exp.Expr], node: exp.Expr) -> exp.Expr:
    """A part of a chain, in parentheses, so that it is rendered as the part that it is."""
    return exp.Paren(this=node) if type(node) is kind else node


__all__ = ["MOST_TERMS", "SHALLOW", "flattened"]
