"""Conditions on time as pruning: which stretches of a stream's past can hold rows that a condition admits.

A condition between an event time `h` that is looked for and an event time `d` that is known, such as
`hour(h) = hour(d) AND h < date_trunc('day', d)`, becomes DuckDB SQL over h_lo, h_hi, d_lo, d_hi that is true wherever
some h and d between these bounds may satisfy it: interval arithmetic (Moore 1966) on the syntax tree. What is not
understood may always hold, so that a condition only ever prunes what it excludes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from millpond.language.inference.duck import evaluate
from millpond.language.render.rendering import render
from millpond.language.syntax.nodes import CheckedCast

#: Parts of a timestamp: the unit within which they ascend, their least and their largest value.
_PARTS: Mapping[str, tuple[str, int, int]] = {
    "microsecond": ("minute", 0, 59_999_999), "millisecond": ("minute", 0, 59_999), "second": ("minute", 0, 59),
    "minute": ("hour", 0, 59), "hour": ("day", 0, 23), "day": ("month", 1, 31), "dayofmonth": ("month", 1, 31),
    "dayofweek": ("day", 0, 6), "dow": ("day", 0, 6), "weekday": ("day", 0, 6), "isodow": ("week", 1, 7),
    "dayofyear": ("year", 1, 366), "doy": ("year", 1, 366), "week": ("week", 1, 53), "weekofyear": ("week", 1, 53),
    "month": ("year", 1, 12), "quarter": ("year", 1, 4),
}  # fmt: skip

#: Functions of one timestamp that ascend with it.
_ASCENDING = frozenset({"epoch", "epoch_ms", "epoch_us", "epoch_ns", "year", "decade", "century", "millennium", "date"})

_SWAPPED = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_INVERSE: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LTE, exp.GTE: exp.LT, exp.LT: exp.GTE, exp.LTE: exp.GT,
}  # fmt: skip


@dataclass(frozen=True)
class Bounds:
    """DuckDB SQL of the least and the largest value that an expression may have; equal texts: it is a constant."""

    low: str
    high: str


class Pruner:
    """Reads conditions.

    Arguments:
        columns: the two event times, as rendered, with what bounds them: {'"h"."ts"': Bounds("h_lo", "h_hi"), …}.
    """

    def __init__(self, columns: Mapping[str, Bounds]) -> None:
        self.columns = columns

    def may(self, node: exp.Expr, negated: bool = False) -> str | None:
        """Where a condition may hold, as SQL; None: everywhere."""
        if isinstance(node, exp.Paren):
            return self.may(node.this, negated)
        if isinstance(node, exp.Not):
            return self.may(node.this, not negated)
        if isinstance(node, exp.And | exp.Or):
            both = self.may(node.this, negated), self.may(node.expression, negated)
            if isinstance(node, exp.And) != negated:
                known = [each for each in both if each is not None]
                return " AND ".join(f"({each})" for each in known) or None
            return None if None in both else f"({both[0]}) OR ({both[1]})"
        if isinstance(node, exp.Between):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            return self.may(exp.And(this=low, expression=high), negated)
        if isinstance(node, exp.In) and not negated and node.expressions and not node.args.get("query"):
            each = [self.may(exp.EQ(this=node.this.copy(), expression=e.copy())) for e in node.expressions]
            return None if None in each else " OR ".join(f"({one})" for one in each)
        return self.comparison(node, negated)

    def comparison(self, node: exp.Expr, negated: bool) -> str | None:
        """Where a comparison may hold."""
        kind = type(node)
        if kind is exp.EQ and not negated:
            left, right = self.bounds(node.this), self.bounds(node.expression)
            return (
                None if left is None or right is None else f"{left.low} <= {right.high} AND {right.low} <= {left.high}"
            )
        if kind not in _INVERSE:
            return None
        kind = _INVERSE[kind] if negated else kind
        sides = node.this, node.expression
        if kind in _SWAPPED:
            kind, sides = _SWAPPED[kind], (sides[1], sides[0])
        small, large = self.bounds(sides[0]), self.bounds(sides[1])
        if small is None or large is None:
            return None
        return f"{small.low} {'<' if kind is exp.LT else '<='} {large.high}"

    def bounds(self, node: exp.Expr) -> Bounds | None:
        """Between what the values of an expression lie; None: it is not known."""
        if isinstance(node, exp.Paren):
            return self.bounds(node.this)
        if isinstance(node, exp.Column):
            return self.columns.get(render(node))
        if node.find(exp.Query, exp.Window) is not None:
            return None
        if node.find(exp.Column) is None:
            text = f"({render(node)})"
            return Bounds(text, text)
        if isinstance(node, exp.Add | exp.Sub):
            return self.sum(node)
        if isinstance(node, CheckedCast):
            if str(node.args["kind"]).upper() not in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
                return None
            inner = self.bounds(node.this)
            kind = node.args["kind"]
            return inner and Bounds(f"CAST({inner.low} AS {kind})", f"CAST({inner.high} AS {kind})")
        if isinstance(node, exp.Extract):
            return self.part(node.name.lower(), node.expression)
        if isinstance(node, exp.Anonymous):
            return self.call(str(node.this).lower(), node.expressions)
        return None

    def sum(self, node: exp.Expr) -> Bounds | None:
        """Sums and differences: of a time and an interval that is constant, of numbers."""
        left, right = self.bounds(node.this), self.bounds(node.expression)
        if left is None or right is None:
            return None
        if isinstance(node, exp.Add):
            found = Bounds(f"({left.low} + {right.low})", f"({left.high} + {right.high})")
        else:
            found = Bounds(f"({left.low} - {right.high})", f"({left.high} - {right.low})")
        if not any(_has_months(side.low) for side in (left, right) if side.low == side.high):
            return found
        # A month after 30 January at noon is later than one after 31 January at eight: only their days ascend.
        return Bounds(f"date_trunc('day', {found.low})", f"(date_trunc('day', {found.high}) + INTERVAL 1 DAY)")

    def call(self, name: str, arguments: list[exp.Expr]) -> Bounds | None:
        """A function of a timestamp."""
        if name in ("date_trunc", "datetrunc") and len(arguments) == 2 and arguments[0].find(exp.Column) is None:
            unit, inner = render(arguments[0]), self.bounds(arguments[1])
            return inner and Bounds(f"date_trunc({unit}, {inner.low})", f"date_trunc({unit}, {inner.high})")
        if name in ("date_part", "datepart") and len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
            return self.part(arguments[0].name.lower(), arguments[1])
        if name in ("date_diff", "datediff") and len(arguments) == 3 and arguments[0].find(exp.Column) is None:
            unit, start, end = render(arguments[0]), self.bounds(arguments[1]), self.bounds(arguments[2])
            if start is None or end is None:
                return None
            return Bounds(f"{name}({unit}, {start.high}, {end.low})", f"{name}({unit}, {start.low}, {end.high})")
        if name in _ASCENDING and len(arguments) == 1:
            inner = self.bounds(arguments[0])
            return inner and Bounds(f"{name}({inner.low})", f"{name}({inner.high})")
        return self.part(name, arguments[0]) if len(arguments) == 1 else None

    def part(self, name: str, node: exp.Expr) -> Bounds | None:
        """hour(t) and the like ascend within a day, and lie anywhere over more than one."""
        if name in ("year", "epoch"):
            inner = self.bounds(node)
            return inner and Bounds(f"date_part('{name}', {inner.low})", f"date_part('{name}', {inner.high})")
        if name not in _PARTS or (inner := self.bounds(node)) is None:
            return None
        within, least, most = _PARTS[name]
        same = f"date_trunc('{within}', {inner.low}) = date_trunc('{within}', {inner.high})"
        each = [
            f"(CASE WHEN {same} THEN date_part('{name}', {value}) ELSE {limit} END)"
            for value, limit in ((inner.low, least), (inner.high, most))
        ]
        return Bounds(each[0], each[1])


def _has_months(constant: str) -> bool:
    """Whether a constant is an interval whose length depends on where it stands; yes, where DuckDB cannot tell."""
    try:
        if evaluate(f"typeof({constant})") != "INTERVAL":
            return False
        return evaluate(f"date_part('month', {constant}) <> 0 OR date_part('year', {constant}) <> 0") is not False
    except duckdb.Error:
        return True
