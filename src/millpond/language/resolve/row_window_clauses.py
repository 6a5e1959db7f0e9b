"""Windows that end with rows: `[ROWS 100 SLIDE 10]`, `[PARTITION BY a RANGE 1 MINUTE SLIDE 1 ROW]`."""

from __future__ import annotations

from sqlglot import exp

from millpond.language.resolve.from_items import check_attribute
from millpond.language.syntax.nodes import window_of
from millpond.language.syntax.source_text import Source, nearest
from millpond.types import CountWindow, Expression, Key, RowWindow, SpanWindow, StreamDefinition


def bound_row_window(table: exp.Table, stream: StreamDefinition, source: Source) -> RowWindow | None:
    """The window behind a stream's name if it ends with rows; its partition's keys are the first ones of the query."""
    clause = window_of(table)
    if clause is None or clause.slide_rows is None:
        return None
    check_attribute(clause, stream, source)
    partition: dict[str, Key] = {}
    for name, place in clause.partition:
        column = stream.column(name)
        if column is None:
            like = nearest(name, [c.name for c in stream.all_columns])
            raise source.error(f"there is no column '{name}' in {stream.name}", place, "a column of the stream", like)
        if column.name not in partition:
            partition[column.name] = Key(f"k{len(partition)}", Expression.column_of(column.name, column.type))
    own = (clause.slide_rows, tuple(partition.values()), clause.numbered, stream.options.time)
    return CountWindow(clause.rows, *own) if clause.extent == "rows" else SpanWindow(clause.range, *own)
