"""`REDUCE …` behind a FROM item as a reduction that exists."""

from __future__ import annotations

from sqlglot import exp

from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import suffix_of
from millpond.language.syntax.reduce_clause import WORKS
from millpond.language.syntax.source_text import Source, nearest
from millpond.types import Reduction
from millpond.types.reduction_forms import FORMS


def bound_reduction(table: exp.Table, schema: Schema, source: Source) -> Reduction | None:
    """The reduction behind a stream's name; StatementError for a function that nobody registered."""
    clause = suffix_of(table).reduce
    if clause is None:
        return None
    name = clause.reduction.function
    if name in FORMS:
        return clause.reduction
    known = schema.reductions()
    if name not in known:
        raise source.error(
            f"there is no reduction function '{name}'", clause.name_place, WORKS, nearest(name, [*FORMS, *known])
        )
    return clause.reduction


def refuse_reduction(table: exp.Table, source: Source, message: str) -> None:
    """Refuse the clause where it has no meaning."""
    clause = suffix_of(table).reduce
    if clause is not None:
        raise source.error(message, clause.place, "REDUCE behind the name of a stream")
