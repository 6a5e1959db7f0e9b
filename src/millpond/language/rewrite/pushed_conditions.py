"""Factors of WHERE that go below a window (Babu 2005, digest D8): they are about one stream, whose window is of time.

Those that call registered functions are taken out of the SELECT, so that they are asked once for a row. Of a window
that ends with rows none goes below; where one calls a function it is a mark: asked when a row comes, and kept with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from millpond.language.check.impossible import check_constants
from millpond.language.conditions.conjuncts import conjuncts, factor
from millpond.language.render.bound_expressions import expression_of
from millpond.language.resolve.expressions import unqualified
from millpond.language.resolve.stream_items import InputStream
from millpond.language.syntax.nodes import RegisteredCall
from millpond.language.syntax.source_text import Source
from millpond.types import Expression, LatestRowsWindow


@dataclass(frozen=True)
class Pushed:
    """A SELECT without the factors that are asked below its windows alone.

    below: by generated name of a FROM item, the factors that go below its window. marks: those that are asked when a
    row comes, and kept with it.
    """

    tree: exp.Expr
    below: Mapping[str, list[Expression]] = field(default_factory=dict)
    marks: Mapping[str, list[Expression]] = field(default_factory=dict)


def push_down(tree: exp.Expr, inputs: Mapping[str, InputStream], select: exp.Expr, source: Source) -> Pushed:
    """What of WHERE goes below the windows of a bound SELECT.

    Arguments:
        inputs: its streams, by generated name. select: as it was written, for errors.
    Raises: StatementError for a constant that is no value of the type that it is compared with.
    """
    items, clause = _inner_items(tree), tree.args.get("where")
    if not items or clause is None:
        return Pushed(tree)
    below: dict[str, list[Expression]] = {}
    marks: dict[str, list[Expression]] = {}
    kept: list[exp.Expr] = []
    factors = conjuncts(clause.this)
    for node, negated in factors:
        alias = item_of(node, items, inputs)
        if alias is None:
            kept.append(factor(node, negated))
            continue
        own = unqualified(node, inputs[alias].stream)
        check_constants([(own, negated)], inputs[alias].stream.all_columns, [select], source)
        calls = _calls_registered(own)
        if not isinstance(inputs[alias].window, LatestRowsWindow):
            below.setdefault(alias, []).append(expression_of(factor(own, negated)).typed("BOOLEAN"))
        elif calls:
            marks.setdefault(alias, []).append(expression_of(factor(own, negated)).typed("BOOLEAN"))
        if not calls:
            kept.append(factor(node, negated))
    if len(kept) == len(factors):
        return Pushed(tree, below, marks)
    tree = tree.copy()
    tree.set("where", exp.Where(this=exp.and_(*kept, copy=False)) if kept else None)
    return Pushed(tree, below, marks)


def _calls_registered(node: exp.Expr) -> bool:
    return any(call.name == call.definition.reference for call in node.find_all(RegisteredCall))


def _inner_items(tree: exp.Expr) -> list[exp.Table]:
    """The FROM items of a SELECT that are all joined as an inner join, and are names; else nothing."""
    if not isinstance(tree, exp.Select) or tree.args.get("from_") is None or tree.args.get("with_"):
        return []
    joins = tree.args.get("joins") or []
    if any(j.side or j.method or j.kind not in ("", "INNER", "CROSS") for j in joins):
        return []
    items = [tree.args["from_"].this, *(j.this for j in joins)]
    return items if all(isinstance(i, exp.Table) for i in items) else []


def item_of(node: exp.Expr, items: Sequence[exp.Expr], inputs: Mapping[str, InputStream]) -> str | None:
    """The generated name of the stream whose columns alone an expression is about; None if there is no such stream."""
    if node.find(exp.Query, exp.Window) is not None:
        return None
    owners = set()
    for each in node.find_all(exp.Column):
        owner = [i.name for i in items if _owns(i, each, inputs)]
        if len(owner) != 1 or owner[0] not in inputs:
            return None
        owners.add(owner[0])
    return owners.pop() if len(owners) == 1 else None


def _owns(item: exp.Expr, each: exp.Column, inputs: Mapping[str, InputStream]) -> bool:
    """Whether a FROM item may be what a column belongs to; one whose columns are not known always may."""
    alias = item.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return True
    if each.table:
        return item.alias_or_name.lower() == each.parts[0].name.lower() and len(each.parts) == 2
    found = inputs.get(item.name)
    return found is None or found.stream.column(each.name) is not None
