"""Which windows of a query's answers a SELECT over them can show: all others need not be read.

`SELECT … FROM q WHERE window_end > TIMESTAMP '2026-03-01 08:00:00'` reads the files of answers that hold later windows,
and no more. Only comparisons with constants that every row must satisfy count; what is not understood asks for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from millpond.language.inference.duck import evaluate
from millpond.language.render.rendering import render

#: Ends of windows: later than the first, not later than the second, microseconds since 1970.
Ends = tuple[int, int]

_TIMES = ("window_end", "window_start", "at")

EVERYTHING: Ends = (-(2**63), 2**63 - 1)

_MIRRORED: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip


def ends_asked(tree: exp.Expr, name: str) -> Ends:
    """The ends of the windows that any use of a relation in a SELECT can show.

    Arguments:
        tree: a SELECT in which names of relations are generated. name: of the relation of answers.
    """
    uses = [t for t in tree.find_all(exp.Table) if t.name == name]
    found = [_of_use(table) for table in uses]
    return min((e[0] for e in found), default=EVERYTHING[0]), max((e[1] for e in found), default=EVERYTHING[1])


def _of_use(table: exp.Table) -> Ends:
    parent = table.parent
    select = parent.parent if isinstance(parent, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select) or (where := select.args.get("where")) is None:
        return EVERYTHING
    if (alias := table.args.get("alias")) is not None and alias.args.get("columns"):
        return EVERYTHING  # FROM q AS x (a, b): its columns have other names
    alone = not select.args.get("joins")
    after, until = EVERYTHING
    for condition in conjunction(where.this):
        low, high = _of_condition(condition, table.alias_or_name, alone)
        after, until = max(after, low), min(until, high)
    return after, until


def conjunction(node: exp.Expr) -> Iterator[exp.Expr]:
    """What AND stands between in a condition, BETWEEN as two comparisons."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjunction(node.this)
        yield from conjunction(node.expression)
    elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
        yield exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        yield exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    else:
        yield node


@dataclass(frozen=True)
class Compared:
    """A comparison of a column with a constant: of which kind, read from left to right, and the constant as a time."""

    kind: type[exp.Expr]
    column: exp.Column
    micros: int


def compared(node: exp.Expr) -> Compared | None:
    """What a condition compares; None where it is no comparison of a column with a time."""
    kind = type(node)
    if kind not in _MIRRORED:
        return None
    column, constant = node.this.unnest(), node.expression.unnest()
    if not isinstance(column, exp.Column):
        kind, column, constant = _MIRRORED[kind], constant, column
    if not isinstance(column, exp.Column):
        return None
    value = _micros(constant)
    return None if value is None else Compared(kind, column, value)


def _of_condition(node: exp.Expr, alias: str, alone: bool) -> Ends:
    if type(node) not in _MIRRORED or not any(c.name.lower() in _TIMES for c in node.find_all(exp.Column)):
        return EVERYTHING
    found = compared(node)
    if found is None or found.column.name.lower() not in _TIMES:
        return EVERYTHING
    kind, column, value = found.kind, found.column, found.micros
    if column.table.lower() != alias.lower() and (column.table or not alone):
        return EVERYTHING
    if column.name.lower() == "window_start":  # a window ends at its start at the earliest
        return (value - 1, EVERYTHING[1]) if kind in (exp.GT, exp.GTE, exp.EQ) else EVERYTHING
    after: dict[type[exp.Expr], int] = {exp.GT: value, exp.GTE: value - 1, exp.EQ: value - 1}
    until: dict[type[exp.Expr], int] = {exp.LT: value - 1, exp.LTE: value, exp.EQ: value}
    return after.get(kind, EVERYTHING[0]), until.get(kind, EVERYTHING[1])


def _micros(constant: exp.Expr) -> int | None:
    """A constant as a time; None for what is none."""
    if constant.find(exp.Column, exp.Query, exp.Window) is not None:
        return None
    try:
        found = evaluate(f"epoch_us(TRY_CAST(({render(constant)}) AS TIMESTAMP))")
    except duckdb.Error:
        return None
    return found if isinstance(found, int) else None
