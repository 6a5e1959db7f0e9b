"""Queries, each as what it is: over windows, over relations, of pairs, over single rows.

A `Query` is a SELECT after names and types have been resolved: what the engine plans from. Whoever must choose among
kinds of queries matches them all (`typing.assert_never`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from millpond.types.json_records import TAG, Variant
from millpond.types.outputs import Aggregate, Feed, Key, OrderTerm, Output
from millpond.types.reduction_forms import Reduction
from millpond.types.relation_queries import (
    ConstantInput,
    Driven,
    Grouped,
    Joined,
    JoinPlan,
    Lookup,
    Probe,
    RelationInput,
    RelationPlan,
)
from millpond.types.selections import JoinFactor, Side
from millpond.types.sql_expressions import Expression, calls_of_statement, columns_read, registered_in
from millpond.types.window_definitions import RowWindow, SessionWindow, TimedWindow, Window


@dataclass(frozen=True, kw_only=True)
class Answer(Variant):
    """What all queries have: the columns of their answer, and the text that they were written as."""

    select: tuple[Output, ...]
    text: str = ""

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
class WindowQuery(Aggregation):
    """Groups of the rows in each of the windows that end at instants."""

    window: Window


@dataclass(frozen=True, kw_only=True)
class RowWindowQuery(Aggregation):
    """Groups of the rows in each of the windows that end with rows."""

    window: RowWindow


@dataclass(frozen=True, kw_only=True)
class SessionQuery(Aggregation):
    """Groups of the rows in each session."""

    window: SessionWindow

    @property
    def session_keys(self) -> tuple[Key, ...]:
        """The keys that have sessions of their own, the first ones of all."""
        return self.keys[: len(self.window.partition)] if self.window.partition else self.keys


@dataclass(frozen=True, kw_only=True)
class GroupScan(Aggregation):
    """Groups of all rows of a stream: an ad hoc SELECT, or what a row query's answer is made of. It never stands."""


@dataclass(frozen=True, kw_only=True)
class RowScan(StreamQuery):
    """Rows of a stream: an ad hoc SELECT, or a row query's answer. `select` and `order_by` are over its columns."""

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
    """

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
    def makes_stream(self) -> bool:
        """Whether its answer is a stream; else it is a relation."""
        return True

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What is asked of inputs of which only rows matter that meet another input's."""
        return ()

    @property
    def joined(self) -> JoinPlan | None:
        """The join from whose rows' validity it follows, if it does."""
        return None

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


@dataclass(frozen=True, kw_only=True)
class PairsQuery(Relational):
    """A join whose rows are a stream, each as soon as it is certain (PAIRS)."""

    join: JoinPlan

    @property
    def windows(self) -> tuple[TimedWindow, ...]:
        """The windows of its inputs, which say how long a row may be joined."""
        return tuple(i.window for i in self.inputs if isinstance(i.window, TimedWindow))


@dataclass(frozen=True)
class RowQuery:
    """A standing query over rows (PSoup's SELECT-FROM-WHERE with its BEGIN-END).

    query: select list, groups and aggregates, DISTINCT, ORDER BY, LIMIT. With one side its expressions are over that
        stream's columns; with two they are over the joined row, whose columns are named "0.column" and "1.column", and
        `query.where` holds what is neither the join factor nor one side's own.
    """

    query: GroupScan | RowScan
    sides: tuple[Side, ...]
    join: JoinFactor | None = None

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
        if self.join is None:
            return own | read
        factor = (self.join.left, self.join.right)[side]
        return own | columns_read(factor) | {name[2:] for name in read if name.startswith(f"{side}.")}


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
