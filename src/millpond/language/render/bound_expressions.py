"""Checked trees as `Expression`s: their SQL with the columns, calls and conjuncts that are in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from millpond.language.render.rendering import render
from millpond.language.syntax.nodes import CheckedCast
from millpond.types import Call, Expression
from millpond.types.function_definitions import is_reference
from millpond.types.sql_expressions import RESULT

_OPERATORS: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Neg: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Pow: "**",
    CheckedCast: "CAST",
}
#: What sqlglot takes for functions and is none.
_NO_CALLS = (exp.Connector, exp.Case, exp.If, exp.Array, exp.Struct)


def expression_of(node: exp.Expr, copy: bool = True) -> Expression:
    """The expression that a checked tree is.

    Arguments:
        copy: False for a tree that is not used afterwards.
    """
    if type(node) is exp.Column and len(node.args) == 1:
        return Expression.column_of(node.name)
    columns = tuple(dict.fromkeys(c.name for c in node.find_all(exp.Column, bfs=False)))
    calls = tuple(dict.fromkeys(_calls(node)))
    registered = any(map(is_reference, calls))
    parts = list(_conjuncts(node)) if registered else []
    conjuncts = tuple(expression_of(part) for part in parts) if len(parts) > 1 else ()
    call = _made_always(node.unnest()) if registered else None
    return Expression(render(node, copy), columns, calls, conjuncts, call)


def _calls(node: exp.Expr) -> Iterator[str]:
    for each in node.walk(bfs=False):
        if (operator := _OPERATORS.get(type(each))) is not None:
            yield operator
        elif isinstance(each, exp.Anonymous):
            yield each.name
        elif isinstance(each, exp.Func) and not isinstance(each, _NO_CALLS):
            yield each.key


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _made_always(node: exp.Expr) -> Call | None:
    """The only outermost call of a registered function, where nothing decides whether it is made or takes its result.

    Arguments:
        node: a condition, without parentheses around it.
    """
    copy = exp.Paren(this=node.copy())
    found = list(_outermost(copy))
    if len(found) != 1:
        return None
    call = found[0]
    around = call.parent
    while around is not copy:
        if isinstance(around, exp.Func) or around is None:
            return None
        around = around.parent
    arguments = tuple(expression_of(each) for each in call.expressions)
    call.replace(exp.column(RESULT, quoted=True))
    rest = copy.this
    is_truth = isinstance(rest, exp.EQ) and any(
        isinstance(one, exp.Boolean) and bool(one.this) and _is_result(other)
        for one, other in ((rest.this, rest.expression), (rest.expression, rest.this))
    )
    return Call(call.name, arguments, None if is_truth or _is_result(rest) else expression_of(rest))


def _outermost(node: exp.Expr) -> Iterator[exp.Anonymous]:
    """The calls of registered functions that are in no other."""
    if isinstance(node, exp.Anonymous) and is_reference(node.name):
        yield node
        return
    for each in node.iter_expressions():
        yield from _outermost(each)


def _is_result(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name == RESULT
