"""Joins of windows from intervals of validity: no instant between two changes is looked at.

A joined row is valid while all its parts are: [max begin, min end). It enters when its last part does and leaves with
the first that leaves. So each input has a pipeline of its own (MJoin; Babu 2005, 5.1): the rows that begin, or end, in
a stretch of time are joined with the other inputs as they are at that instant, one input after the other. An outer
join adds, for each row, what its joined rows leave free of its own interval.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from millpond.relations.contents import Content
from millpond.relations.pipelines import MISSING, Inputs, Observer, Pipeline, bounded
from millpond.relations.sides import Side, as_they_are, side_of
from millpond.relations.spans import FOR_EVER, Ints
from millpond.support.distinct import distinct
from millpond.support.sql import quote
from millpond.synopses import parallel, query_table
from millpond.types import Grouped, Joined, JoinPlan, RelationQuery
from millpond.types.join_graphs import graph_of

#: Rows of an input that go down its pipeline at a time, and how many are worth a thread.
AT_ONCE = 200_000
SIDE_BY_SIDE = 20_000

#: Joined rows that one epoch may make, of any part of a join: some gigabytes.
ROWS_AT_MOST = 50_000_000


@dataclass(frozen=True)
class Event:
    """Joined rows that enter or leave.

    parts: of each FROM item, row numbers (MISSING: a row of NULLs). at: when. count: 1 enters, -1 leaves.
    """

    parts: tuple[Ints, ...]
    at: Ints
    count: Ints


@dataclass(frozen=True)
class Changing:
    """Rows of an input that begin (sign 1) or end (-1). moments: when all rows of the input do."""

    number: int
    sign: int
    rows: Ints
    moments: Ints


def joined_changes(
    db: duckdb.DuckDBPyConnection,
    relation: RelationQuery,
    names: str,
    contents: Sequence[Content],
    tables: Mapping[str, pa.Table],
    low: int,
    high: int,
    observer: Observer | None = None,
) -> tuple[pa.Table, bool]:
    """How a join changes at the instants low <= τ < high: columns `_at`, c0, c1, …, `_net`; as `evaluate._changes`.

    Returns: the changes, and whether they are in the order of instants and parts already: where nothing can cancel,
    they are not grouped, and equal rows may stand side by side.

    Arguments:
        names: c0, c1, … as a list. observer: says in which orders the inputs' pipelines go, and looks at what they do.
    """
    join, event = _event(db, relation, relation.operator, contents, tables, low, high, observer)
    enter, leave = (event.at[event.count == sign] for sign in (1, -1))
    if not len(leave) or not len(enter) or not len(np.intersect1d(distinct(enter), distinct(leave), True)):
        places = np.argsort(event.at, kind="stable")
        if (places[1:] < places[:-1]).any():
            event = Event(tuple(p[places] for p in event.parts), event.at[places], event.count[places])
        return join.images(event, names).rename_columns([*names.split(", "), "_at", "_net"]), True
    found = join.images(event, names)
    sql = f"SELECT _at, {names}, sum(_n)::BIGINT AS _net FROM d GROUP BY _at, {names} HAVING sum(_n) <> 0"
    return query_table(db, sql, d=found), False


def joined_rows(
    db: duckdb.DuckDBPyConnection,
    relation: RelationQuery,
    names: str,
    contents: Sequence[Content],
    tables: Mapping[str, pa.Table],
    low: int,
    high: int,
    observer: Observer | None = None,
) -> pa.Table:
    """The joined rows that enter or leave at the instants low <= τ < high, one by one: c0, c1, …, `_at`, `_n` (1, -1).

    Arguments: as of `joined_changes`.
    """
    join, event = _event(db, relation, None, contents, tables, low, high, observer)
    return join.images(event, names)


def _event(
    db: duckdb.DuckDBPyConnection,
    relation: RelationQuery,
    operator: str | None,
    contents: Sequence[Content],
    tables: Mapping[str, pa.Table],
    low: int,
    high: int,
    observer: Observer | None,
) -> tuple[_Join, Event]:
    """All joined rows that enter or leave in a stretch, as far as the operator needs them."""
    assert isinstance(relation.plan, Joined | Grouped)
    plan = relation.plan.join
    known = {i.alias: (i, c) for i, c in zip(relation.inputs, contents, strict=True)}
    graph = graph_of(plan)
    sides = [side_of(plan, graph, n, known, tables) for n in range(len(plan.items))]
    inputs = Inputs(db, plan, graph, sides, relation.instants, ROWS_AT_MOST)
    join = _Join(inputs, low, min(high, FOR_EVER), observer)
    return join, _one(join.pairs(operator) if plan.kind.inner else join.outer())


def _one(events: Sequence[Event]) -> Event:
    """Several events one behind the other."""
    if len(events) == 1:
        return events[0]
    parts = tuple(np.concatenate(p) for p in zip(*(e.parts for e in events), strict=True))
    return Event(parts, np.concatenate([e.at for e in events]), np.concatenate([e.count for e in events]))


@dataclass(frozen=True)
class _Join:
    inputs: Inputs
    low: int
    high: int
    observer: Observer | None

    @property
    def db(self) -> duckdb.DuckDBPyConnection:
        return self.inputs.db

    @property
    def plan(self) -> JoinPlan:
        return self.inputs.plan

    @property
    def sides(self) -> Sequence[Side]:
        return self.inputs.sides

    @property
    def free(self) -> str:
        return self.inputs.free

    def pairs(self, operator: str | None = None) -> list[Event]:
        """Joined rows of an inner join that enter or leave in the stretch.

        Of a stream of insertions only what leaves in the same instant matters, since it may be an equal row; of one of
        deletions what enters.
        """
        enters = self.changing(1, -1 if operator == "dstream" else 0)
        leaves = self.changing(-1, 1 if operator == "istream" else 0)
        return self.pipelines([*enters, *leaves]) or [self.nothing()]

    def instants(self, sign: int) -> Ints:
        """The instants in the stretch at which a row of any input begins (1) or ends (-1), ascending."""
        moments = [s.begin if sign > 0 else s.end for s in self.sides]
        # Stable, since stretches that are ascending already are then merged only.
        return np.sort(np.concatenate([m[(m >= self.low) & (m < self.high)] for m in moments]), kind="stable")

    def nothing(self) -> Event:
        """No joined row."""
        none = np.empty(0, np.int64)
        return Event(tuple(none for _ in self.sides), none, none)

    def changing(self, sign: int, only: int) -> list[Changing]:
        """The rows of each input that begin (1) or end (-1) in the stretch, in pieces.

        Arguments:
            only: at an instant at which some row begins (1) or ends (-1); 0: at any.
        """
        found: list[Changing] = []
        instants = None
        for number, side in enumerate(self.sides):
            moments = side.begin if sign > 0 else side.end
            rows = np.flatnonzero((moments >= self.low) & (moments < self.high))
            if only and len(rows):
                instants = self.instants(only) if instants is None else instants
                moved = moments[rows]
                rows = rows[np.searchsorted(instants, moved, "left") < np.searchsorted(instants, moved, "right")]
            size = max(1, min(AT_ONCE, max(SIDE_BY_SIDE, -(-len(rows) // parallel.allowed()))))
            found += [Changing(number, sign, rows[n : n + size], moments) for n in range(0, len(rows), size)]
        return found

    def pipelines(self, pieces: Sequence[Changing]) -> list[Event]:
        """What each input makes enter or leave, in the order of the pieces, side by side where threads are allowed."""
        orders = {p.number: None if self.observer is None else self.observer.order(p.number) for p in pieces}
        if parallel.allowed() > 1:
            self.sort(orders)
        made, lock = {1: 0, -1: 0}, threading.Lock()

        def run(piece: Changing, db: duckdb.DuckDBPyConnection) -> Event:
            event = self.pipeline(piece, orders[piece.number], replace(self.inputs, db=db))
            with lock:
                made[piece.sign] += len(event.at)
            bounded(made[piece.sign], self.inputs.most)
            return event

        return parallel.side_by_side(self.db, [partial(run, piece) for piece in pieces])

    def sort(self, orders: Mapping[int, Sequence[int] | None]) -> None:
        """Sort runs by the keys that pipelines ask for, so that no two of them do it at the same time."""
        graph, jobs = self.inputs.graph, {}
        for number, order in orders.items():
            bound = [number]
            for other in graph.order(number) if order is None else order:
                keys = tuple(n for n, _ in graph.links(other, bound))
                for run in self.sides[other].runs:
                    if not self.sides[other].is_sorted(run, keys):
                        jobs[other, keys, id(run)] = partial(self.sides[other].order, run=run, numbers=keys)
                bound.append(other)
        parallel.side_by_side(self.db, list(jobs.values()))

    def pipeline(self, piece: Changing, order: Sequence[int] | None, inputs: Inputs) -> Event:
        """Rows of one input through the others: those for which it is the last to begin, or the first to end."""
        way = Pipeline(inputs, piece.number, piece.rows, piece.moments[piece.rows], piece.sign, order)
        parts, at = way.run(None if self.observer is None else self.observer.piece(way))
        return Event(tuple(parts[n] for n in range(len(self.sides))), at, np.full(len(at), piece.sign))

    def passing(self, event: Event) -> Event:
        """Without the joined rows that fail the join's condition."""
        if self.plan.on is None or not len(event.at):
            return event
        kept = self.inputs.holding(dict(enumerate(event.parts)), self.plan.on, len(event.at))
        return Event(tuple(p[kept] for p in event.parts), event.at[kept], event.count[kept])

    def images(self, event: Event, names: str) -> pa.Table:
        """The select list for joined rows that pass WHERE: c0, c1, …, `_at`, `_n`."""
        moments = pa.table({f"{self.free}t": event.at, f"{self.free}n": event.count})
        own = ", ".join(quote(n) for n in moments.column_names)
        select = f"{self.plan.select}, {own}"
        if self.plan.plain and self.plan.where is None and len(event.at):
            none = np.empty(0, np.int64)
            model = self.over(Event(tuple(none for _ in event.parts), none, none), select, None, moments.slice(0, 0))
            columns = [self.sides[n].taken(c, event.parts[n]) for n, c in self.plan.plain]
            found = as_they_are(columns, model.schema.types[:-2])
            if found is not None:
                return pa.table([*found, *moments.columns], names=[*names.split(", "), "_at", "_n"])
        found = self.over(event, select, self.plan.where, moments)
        return found.rename_columns([*names.split(", "), "_at", "_n"])

    def over(self, event: Event, select: str, where: str | None, beside: pa.Table) -> pa.Table:
        """A SELECT over joined rows side by side."""
        return self.inputs.over(dict(enumerate(event.parts)), select, where, beside)

    # --- outer joins --------------------------------------------------------------------------------------------------

    def outer(self) -> list[Event]:
        """Joined rows of an outer, semi or anti join of two inputs that enter or leave in the stretch."""
        kind = self.plan.kind
        pairs = self.pairs()
        events = pairs if kind.every else []
        for number in kind.alone:
            side = self.sides[number]
            own = [np.flatnonzero((m >= self.low) & (m < self.high)) for m in (side.begin, side.end)]
            touched = distinct(np.concatenate([*own, *(e.parts[number] for e in pairs)]))
            free = self.alone(number, touched)
            if kind.partnered:  # what is not alone
                free = [Event(e.parts, e.at, -e.count) for e in free]
                for moments, sign in ((side.begin, 1), (side.end, -1)):
                    rows = touched[(moments[touched] >= self.low) & (moments[touched] < self.high)]
                    free.append(self.single(number, rows, moments[rows], sign))
            events = [*events, *free]
        return events or [self.nothing()]

    def single(self, number: int, rows: Ints, at: Ints, sign: int) -> Event:
        """Rows of one input, with NULLs for the other where it is shown."""
        if self.plan.kind.first_only:
            return Event((rows,), at, np.full(len(rows), sign))
        parts = [np.full(len(rows), MISSING)] * 2
        parts[number] = rows
        return Event(tuple(parts), at, np.full(len(rows), sign))

    def alone(self, number: int, touched: Ints) -> list[Event]:
        """When rows of one input begin and cease to be without a partner."""
        side, other = self.sides[number], self.sides[1 - number]
        begin, end = side.begin[touched], side.end[touched]
        # The partner counts where both are valid, somewhere between the instant before the stretch and its end.
        latest, earliest = np.minimum(end, self.high) - 1, np.maximum(begin + 1, self.low)
        kept, matched = self.inputs.probe({number: touched}, latest, earliest, 1 - number)
        parts = [np.empty(0, np.int64)] * 2
        parts[number], parts[1 - number] = touched[kept], matched
        found = self.passing(Event(tuple(parts), kept, np.ones(len(kept), np.int64)))
        who = found.at  # which of the touched rows
        spans = pa.table(
            {
                "w": np.concatenate([who, np.arange(len(touched))]),
                "b": np.concatenate([np.maximum(begin[who], other.begin[found.parts[1 - number]]), end]),
                "e": np.concatenate([np.minimum(end[who], other.end[found.parts[1 - number]]), end]),
            }
        )
        own = pa.table({"w": np.arange(len(touched)), "first": begin})
        gaps = query_table(
            self.db,
            "SELECT w, start, stop FROM (SELECT w, b AS stop, greatest(first, coalesce(max(e) OVER (PARTITION BY w"
            " ORDER BY b, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), first)) AS start"
            " FROM spans JOIN own USING (w)) WHERE stop > start",
            spans=spans,
            own=own,
        )
        rows = touched[gaps["w"].to_numpy()]
        events = []
        for name, sign in (("start", 1), ("stop", -1)):
            at = gaps[name].to_numpy()
            inside = (at >= self.low) & (at < self.high)
            events.append(self.single(number, rows[inside], at[inside], sign))
        return events
