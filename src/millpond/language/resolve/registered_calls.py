"""Registered functions in queries: their calls become nodes of their own before a SELECT is bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import RegisteredCall, StatesCall, WindowedCall
from millpond.language.syntax.source_text import Source, own_span, placed, token_span
from millpond.types import ADD, MERGED, FunctionDefinition

_Tree = TypeVar("_Tree", bound=exp.Expr)


def with_registered(tree: _Tree, schema: Schema, merging: bool = False) -> _Tree:
    """The tree with calls of registered functions as such; names of the language stay what they are.

    Args:
        merging: windows are made of panes, whose states of a group are merged; else all its rows are seen at once.
    """
    known = schema.functions()
    if not known or not any(_name(node) in known for node in tree.find_all(exp.Anonymous)):
        return tree
    tree = tree.copy()
    for node in list(tree.find_all(exp.Anonymous)):
        if (found := known.get(_name(node))) is not None:
            if found.aggregate:
                _aggregate(node, found, merging)
            else:
                node.replace(placed(RegisteredCall(**node.args, definition=found), token_span(node)))
    return tree


def _aggregate(node: exp.Anonymous, definition: FunctionDefinition, merging: bool) -> None:
    """Write a call of a registered aggregate as the function over a list of each argument's values, or over states.

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
    if definition.mergeable and merging and len(arguments) == len(definition.arguments):
        reference = exp.Literal.string(definition.reference)
        states = _inside(whole, placed(StatesCall(this=MERGED, expressions=[reference, *arguments]), place))
        finish = replace(definition, arguments=("BLOB[]",))
        whole.replace(placed(RegisteredCall(this=node.this, expressions=[states], definition=finish), place))
        return
    lists = []
    for argument in arguments:
        value = argument.copy()
        if order:
            value = exp.Order(this=value, expressions=[each.copy() for each in order])
        lists.append(_inside(whole, placed(exp.Anonymous(this="list", expressions=[value]), place)))
    if definition.mergeable:
        add = replace(definition, reference=definition.reference + ADD, returns="BLOB")
        made = placed(RegisteredCall(this=node.this, expressions=lists, definition=add), place)
        definition, lists = replace(definition, arguments=("BLOB[]",)), [placed(exp.Array(expressions=[made]), place)]
    whole.replace(placed(RegisteredCall(this=node.this, expressions=lists, definition=definition), place))


def _inside(whole: exp.Expr, made: exp.Anonymous) -> exp.Expr:
    """An aggregate with what stands behind the one in `whole`."""
    found = whole.copy()
    call = found
    while not isinstance(call, exp.Anonymous):
        call = call.this
    if call is found:
        return made
    call.replace(made)
    return found


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
