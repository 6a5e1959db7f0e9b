"""Window queries over streams that take rows back: what their aggregates must know, and what is not available."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millpond.language.dialect import UNION
from millpond.language.duck import quote
from millpond.language.from_items import Schema, find
from millpond.language.places import Source
from millpond.language.statistics_calls import STATISTICS
from millpond.types import BoundQuery, StreamDefinition


def over_corrections(
    query: BoundQuery, table: exp.Table, stream: StreamDefinition, schema: Schema, source: Source
) -> BoundQuery:
    """A window query as it is, or with aggregates that leave out what was taken back.

    Raises: StatementError where this is not available: in windows that end with rows, whose numbers would change with
        every correction, in unions, and for statistics with a state of their own.
    """
    members = [find(schema, member, source) for member in table.meta.get(UNION, [])]
    signed = [s for s in (stream, *members) if isinstance(s, StreamDefinition) and s.takes_back]
    if not signed:
        return query
    name = signed[0].name
    if members:
        raise source.error(f"{name} takes rows back, which a union does not", table, "a union of relations")
    if query.row_window is not None:
        raise source.error(
            f"windows that end with rows are not available over {name}, which takes rows back",
            table,
            "revisions='forward' or 'final' for that stream",
        )
    for aggregate in query.aggregates:
        if aggregate.function in (*STATISTICS.values(), "mode"):
            raise source.error(
                f"{aggregate.function} is not available over {name}, which takes rows back",
                table,
                "revisions='final' for that stream",
            )
    row = tuple(quote(c.name) for c in stream.all_columns if c.name != "op")
    return replace(query, aggregates=tuple(replace(a, row=row) for a in query.aggregates), signed=True)
