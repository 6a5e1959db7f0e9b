"""Queries, each as what it is: over windows, over relations, of pairs, over single rows.

A `Query` is a SELECT after names and types have been resolved: what the engine plans from. Whoever must choose among
kinds of queries matches them all (`typing.assert_never`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from millpond.types.columns import DAY, NUMBER, Column
from millpond.types.json_records import TAG, Variant
from millpond.types.options.query_options import QueryOptions
from millpond.types.outputs import Aggregate, Feed, Key, OrderTerm, Output
from millpond.types.reduction_forms import Reduction
from millpond.types.relation_queries import (
    ConstantInput,
    Driven,
    Elements,
    Grouped,
    Joined,
    JoinPlan,
    Lookup,
    Probe,
    RelationInput,
    RelationPlan,
)
from millpond.types.selections import Edge, JoinFactor, Side
from millpond.types.sql_expressions import Expression, calls_of_statement, columns_read, registered_in
from millpond.types.window_definitions import (
    EndedWindow,
    KindWindow,
    LandmarkWindow,
    RowWindow,
    SessionWindow,
    TimedWindow,
    TimeWindow,
    Window,
)


@dataclass(frozen=True, kw_only=True)
class Answer(Variant, ABC):
    """What all queries have: the columns of their answer, and the text that they were written as.

    time_columns: stand in front of those of `select`, and say of which window or instant a row of the answer is.
    end_column: of them the one that answers are put in order, asked for and settled by; '': the answer has no times.
    of_instants: what it answers holds at instants; else it is of windows.
    numbered: windows have numbers, which count from the first row that there is.
    adds_up: the answer follows from what intervals of event time add up to, so that REDUCE may see the past as sums.
    as_retained: it sees rows for as long as retention says; else for as long as their files are there.
    keyed: rows of the answer have keys, and a revision takes the place of the row that has the same; else the answer
        is a bag, and revisions add rows to it and take others out.
    holds_end: windows hold the instant of their end, so that one is over when the watermark is beyond it.
    ends_now: windows end with rows, so that for who asks now one is over that ends with the newest.
    """

    time_columns: ClassVar[tuple[Column, ...]] = ()
    end_column: ClassVar[str] = ""
    of_instants: ClassVar[bool] = False
    numbered: ClassVar[bool] = False
    adds_up: ClassVar[bool] = False
    as_retained: ClassVar[bool] = False
    keyed: ClassVar[bool] = True
    holds_end: ClassVar[bool] = False
    ends_now: ClassVar[bool] = False

    select: tuple[Output, ...]
    text: str = ""

    @property
    def change_columns(self) -> tuple[Column, ...]:
        """Columns behind those of `select` that say what a row does to the answer."""
        return ()

    @property
    def identity(self) -> tuple[Column, ...]:
        """Hidden columns that, with `end_column`, are the keys of the rows of its answers, where they have keys."""
        return ()

    @property
    def sorted_by(self) -> tuple[OrderTerm, ...]:
        """How rows of one end are sorted."""
        return ()

    @property
    @abstractmethod
    def names_by_input(self) -> tuple[tuple[str, ...], ...]:
        """The names of the streams that it reads, by input: several of a union."""

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The names of the streams that it reads."""
        return tuple(name for names in self.names_by_input for name in names)

    @property
    def union_names(self) -> tuple[str, ...]:
        """The streams of a union in FROM, as they are written there."""
        return ()

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables that it reads."""
        return ()

    @property
    def reach(self) -> int:
        """How far rows of its streams may lie apart that come into one row, as windows of time say it (µs)."""
        return 0

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """What it says of how much of its streams' past is read."""
        return ()

    @property
    def window_kind(self) -> str | None:
        """The reference of the registered kind that its windows are of; None: they are of none."""
        return None

    @abstractmethod
    def with_narrowed(self, narrowed: Sequence[tuple[tuple[str, str], ...]]) -> Self:
        """The query with what it knows of columns that became wider (`StreamQuery.narrowed`), by input."""

    @property
    def longest(self) -> int:
        """How long its windows are at most, microseconds; 0: that is not a matter of time."""
        return 0

    def revised_for(self, options: QueryOptions) -> int:
        """How long behind progress its answers can be revised (SEMANTICS, late rows), microseconds."""
        return max(DAY, 10 * self.longest) if options.revise_for is None else options.revise_for

    @property
    def partial_for(self) -> int:
        """How long windows may lack rows behind the first one that is there, microseconds; 0: that is not known."""
        return 0

    @property
    def reduced(self) -> bool:
        """Whether its scans may leave out some of the past."""
        return False

    @property
    def estimated(self) -> bool:
        """Whether its answers are made of rows that stand for others."""
        return False

    @property
    def registered(self) -> frozenset[str]:
        """The registered functions that it calls, by reference."""
        return registered_in(self)

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A query from before there were several classes of them: what it was not said by NULL."""
        if (relation := value.get("relation")) is not None:
            return _upgraded_relational(relation) | {name: value.get(name, "") for name in ("select", "text")}
        if value.get("row_window") is not None:
            return {**value, TAG: "RowWindowQuery", "window": value["row_window"]}
        if value.get("window") is not None:
            return {**value, TAG: "WindowQuery"}
        return {**value, TAG: "GroupScan" if value.get("grouped", True) else "RowScan"}


def _upgraded_relational(value: dict[str, Any]) -> dict[str, Any]:
    """What was the field `relation` of a query."""
    plan, join, reason = value.get("plan", "recomputed"), value.get("joined"), value.get("reason", "")
    if plan == "paired":
        return {**value, TAG: "PairsQuery", "join": join}
    plans: dict[str, dict[str, Any]] = {
        "elements": {TAG: "Elements", "rowwise": value.get("rowwise")},
        "joined": {TAG: "Joined", "join": join},
        "grouped": {TAG: "Grouped", "join": join, "grouping": value.get("grouping")},
        "probed": {TAG: "Driven", "driver": value.get("driver", ""), "probes": value.get("probes", ())},
        "recomputed": {TAG: "Recomputed", "reason": reason},
    }
    return {**value, TAG: "RelationQuery", "plan": plans[plan]}


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
        return ((self.stream, Edge()),)

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

    adds_up: ClassVar[bool] = True

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
    as_retained: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RowScan(StreamQuery):
    """Rows of a stream: an ad hoc SELECT, or a row query's answer. `select` and `order_by` are over its columns."""

    as_retained: ClassVar[bool] = True

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """It has none."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Relational(Answer):
    """What queries of CQL have in common: SQL over windowed streams and tables as they are at an instant.

    sql: over the inputs' aliases as they are at one instant.
    lifted: the same for many instants at once, over inputs with a column `_instant`, and over the instants themselves,
        called `instants`; None: DuckDB cannot lift it, and it is evaluated instant by instant.
    calls: the registered functions that `sql` calls, by reference; None: it was bound before that was written down.
    keeps_windows: what is kept of an input follows from its own window; else from the progress of others, too.
    """

    time_columns: ClassVar[tuple[Column, ...]] = (Column("at", "TIMESTAMP"),)
    end_column: ClassVar[str] = "at"
    of_instants: ClassVar[bool] = True
    keyed: ClassVar[bool] = False
    keeps_windows: ClassVar[bool] = True

    inputs: tuple[RelationInput, ...]
    tables: tuple[ConstantInput, ...]
    sql: str
    lifted: str | None
    instants: str
    calls: tuple[str, ...] | None = field(default=None, compare=False)

    @property
    def registered(self) -> frozenset[str]:
        """The registered functions that it calls, by reference."""
        stated = calls_of_statement(self.sql) if self.calls is None else self.calls
        return super().registered.union(stated)

    @property
    def stream(self) -> str:
        """The first of its streams."""
        return self.inputs[0].stream

    @property
    def names_by_input(self) -> tuple[tuple[str, ...], ...]:
        """See `Answer`."""
        return tuple(item.names for item in self.inputs)

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of its tables."""
        return tuple(t.name for t in self.tables)

    @property
    def reach(self) -> int:
        """See `Answer`."""
        return self.longest

    @property
    def longest(self) -> int:
        """See `Answer`."""
        return max((item.window.reach or 0 for item in self.inputs), default=0)

    @property
    def change_columns(self) -> tuple[Column, ...]:
        """See `Answer`: of a relation, whether a row comes or goes."""
        return () if self.makes_stream else (Column("change", "VARCHAR"),)

    @property
    def makes_stream(self) -> bool:
        """Whether its answer is a stream; else it is a relation."""
        return True

    @property
    def in_order(self) -> bool:
        """Whether its SQL gives all rows their places."""
        return False

    @property
    def forgets(self) -> bool:
        """Whether it needs no row again that it has reported, unless the row leaves its window."""
        return False

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What is asked of inputs of which only rows matter that meet another input's."""
        return ()

    @property
    def joined(self) -> JoinPlan | None:
        """The join from whose rows' validity it follows, if it does."""
        return None

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """See `Answer`."""
        return tuple(item.reduce for item in self.inputs if item.reduce is not None)

    def with_narrowed(self, narrowed: Sequence[tuple[tuple[str, str], ...]]) -> Self:
        """See `Answer`."""
        inputs = zip(self.inputs, narrowed, strict=True)
        return replace(self, inputs=tuple(replace(item, narrowed=each) for item, each in inputs))

    def with_joined(self, join: JoinPlan) -> Self:
        """The query with another plan of its join; only of one that is kept by it."""
        raise TypeError("it is not kept by a join")

    def probe(self, alias: str) -> Probe | None:
        """What is asked of an input; None when all of its rows are at hand."""
        return next((p for p in self.probes if p.alias == alias), None)


@dataclass(frozen=True, kw_only=True)
class RelationQuery(Relational):
    """A relation at every instant, and what becomes of its changes.

    operator: what makes a stream of it; None: the answer is the relation itself.
    plan: how it is kept.
    ordered: `sql` ends with ORDER BY, by which all rows have their places; who asks for the relation sees it so.
    """

    operator: Literal["istream", "dstream", "rstream"] | None
    plan: RelationPlan
    ordered: bool = False

    @property
    def makes_stream(self) -> bool:
        """Whether its answer is a stream."""
        return self.operator is not None

    @property
    def in_order(self) -> bool:
        """See `Relational`."""
        return self.ordered

    @property
    def forgets(self) -> bool:
        """See `Relational`: ISTREAM of select and project."""
        return isinstance(self.plan, Elements) and self.operator == "istream"

    @property
    def driver(self) -> str:
        """The input whose rows say where the answer may change; '': every input's do."""
        return self.plan.driver if isinstance(self.plan, Driven) else ""

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What is asked of inputs of which only rows matter that meet the driver's."""
        return self.plan.probes if isinstance(self.plan, Driven) else ()

    @property
    def joined(self) -> JoinPlan | None:
        """The join whose rows it follows from, if it does."""
        return self.plan.join if isinstance(self.plan, Joined | Grouped) else None

    def with_joined(self, join: JoinPlan) -> Self:
        """See `Relational`."""
        if not isinstance(self.plan, Joined | Grouped):
            return super().with_joined(join)
        return replace(self, plan=replace(self.plan, join=join))


@dataclass(frozen=True, kw_only=True)
class PairsQuery(Relational):
    """A join whose rows are a stream, each as soon as it is certain (PAIRS)."""

    keeps_windows: ClassVar[bool] = False

    join: JoinPlan

    @property
    def windows(self) -> tuple[TimedWindow, ...]:
        """The windows of its inputs, which say how long a row may be joined."""
        return tuple(i.window for i in self.inputs if isinstance(i.window, TimedWindow))


@dataclass(frozen=True)
class RowQuery:
    """A standing query over rows (PSoup's SELECT-FROM-WHERE with its BEGIN-END).

    query: select list, groups and aggregates, DISTINCT, ORDER BY, LIMIT. With one side its expressions are over that
        stream's columns; with more they are over the joined row, whose columns are named "0.column", "1.column", …, and
        `query.where` holds what is neither a join factor's nor one side's own.
    join, further: how the sides come together, one after the other.
    """

    query: GroupScan | RowScan
    sides: tuple[Side, ...]
    join: JoinFactor | None = None
    further: tuple[JoinFactor, ...] = ()

    @property
    def factors(self) -> tuple[JoinFactor, ...]:
        """The join factors, in the order in which sides come in."""
        return () if self.join is None else (self.join, *self.further)

    @property
    def scan(self) -> GroupScan | RowScan:
        """What is asked of the rows of its stretch."""
        return self.query

    @property
    def begins(self) -> tuple[tuple[str, Edge], ...]:
        """The streams that it reads, and from where on."""
        return tuple((s.stream, s.span.begin) for s in self.sides)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What its answer is made of, over a stream's columns or over joined rows."""
        query = self.query
        if isinstance(query, RowScan):
            made = [*(o.expression for o in query.select), *(t.expression for t in query.order_by)]
        else:
            made = [*(k.expression for k in query.keys), *(e for a in query.aggregates for e in a.over)]
        return (*made, *(() if query.where is None else (query.where,)))

    def reads(self, side: int) -> frozenset[str]:
        """The columns of the stream of a side that it reads."""
        own = columns_read(self.sides[side].where)
        read = columns_read(*self.expressions)
        if self.query.feeds:
            names = dict(zip(self.query.feeds[0].columns, self.query.feeds[side].columns, strict=True))
            return own.union(names.get(name, name) for name in read)
        return own | (read if self.join is None else self.reads_joined(side))

    def reads_joined(self, side: int) -> frozenset[str]:
        """The columns of the stream of a side that are read once its own condition holds."""
        own = [v for f in self.factors for n, v in ((f.first, f.left), (f.second, f.right)) if n == side]
        read = columns_read(*self.expressions, *(f.where for f in self.factors))
        return columns_read(*own) | {name[2:] for name in read if name.startswith(f"{side}.")}


#: An ad hoc SELECT over a stream without a window.
ScanQuery = GroupScan | RowScan

#: A query over windows that have ends.
WindowedQuery = WindowQuery | RowWindowQuery | SessionQuery

#: A query of CQL.
RelationalQuery = RelationQuery | PairsQuery

#: What stands with an operator of its own; row queries stand in the register.
StandingQuery = WindowQuery | RowWindowQuery | SessionQuery | RelationQuery | PairsQuery

#: Every query that may stand.
Query = StandingQuery | RowQuery
