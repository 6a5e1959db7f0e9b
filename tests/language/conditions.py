"""Conditions as they are bound, from their text."""

from __future__ import annotations

from sqlglot import exp

from millpond.language import parse
from millpond.language.render.bound_expressions import expression_of
from millpond.types import Expression


def condition(written: str) -> Expression:
    """A condition over columns that are named as they are written."""
    (statement,) = parse(f"SELECT a FROM s WHERE {written}")
    where = statement.select.tree.args["where"]
    assert isinstance(where, exp.Where)
    return expression_of(where.this)
