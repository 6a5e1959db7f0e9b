"""Queries over one stream, or a union of streams: over windows that have ends, and over all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from millpond.types.columns import NUMBER, Column
from millpond.types.outputs import Aggregate, Feed, Key, OrderTerm
from millpond.types.queries.answer_shapes import Answer
from millpond.types.reduction_forms import Reduction
from millpond.types.relation_queries import (
    Lookup,
)
from millpond.types.selections import OPEN, Edge
from millpond.types.sql_expressions import Expression
from millpond.types.window_definitions import (
    EndedWindow,
    KindWindow,
    LandmarkWindow,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
)


@dataclass(frozen=True, kw_only=True)
class StreamQuery(Answer):
    """What queries over one stream, or over a union of streams, have in common.

    where: over the stream's columns, quoted; None: every row.
    feeds: the streams of a union in FROM, of which `stream` is the first; empty: there is only `stream`.
    reduce: how much of the past its scans may leave out; the aggregates are estimates then, and `select` has columns
        that say how good they are.
    narrowed: (quoted column, type) of columns of `stream` that have a wider type since the query was registered; it
        goes on with the type that it was bound to.
    signed: rows of the stream with `op = '-'` take others back.
    lookup: tables that the rows are joined with before they enter windows; expressions are over the joined rows then.
    """

    stream: str
    where: Expression | None = None
    distinct: bool = False
    order_by: tuple[OrderTerm, ...] = ()
    limit: int | None = None
    offset: int = 0
    feeds: tuple[Feed, ...] = ()
    reduce: Reduction | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    signed: bool = False
    lookup: Lookup | None = None

    @property
    def sorted_by(self) -> tuple[OrderTerm, ...]:
        """How rows of one end are sorted."""
        return self.order_by

    @property
    def names_by_input(self) -> tuple[tuple[str, ...], ...]:
        """See `Answer`."""
        return (self.union_names or (self.stream,),)

    @property
    def union_names(self) -> tuple[str, ...]:
        """See `Answer`."""
        return tuple(f.name for f in self.feeds)

    @property
    def scan(self) -> Self:
        """What is asked of the rows: all of it."""
        return self

    @property
    def begins(self) -> tuple[tuple[str, Edge], ...]:
        """The streams that it reads, and from where on: the beginning."""
        return ((self.stream, OPEN),)

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """See `Answer`."""
        return () if self.reduce is None else (self.reduce,)

    def with_narrowed(self, narrowed: Sequence[tuple[tuple[str, str], ...]]) -> Self:
        """See `Answer`."""
        return replace(self, narrowed=narrowed[0])

    @property
    def reduced(self) -> bool:
        """See `Answer`."""
        return self.reduce is not None

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables that its rows are joined with."""
        return () if self.lookup is None else tuple(t.name for t in self.lookup.tables)

    @property
    def estimated(self) -> bool:
        """Whether its answers are made of rows that stand for others."""
        return self.reduce is not None and self.reduce.samples

    @property
    def registered(self) -> frozenset[str]:
        """The registered functions that it calls, by reference."""
        return super().registered.union(() if self.lookup is None else self.lookup.registered)


@dataclass(frozen=True, kw_only=True)
class Aggregation(StreamQuery):
    """What queries whose answer is groups of rows have in common.

    The expressions of keys and aggregates are over the stream's columns, quoted; `select`, `having` and `order_by` are
    over k*, a*, window_start and window_end.

    per: LIMIT and OFFSET are for each value of these, over the same.
    sets: grouping sets: a row counts once for each of these numbers, which `keys` know as `__set`.
    """

    of_groups: ClassVar[Literal[True]] = True

    keys: tuple[Key, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    having: Expression | None = None
    per: tuple[Expression, ...] = ()
    sets: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WindowAggregation(Aggregation):
    """What queries over windows that have ends have in common.

    told_apart: columns that tell windows of one group apart which end at one instant.
    """

    window: EndedWindow

    of_instants: ClassVar[Literal[False]] = False
    as_retained: ClassVar[Literal[False]] = False
    time_columns: ClassVar[tuple[Column, ...]] = (
        Column("window_start", "TIMESTAMP"),
        Column("window_end", "TIMESTAMP"),
    )
    end_column: ClassVar[str] = "window_end"
    told_apart: ClassVar[tuple[Column, ...]] = ()

    @property
    def partition(self) -> tuple[Key, ...]:
        """What windows are made for each value of, beside the keys."""
        return ()

    @property
    def longest(self) -> int:
        """See `Answer`."""
        return self.window.reach

    @property
    def windows(self) -> tuple[Window, ...]:
        """Those that end at instants: its own, which holds all the others; then those behind aggregates."""
        return ()

    def behind(self, aggregate: Aggregate) -> Window | None:
        """The window that stands behind an aggregate; None: it is over the window of the query."""
        return None

    def place_of(self, aggregate: Aggregate) -> int:
        """Which of its windows an aggregate is over; 0: the query's own."""
        return 0

    @property
    def identity(self) -> tuple[Column, ...]:
        """Copies of the grouping keys; with DISTINCT, of what is selected."""
        if not self.distinct:
            return (*self.told_apart, *(Column(f"_k{i}", k.type) for i, k in enumerate(self.keys)))
        partition = (Column(f"_p{i}", k.type) for i, k in enumerate(self.partition))
        return (*self.told_apart, *partition, *(Column(f"_k{i}", o.type) for i, o in enumerate(self.select)))


@dataclass(frozen=True, kw_only=True)
class WindowQuery(WindowAggregation):
    """Groups of the rows in each of the windows that end at instants."""

    adds_up: ClassVar[Literal[True]] = True

    window: Window

    @property
    def window_kind(self) -> str | None:
        """See `Answer`."""
        return self.window.kind if isinstance(self.window, KindWindow) else None

    @property
    def partial_for(self) -> int:
        """See `Answer`: of windows that grow it is not known."""
        return 0 if self.window.landmarks else self.window.reach

    @property
    def windows(self) -> tuple[Window, ...]:
        """See `WindowAggregation`. The longest ones come first."""
        behind = dict.fromkeys(self.behind(a) or self.window for a in self.aggregates)
        others = [w for w in behind if w != self.window]
        return (self.window, *sorted(others, key=lambda w: (not w.landmarks, -w.range)))

    def behind(self, aggregate: Aggregate) -> Window | None:
        """See `WindowAggregation`: it ends when the query's does."""
        own = self.window
        if aggregate.since is not None:
            return LandmarkWindow(own.slide, aggregate.since, own.origin, own.attribute)
        return None if aggregate.range is None else TimeWindow(aggregate.range, own.slide, own.origin, own.attribute)

    def place_of(self, aggregate: Aggregate) -> int:
        """See `WindowAggregation`."""
        return self.windows.index(self.behind(aggregate) or self.window)


@dataclass(frozen=True, kw_only=True)
class RowWindowQuery(WindowAggregation):
    """Groups of the rows in each of the windows that end with rows."""

    time_columns: ClassVar[tuple[Column, ...]] = (*WindowAggregation.time_columns, NUMBER)
    adds_up: ClassVar[Literal[False]] = False
    holds_end: ClassVar[bool] = True
    ends_now: ClassVar[bool] = True
    numbered: ClassVar[bool] = True
    told_apart: ClassVar[tuple[Column, ...]] = (NUMBER,)

    window: RowWindow

    @property
    def partition(self) -> tuple[Key, ...]:
        """See `WindowAggregation`."""
        return self.window.partition


@dataclass(frozen=True, kw_only=True)
class SessionQuery(WindowAggregation):
    """Groups of the rows in each session. A row may come at the end of a session, and belongs to it then."""

    adds_up: ClassVar[Literal[False]] = False
    holds_end: ClassVar[bool] = True
    told_apart: ClassVar[tuple[Column, ...]] = WindowAggregation.time_columns[:1]

    window: SessionWindow

    @property
    def partition(self) -> tuple[Key, ...]:
        """See `WindowAggregation`."""
        return self.session_keys

    @property
    def session_keys(self) -> tuple[Key, ...]:
        """The keys that have sessions of their own, the first ones of all."""
        return self.keys[: len(self.window.partition)] if self.window.partition else self.keys


@dataclass(frozen=True, kw_only=True)
class GroupScan(Aggregation):
    """Groups of all rows of a stream: an ad hoc SELECT, or what a row query's answer is made of. It never stands."""

    adds_up: ClassVar[bool] = True
    as_retained: ClassVar[Literal[True]] = True


@dataclass(frozen=True, kw_only=True)
class RowScan(StreamQuery):
    """Rows of a stream: an ad hoc SELECT, or a row query's answer. `select` and `order_by` are over its columns."""

    as_retained: ClassVar[Literal[True]] = True
    of_groups: ClassVar[Literal[False]] = False

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """It has none."""
        return ()
