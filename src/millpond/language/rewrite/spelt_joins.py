"""Joins as they could be written: in FROM, with ON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millpond.language.rewrite.semi import without_subquery
from millpond.language.rewrite.using import without_using
from millpond.types import Column


def spelt_out(tree: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> exp.Select | None:
    """A SELECT whose joins all stand in FROM, with ON; None when it cannot be put so."""
    return without_using(without_subquery(tree, columns), columns) if isinstance(tree, exp.Select) else None
