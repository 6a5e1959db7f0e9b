"""ENUMs beside texts: `e > 'low'` means the order of the declaration.

DuckDB compares an ENUM with a text as texts, so the text gets the ENUM's type. An ENUM is known by how it is written:
a column, an element of one, in parentheses or inside of an aggregate that gives one of its values.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from millpond.language.builtins.allowed import AGGREGATES
from millpond.language.syntax.nodes import CheckedCast, WindowedCall

#: The declared type of a column, or None.
Kind = Callable[[exp.Column], "str | None"]

ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_CHOOSE = ("min", "max", "first", "last", "any_value", "arg_min", "arg_max", "median", "mode", "quantile_disc")


def values_of(kind: str) -> list[str]:
    """The values of an ENUM in their order.

    >>> values_of("ENUM('a', 'it''s')")
    ['a', "it's"]
    """
    return [v.replace("''", "'") for v in re.findall(r"'((?:[^']|'')*)'", kind)]


def enum_beside(node: exp.Expr, kind: Kind) -> str | None:
    """The ENUM that the texts in a comparison are to be compared as; None when there is none."""
    if not isinstance(node, ORDERED) or not any(is_text(v) for v in node.args.values()):
        return None
    kinds = (_type_of(v, kind) for v in node.args.values() if isinstance(v, exp.Expr))
    return next((k for k in kinds if k is not None and re.fullmatch(r"ENUM\(.*\)", k, re.DOTALL)), None)


def _type_of(node: exp.Expr, kind: Kind) -> str | None:
    while isinstance(node, exp.Paren | exp.Filter | exp.WithinGroup | WindowedCall):
        within = node.expression if isinstance(node, exp.WithinGroup) else None
        if within is not None and within.expressions and not isinstance(node.this, exp.Column):
            node = within.expressions[0].this  # percentile_disc(0.5) WITHIN GROUP (ORDER BY e)
        else:
            node = node.this
    if isinstance(node, exp.Anonymous) and AGGREGATES.get(node.name.lower()) in _CHOOSE and node.expressions:
        return _type_of(node.expressions[0], kind)
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1 and not isinstance(node.expressions[0], exp.Slice):
        listed = _type_of(node.this, kind)
        return re.sub(r"\[\d*\]$", "", listed) if listed is not None and listed.endswith("]") else None
    return kind(node) if isinstance(node, exp.Column) else None


def is_text(value: object) -> bool:
    """Whether it is a text constant."""
    return isinstance(value, exp.Literal) and bool(value.is_string)


def as_enum(literal: exp.Expr, kind: str) -> exp.Expr:
    """The text constant as a value of the ENUM."""
    return CheckedCast(this=exp.Literal.string(literal.name), kind=kind)
