"""Windows that go by rows: `[ROWS 100 SLIDE 10]`, `[SESSION 30 MINUTES MAX 4 HOURS]`, `[SESSION timeout]`."""

from __future__ import annotations

from sqlglot import exp

from millpond.language.resolve.from_items import check_attribute
from millpond.language.resolve.scope import RowScope
from millpond.language.syntax.nodes import window_of
from millpond.language.syntax.source_text import Source, nearest
from millpond.language.syntax.window_clause import WindowClause
from millpond.types import CountWindow, Expression, Key, RowWindow, SessionWindow, SpanWindow, StreamDefinition

_GAP = "[SESSION 30 MINUTES], or an INTERVAL of each row such as [SESSION to_seconds(timeout)]"


def bound_row_window(table: exp.Table, stream: StreamDefinition, source: Source) -> RowWindow | None:
    """The window behind a stream's name if it ends with rows; its partition's keys are the first ones of the query."""
    clause = window_of(table)
    if clause is None or clause.slide_rows is None:
        return None
    check_attribute(clause, stream, source)
    own = (clause.slide_rows, bound_partition(clause, stream, source), clause.numbered, stream.options.time)
    return CountWindow(clause.rows, *own) if clause.extent == "rows" else SpanWindow(clause.range, *own)


def bound_partition(clause: WindowClause, stream: StreamDefinition, source: Source) -> tuple[Key, ...]:
    """The columns of PARTITION BY as keys.

    Raises: StatementError for one that the stream does not have.
    """
    partition: dict[str, Key] = {}
    for name, place in clause.partition:
        column = stream.column(name)
        if column is None:
            like = nearest(name, [c.name for c in stream.all_columns])
            raise source.error(f"there is no column '{name}' in {stream.name}", place, "a column of the stream", like)
        if column.name not in partition:
            partition[column.name] = Key(f"k{len(partition)}", Expression.column_of(column.name, column.type))
    return tuple(partition.values())


def bound_session(table: exp.Table, rows: RowScope, source: Source) -> SessionWindow | None:
    """The sessions that stand behind a stream's name; the keys of a partition are the first ones of the query.

    Args:
        rows: names at the level of rows, for a gap that each row says itself.
    Raises: StatementError with the place, for a gap that is no span of time.
    """
    clause, stream = window_of(table), rows.stream
    if clause is None or clause.extent != "session":
        return None
    check_attribute(clause, stream, source)
    partition = bound_partition(clause, stream, source)
    spans = None if clause.gap is None else _spans(clause.gap, rows, source)
    return SessionWindow(clause.range, spans, clause.longest, partition, stream.options.time)


def _spans(node: exp.Expr, rows: RowScope, source: Source) -> Expression:
    """The gap that each row says itself."""
    rows.aggregates_refused = "the gap of a session is a value of one row, and this is an aggregate"
    spans = rows.expression(node)
    kind = rows.type_of(spans.sql)
    if kind != "INTERVAL":
        raise source.error(f"the gap of a session is an INTERVAL, and this is {kind or 'none'}", node, _GAP)
    return spans.typed(kind)
