"""Window queries and all that is kept of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millpond.types.columns import COVERED, EXACT, NUMBER, STATUS, Column
from millpond.types.options.query_options import QueryOptions
from millpond.types.outputs import Aggregate, Feed, Key, OrderTerm, Output
from millpond.types.relations import Lookup, Relational
from millpond.types.windows import Reduction, RowWindow, Window


@dataclass(frozen=True)
class BoundQuery:
    """A SELECT over one stream after names and types have been resolved: what the engine plans from.

    A standing query has `window` (it ends at instants) or `row_window` (it ends with rows); or it is about a
    `relation`: then `stream` is the first of its streams, `select` has the answer's columns, nothing else is set.

    feeds: the streams of a union in FROM, of which `stream` is the first; empty: there is only `stream`.
    reduce: how much of the past its scans may leave out; the aggregates are estimates then, and `select` has columns
        that say how good they are.
    signed: rows of the stream with `op = '-'` take others back.
    lookup: tables that the rows are joined with before they enter windows; expressions are over the joined rows then.

    All expressions are DuckDB SQL. `where` and the keys' and aggregates' expressions are over the stream's columns,
    quoted; `select`, `having` and `order_by` are over k*, a*, window_start, window_end. Without a window the whole
    stream is one group of rows (ad hoc only). With `grouped` false there are no keys and no aggregates, and `select`
    and `order_by` are over stream columns: plain rows (ad hoc only).

    narrowed: (quoted column, type) of columns of `stream` that have a wider type since the query was registered; it
        goes on with the type that it was bound to.
    """

    stream: str
    window: Window | None
    select: tuple[Output, ...]
    where: str | None = None
    keys: tuple[Key, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    having: str | None = None
    distinct: bool = False
    order_by: tuple[OrderTerm, ...] = ()
    limit: int | None = None
    offset: int = 0
    grouped: bool = True
    text: str = ""
    row_window: RowWindow | None = None
    relation: Relational | None = None
    feeds: tuple[Feed, ...] = ()
    reduce: Reduction | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    signed: bool = False
    lookup: Lookup | None = None


@dataclass(frozen=True)
class InnerStream:
    """A stream that stands in the FROM of a query, in parentheses and with a window behind it, and has no name.

    name: what the query that reads it calls it until it is there. query: whose answers its rows are.
    revisions, columns: as those of a derived stream; its event time is `at`.
    """

    name: str
    query: BoundQuery
    revisions: Literal["forward", "retract"]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class StagedQuery(BoundQuery):
    """A query over streams that are still to be made. inner: these; one may read those before it."""

    inner: tuple[InnerStream, ...] = ()


@dataclass(frozen=True)
class QueryDefinition:
    """A standing query as registered. retained: its stream has a retention, so that windows can be cut by it."""

    name: str
    query: BoundQuery
    options: QueryOptions = QueryOptions()
    id: int = 0
    version: int = 1
    text: str = ""
    retained: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its answers as a table."""
        if self.query.relation is not None:
            return (
                Column("at", "TIMESTAMP"),
                *(Column(o.name, o.type) for o in self.query.select),
                *((Column("change", "VARCHAR"),) if self.query.relation.operator is None else ()),
                Column("revision", "BIGINT"),
                *((Column(STATUS, "VARCHAR"),) if self.options.early is not None else ()),
            )
        return (
            Column("window_start", "TIMESTAMP"),
            Column("window_end", "TIMESTAMP"),
            *((NUMBER,) if self.query.row_window is not None else ()),
            *(Column(o.name, o.type) for o in self.query.select),
            Column("revision", "BIGINT"),
            *((Column(STATUS, "VARCHAR"),) if self.options.early is not None else ()),
            *((Column(COVERED, "TIMESTAMP"),) if self.retained else ()),
            *((Column(EXACT, "BOOLEAN"),) if self.query.reduce is not None and self.query.reduce.samples else ()),
        )
