"""How the answer of a selection over one stream is made from its matching rows; worked out once per query."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, query_ordered
from millpond.synopses.finish import empty_answers
from millpond.synopses.partials.specs import as_declared, casts_of
from millpond.synopses.tolerance import one_line
from millpond.types import Column, RowQuery, ScanQuery, StreamDefinition, columns_read


@dataclass(frozen=True, eq=False)
class Plan:
    """A selection, and what its answers need.

    selection: what was planned; a plan serves this very object or an equal one.
    streams: of its sides. columns: of the stream, those that the answer's expressions read.
    direct: for an answer that is columns of the stream and nothing more: which columns, in the order of the SELECT
    list; None when DuckDB must compute it. empty: the answer without rows.
    """

    selection: RowQuery
    streams: tuple[StreamDefinition, ...]
    columns: tuple[str, ...]
    direct: tuple[str, ...] | None
    empty: pa.Table

    @property
    def query(self) -> ScanQuery:
        """Select list, groups, DISTINCT, ORDER BY, LIMIT."""
        return self.selection.query

    def answer(self, rows: pa.Table) -> pa.Table:
        """The answer from matching rows in total order, with at least the plan's columns.

        Raises:
            QueryError: an expression fails on a row.
        """
        query = self.query
        if self.direct is not None:
            return self.limited(rows.select(list(self.direct)).rename_columns(self.empty.column_names))
        if not query.order_by and not query.distinct:
            rows = self.limited(rows)
        try:
            return query_ordered(connection(), _sql(self.selection, self.streams[0]), rows=_numbered(rows, query))
        except duckdb.Error as error:
            raise QueryError(f"the query cannot be answered: {one_line(error)}") from error

    def limited(self, rows: pa.Table) -> pa.Table:
        """LIMIT and OFFSET on rows that are in their order."""
        if self.query.limit is None and not self.query.offset:
            return rows
        return rows.slice(self.query.offset, self.query.limit)


def plan_of(selection: RowQuery, streams: tuple[StreamDefinition, ...]) -> Plan:
    """Work out how answers of a selection are made."""
    query = selection.query
    empty = empty_answers(connection(), [Column(o.name, o.type) for o in query.select])
    if len(streams) > 1 and not query.feeds:
        return Plan(selection, streams, (), None, empty)
    columns = tuple(_read(selection, streams[0]))
    whole = query.of_groups or query.distinct or query.order_by
    return Plan(selection, streams, columns, None if whole else _direct(query, streams[0]), empty)


def _read(selection: RowQuery, stream: StreamDefinition) -> list[str]:
    """The columns of the stream that the answer's expressions read."""
    read = columns_read(*selection.expressions)
    return [c.name for c in stream.all_columns if c.name in read]


def _direct(query: ScanQuery, stream: StreamDefinition) -> tuple[str, ...] | None:
    cast = {name for name, _ in casts_of(stream)}
    columns = {c.name: c for c in stream.all_columns}
    found = []
    for output in query.select:
        column = columns.get(output.expression.column or "")
        if column is None or column.type != output.type or quote(column.name) in cast:
            return None
        found.append(column.name)
    return tuple(found)


def _sql(selection: RowQuery, stream: StreamDefinition) -> str:
    query = selection.query
    source = as_declared("rows", casts_of(stream), _read(selection, stream))
    outputs = ", ".join(o.sql for o in query.select)
    if not query.distinct and not query.order_by:
        return f"SELECT {outputs} FROM {source}"
    order = "".join(f", ({t.expression}) AS __o{i}" for i, t in enumerate(query.order_by))
    terms = [t.by(f"__o{i}") for i, t in enumerate(query.order_by)]
    shown = ", ".join(quote(o.name) for o in query.select)
    if query.distinct:
        inner = f"SELECT DISTINCT {outputs}{order} FROM {source}"
        terms += [quote(o.name) for o in query.select]
    else:
        inner = f"SELECT {outputs}{order}, __n FROM {source}"
        terms.append("__n")
    limit = "" if query.limit is None else f" LIMIT {query.limit}"
    limit += f" OFFSET {query.offset}" if query.offset else ""
    return f"SELECT {shown} FROM ({inner}) ORDER BY {', '.join(terms)}{limit}"


def _numbered(rows: pa.Table, query: ScanQuery) -> pa.Table:
    """Rows with their place in total order, which decides ties of ORDER BY."""
    if query.distinct or not query.order_by:
        # A table without columns would lose its number of rows on its way.
        return rows if rows.num_columns else pa.table({"__n": pa.array(np.zeros(rows.num_rows, np.int8))})
    return rows.append_column("__n", pa.array(np.arange(rows.num_rows, dtype=np.int64)))
