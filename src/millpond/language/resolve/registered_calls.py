"""Registered functions in queries: their calls become nodes of their own before a SELECT is bound."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import RegisteredCall, WindowedCall
from millpond.language.syntax.source_text import Source, own_span, placed, token_span
from millpond.types import FunctionDefinition

_Tree = TypeVar("_Tree", bound=exp.Expr)


def with_registered(tree: _Tree, schema: Schema) -> _Tree:
    """The tree with calls of registered functions as such; names of the language stay what they are."""
    known = schema.functions()
    if not known or not any(_name(node) in known for node in tree.find_all(exp.Anonymous)):
        return tree
    tree = tree.copy()
    for node in list(tree.find_all(exp.Anonymous)):
        if (found := known.get(_name(node))) is not None:
            if found.aggregate:
                _aggregate(node, found)
            else:
                node.replace(placed(RegisteredCall(**node.args, definition=found), token_span(node)))
    return tree


def _aggregate(node: exp.Anonymous, definition: FunctionDefinition) -> None:
    """Write a call of a registered aggregate as the function over a list of each argument's values.

    What stands behind an aggregate (FILTER, a window) stands behind the lists.
    """
    whole: exp.Expr = node
    while isinstance(whole.parent, exp.Filter | WindowedCall) and whole.arg_key == "this":
        whole = whole.parent
    arguments = list(node.expressions)
    order = arguments[-1].expressions if arguments and isinstance(arguments[-1], exp.Order) else []
    if order:
        arguments[-1] = arguments[-1].this
    place = token_span(node)
    lists = []
    for argument in arguments:
        value = argument.copy()
        if order:
            value = exp.Order(this=value, expressions=[each.copy() for each in order])
        found = whole.copy()
        call = found
        while not isinstance(call, exp.Anonymous):
            call = call.this
        made = placed(exp.Anonymous(this="list", expressions=[value]), place)
        lists.append(made if call is found else found)
        if call is not found:
            call.replace(made)
    whole.replace(placed(RegisteredCall(this=node.this, expressions=lists, definition=definition), place))


def _name(node: exp.Anonymous) -> str:
    return node.this.lower() if isinstance(node.this, str) else ""


def check_call(node: RegisteredCall, source: Source) -> None:
    """Refuse a call with another number of arguments, or DISTINCT and ORDER BY as aggregates have them.

    Raises: StatementError with the place.
    """
    definition = node.definition
    expected = definition.signature
    if len(node.expressions) != len(definition.arguments):
        wanted, given = len(definition.arguments), len(node.expressions)
        message = f"function {definition.name} takes {wanted} argument{'s' * (wanted != 1)}, not {given}"
        raise source.error(message, own_span(node), expected)
    for argument in node.expressions:
        if isinstance(argument, exp.Distinct | exp.Order):
            raise source.error(f"{definition.name} is no aggregate", argument, expected)
