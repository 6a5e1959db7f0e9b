"""Window queries over streams that take rows back: what their aggregates must know, and what is not available."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millpond.language.syntax.source_text import Source
from millpond.types import Expression, StreamDefinition, WindowedQuery


def over_corrections(query: WindowedQuery, table: exp.Table, stream: StreamDefinition, source: Source) -> WindowedQuery:
    """A window query as it is, or with aggregates that leave out what was taken back.

    Raises: StatementError for windows that end with rows, whose numbers would change with every correction.
    """
    if not stream.takes_back:
        return query
    name = stream.name
    if query.numbered:
        raise source.error(
            f"windows that end with rows are not available over {name}, which takes rows back",
            table,
            "a stream with a name: CREATE STREAM p AS SELECT PAIRS(…) FROM … WITH (revisions='final')"
            if stream.is_inner or not stream.id
            else "revisions='forward' or 'final' for that stream",
        )
    row = tuple(Expression.column_of(c.name, c.type) for c in stream.all_columns if c.name != "op")
    return replace(query, aggregates=tuple(replace(a, row=row) for a in query.aggregates), signed=True)
