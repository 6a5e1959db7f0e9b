"""Aggregates of a relation of CQL over reduced streams: each row counts for as many as it stands for.

A joined row is kept with the product of the probabilities of its parts, so it stands for the product of their weights
(Horvitz and Thompson, over pairs). `count`, `sum` and `avg` are rewritten before the SELECT is rendered; other
aggregates are those of the rows that were read.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from millpond.language.builtins.allowed import RELATION_AGGREGATES
from millpond.language.syntax.nodes import CheckedCast
from millpond.language.syntax.source_text import Source, own_span
from millpond.types import WEIGHT

_SCALED = ("count", "sum", "avg", "mean")


def weighed(tree: exp.Expr, reduced: Mapping[str, tuple[int, int]], source: Source) -> exp.Expr:
    """The tree with the aggregates of every SELECT over reduced streams as estimates.

    Arguments:
        reduced: generated names of the reduced FROM items, with the places of their clauses.
    Raises: StatementError where an estimate would be none: in outer joins, below other SELECTs, under OVER.
    """
    if not reduced:
        return tree
    tree = tree.copy()
    for select in list(tree.find_all(exp.Select)):
        items = [t for t in _items(select) if t.name in reduced]
        if not items:
            continue
        place = reduced[items[0].name]
        joins = select.args.get("joins") or []
        if any(j.side or j.kind not in ("", "INNER", "CROSS") for j in joins):
            raise source.error("REDUCE goes with inner joins: a row without a partner may have lost it", place)
        if _own(select, exp.Window):
            raise source.error("REDUCE does not go with OVER, which needs every row", place)
        calls = [c for c in _own(select, exp.Anonymous) if str(c.this).lower() in RELATION_AGGREGATES]
        if not calls and select is not _root(tree):
            raise source.error(
                "the rows of a reduced stream are aggregated where it stands in FROM, or are the answer", place,
                "count, sum or avg in the same SELECT",
            )  # fmt: skip
        for call in calls:
            _rewrite(call, [t.alias_or_name for t in items], source)
    return tree


def _root(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    return tree


def _items(select: exp.Select) -> list[exp.Table]:
    clause = select.args.get("from_")
    found = [] if clause is None else [clause.this]
    found += [j.this for j in select.args.get("joins") or []]
    return [t for t in found if isinstance(t, exp.Table)]


def _own(select: exp.Select, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Nodes of a kind in a SELECT that do not belong to one inside of it."""
    return [n for n in select.find_all(kind) if n.find_ancestor(exp.Select) is select]


def _rewrite(call: exp.Expr, aliases: list[str], source: Source) -> None:
    name = str(call.this).lower()
    arguments = call.expressions
    if name not in _SCALED or (arguments and isinstance(arguments[0], exp.Distinct)):
        return
    if len(arguments) > 1:
        raise source.error(f"{name} takes one argument", own_span(call))
    weight = _product(aliases)
    around = call.parent if isinstance(call.parent, exp.Filter) else None
    condition = None if around is None else around.args["expression"]
    argument = arguments[0] if arguments else None
    counted = argument is None or isinstance(argument, exp.Star)
    size = weight if counted or argument is None else _given(argument, weight)
    if name == "count":
        total = exp.Anonymous(this="coalesce", expressions=[_sum(size, condition), exp.Literal.number(0)])
        rounded = exp.Anonymous(this="round", expressions=[total])
        made: exp.Expr = CheckedCast(this=rounded, kind="BIGINT")
    else:
        assert argument is not None
        value = exp.Mul(this=CheckedCast(this=argument.copy(), kind="DOUBLE"), expression=exp.Paren(this=weight.copy()))
        made = _sum(value, condition)
        if name != "sum":
            made = exp.Paren(this=exp.Div(this=made, expression=_sum(size, condition)))
    (call if around is None else around).replace(made)


def _sum(value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    call = exp.Anonymous(this="sum", expressions=[value.copy()])
    return call if condition is None else exp.Filter(this=call, expression=condition.copy())


def _given(argument: exp.Expr, weight: exp.Expr) -> exp.Expr:
    """The weight of rows in which an expression is not NULL."""
    null = exp.Is(this=exp.Paren(this=argument.copy()), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Paren(this=null)), true=weight.copy())])


def _product(aliases: list[str]) -> exp.Expr:
    columns = [
        exp.Column(this=exp.Identifier(this=WEIGHT, quoted=True), table=exp.Identifier(this=a, quoted=True))
        for a in aliases
    ]
    product: exp.Expr = columns[0]
    for each in columns[1:]:
        product = exp.Mul(this=product, expression=each)
    return product
