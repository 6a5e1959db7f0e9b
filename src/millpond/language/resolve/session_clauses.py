"""Sessions: `[SESSION 30 MINUTES]`, `[PARTITION BY a SESSION 30 MINUTES MAX 4 HOURS]`, `[SESSION timeout]`."""

from __future__ import annotations

from sqlglot import exp

from millpond.language.resolve.from_items import check_attribute
from millpond.language.resolve.row_window_clauses import bound_partition
from millpond.language.resolve.scope import RowScope
from millpond.language.syntax.nodes import window_of
from millpond.language.syntax.source_text import Source
from millpond.types import Expression, SessionWindow

_GAP = "[SESSION 30 MINUTES], or an INTERVAL of each row such as [SESSION to_seconds(timeout)]"


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
    return spans
