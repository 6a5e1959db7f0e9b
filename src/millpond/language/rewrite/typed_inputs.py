"""Streams as derived tables of columns with their declared types, at one instant or lifted to many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from sqlglot import exp

from millpond.language.resolve.expressions import column
from millpond.language.resolve.stream_items import InputStream
from millpond.language.syntax.nodes import CheckedCast
from millpond.language.syntax.walks import is_cte

#: The column that says which instant a row of a lifted input belongs to.
INSTANT = "_instant"

_Tree = TypeVar("_Tree", bound=exp.Expr)


def typed_inputs(tree: _Tree, inputs: Mapping[str, InputStream], instants: str | None = None) -> _Tree:
    """The tree with streams as derived tables of typed columns.

    Arguments:
        tree: a bound SELECT. inputs: by generated name.
        instants: the relation of instants of which each FROM item is looked at; None: there is only one.
    """
    tree = tree.copy()
    for table in list(tree.find_all(exp.Table)):
        if table.name not in inputs or is_cte(table):
            continue
        casts: list[exp.Expr] = [
            exp.Alias(this=CheckedCast(this=column(c.name), kind=c.type), alias=_identifier(c.name))
            for c in inputs[table.name].shown
        ]
        inner = exp.Select(expressions=casts, from_=exp.From(this=exp.Table(this=_identifier(table.name))))
        if instants is not None:
            test = exp.EQ(this=column_of(table.name, INSTANT), expression=column_of(instants, INSTANT))
            inner.set("where", exp.Where(this=test))
        table.replace(exp.Subquery(this=inner, alias=table.args.get("alias")))
    return tree


def typed_item(item: exp.Expr, inputs: Mapping[str, InputStream]) -> exp.Expr:
    """A FROM item as `typed_inputs` has it."""
    around = exp.Select(expressions=[exp.Star()], from_=exp.From(this=item.copy()))
    found: exp.Expr = typed_inputs(around, inputs).args["from_"].this
    return found


def _identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)


def column_of(table: str, name: str) -> exp.Column:
    """A column of a FROM item."""
    return exp.Column(this=_identifier(name), table=_identifier(table))
