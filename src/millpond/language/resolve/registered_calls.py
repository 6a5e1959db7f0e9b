"""Registered functions in queries: calls are marked with their definition before a SELECT is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from millpond.language.syntax.source_text import Source, own_span
from millpond.types import FunctionDefinition

if TYPE_CHECKING:
    from millpond.language.resolve.schema import Schema

#: Key of the definition in the meta of a marked call.
FUNCTION = "registered_function"


def mark_functions(select: exp.Expr, schema: Schema) -> None:
    """Mark the calls of registered functions in a SELECT; names of the language stay what they are."""
    known = schema.functions()
    if known:
        for node in select.find_all(exp.Anonymous):
            if isinstance(node.this, str) and (found := known.get(node.this.lower())) is not None:
                node.meta[FUNCTION] = found


def marked(node: exp.Expr) -> FunctionDefinition | None:
    """The definition of a marked call, or None."""
    found: FunctionDefinition | None = node.meta.get(FUNCTION)
    return found


def check_call(node: exp.Anonymous, definition: FunctionDefinition, source: Source) -> None:
    """Refuse a call with another number of arguments, or DISTINCT and ORDER BY as aggregates have them.

    Raises: StatementError with the place.
    """
    expected = definition.signature
    if len(node.expressions) != len(definition.arguments):
        wanted, given = len(definition.arguments), len(node.expressions)
        message = f"function {definition.name} takes {wanted} argument{'s' * (wanted != 1)}, not {given}"
        raise source.error(message, own_span(node), expected)
    for argument in node.expressions:
        if isinstance(argument, exp.Distinct | exp.Order):
            raise source.error(f"{definition.name} is no aggregate", argument, expected)


__all__ = ["FUNCTION", "check_call", "mark_functions", "marked"]
