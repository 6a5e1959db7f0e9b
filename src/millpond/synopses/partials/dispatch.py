"""Which kind of synopsis serves which kind of query, and whose kernels a synopsis asks."""

from __future__ import annotations

from typing import assert_never

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.synopses.pane_partials import PanesSpec, merge_panes, panes_spec, partial_panes
from millpond.synopses.row_partials import RowsSpec, fold, partial_rows, rows_spec, together
from millpond.synopses.session_partials import (
    SessionsSpec,
    merge_sessions,
    partial_sessions,
    sessions_spec,
    still_open,
)
from millpond.types import (
    QueryOptions,
    RowWindowQuery,
    SessionQuery,
    StreamDefinition,
    WindowedQuery,
    WindowQuery,
)

#: What a synopsis of a query over windows keeps.
Spec = PanesSpec | RowsSpec | SessionsSpec


def spec_of(query: WindowedQuery, stream: StreamDefinition, options: QueryOptions | None = None) -> Spec:
    """The synopsis that a query over windows needs; see `panes_spec`."""
    match query:
        case WindowQuery():
            return panes_spec(query, stream, options)
        case RowWindowQuery():
            return rows_spec(query, stream, options)
        case SessionQuery():
            return sessions_spec(query, stream, options)
        case _:
            assert_never(query)


def partial(db: duckdb.DuckDBPyConnection, spec: Spec, segment: pa.Table, extra: str = "") -> pa.Table:
    """What a synopsis makes of a segment: columns pane, k*, [_id], [extra], n (rows), and the components' columns.

    Arguments:
        segment: rows with the stream's columns and `_id`.
        extra: a further grouping expression `… AS name`, used by back-fill.
    """
    match spec:
        case PanesSpec():
            return partial_panes(db, spec, segment, extra)
        case RowsSpec():
            return partial_rows(db, spec, segment, extra)
        case SessionsSpec():
            return partial_sessions(db, spec, segment, extra)
        case _:
            assert_never(spec)


def still_needed(db: duckdb.DuckDBPyConnection, spec: Spec, table: pa.Table, low: int) -> pa.Table:
    """What windows that are open, or can be revised, need of merged partials: from pane `low` on."""
    match spec:
        case PanesSpec():
            return table.filter(pc.greater_equal(table["pane"], low)) if table.num_rows else table
        case RowsSpec():
            return fold(db, spec, table, low)
        case SessionsSpec():
            return still_open(db, spec, table, low)
        case _:
            assert_never(spec)


def merge_partials(db: duckdb.DuckDBPyConnection, spec: Spec, parts: list[pa.Table]) -> pa.Table:
    """Partial tables as one."""
    match spec:
        case PanesSpec():
            return merge_panes(db, spec, parts)
        case RowsSpec():
            return together(parts)
        case SessionsSpec():
            return merge_sessions(db, spec, parts)
        case _:
            assert_never(spec)
