"""Window queries and all that is kept of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from millpond.types.columns import COVERED, EXACT, NUMBER, SECOND, STATUS, Column
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
class QueryOptions:
    """What `WITH (…)` behind CREATE QUERY says.

    since: None (windows open at registration), 'start', or an event time in microseconds.
    empty: whether windows without a tuple are reported.
    revise_for: how long behind progress closed windows can be revised, microseconds; None: the larger of one day and
        ten times RANGE.
    materialize: how much of a selection's answer is kept ready: 'partial' (which rows match), 'complete' (the answer of
        the current window), 'none', or 'auto' (decided by use and space while it runs).
    early: how often windows that are still open are answered speculatively, microseconds of clock time; None: never.
    flush: how the answers of a window that closes go out: 'at once', 'slow' (spread over `flush_delay` of clock time,
        microseconds), 'lazy' (all when that is over); in any case when `flush_windows` more windows have ended.
    every: how far apart the instants are that RSTREAM reports, microseconds.
    delay: how far behind progress windows are answered, microseconds: a derived stream of final answers waits for the
        last moment at which its rows could change. Not to be had by WITH.
    pairs: an answer that changes is reported with the one that it replaces (`op` is '='), for a derived stream that
        takes it back. Not to be had by WITH.
    state: how the panes of a window query are kept: partial aggregates ('eager'), tuples ('lazy'), or for each pane and
        group what is smaller ('adaptive').
    held_rows: how many rows the windows of a relational query may hold in one shard; more make it fail.
    memory_rows: how many rows of each of its streams a shard keeps in memory, where the others are mapped from disk;
        None: all.
    adapt: how the order of filters with registered functions is kept; 'off': as they are written. adapt_probability:
        share of the dropped rows that are profiled. adapt_window: profile tuples that count. adapt_alpha: thrashing
        factor in (0, 1]. None: the way's own. adapt_budget: share of the time of filters that profiling may take.
    """

    since: Literal["start"] | int | None = None
    empty: Literal["skip", "report"] = "skip"
    revise_for: int | None = None
    materialize: Literal["auto", "partial", "complete", "none"] = "auto"
    early: int | None = None
    flush: Literal["at once", "lazy", "slow"] = "at once"
    flush_delay: int = 5 * SECOND
    flush_windows: int = 2
    every: int | None = None
    delay: int = 0
    pairs: bool = False
    state: Literal["eager", "lazy", "adaptive"] = "eager"
    held_rows: int = 100_000_000
    memory_rows: int | None = None
    adapt: Literal["a_greedy", "sweep", "independent", "local_swaps", "auto", "off"] = "a_greedy"
    adapt_probability: float | None = None
    adapt_window: int | None = None
    adapt_alpha: float | None = None
    adapt_budget: float = 0.05

    @property
    def ordering(self) -> tuple[Any, ...]:
        """What is said of the order of filters."""
        return self.adapt, self.adapt_probability, self.adapt_window, self.adapt_alpha, self.adapt_budget


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
