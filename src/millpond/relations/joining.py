"""Joins of windows from intervals of validity: no instant between two changes is looked at.

A joined row is valid while all its parts are: [max begin, min end). It enters when its last part does and leaves with
the first that leaves. So each input has a pipeline of its own (MJoin; Babu 2005, 5.1): the rows that begin, or end, in
a stretch of time are joined with the other inputs as they are at that instant, one input after the other. An outer
join adds, for each row, what its joined rows leave free of its own interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millpond.distinct import distinct
from millpond.language.duck import quote
from millpond.relations.contents import FOR_EVER, Content, Ints
from millpond.synopses import query_table
from millpond.types import JoinPlan, Relational

#: Rows of an input that go down its pipeline at a time.
AT_ONCE = 200_000

#: Joined rows that one epoch may make, of any part of a join: some gigabytes.
ROWS_AT_MOST = 50_000_000

#: The begin of validity of rows that were always there: before every stretch of time.
_ALWAYS = np.iinfo(np.int64).min

#: Row number of a part that is missing.
MISSING = -1


@dataclass(frozen=True)
class Event:
    """Joined rows that enter or leave.

    parts: of each FROM item, row numbers (MISSING: a row of NULLs). at: when. count: 1 enters, -1 leaves.
    """

    parts: tuple[Ints, ...]
    at: Ints
    count: Ints


@dataclass(frozen=True)
class _Side:
    """A FROM item: rows with intervals, and the values of its sides of equalities (columns e0, e1, … by equality)."""

    rows: pa.Table
    begin: Ints
    end: Ints
    keys: pa.Table


def joined_changes(
    db: duckdb.DuckDBPyConnection,
    relation: Relational,
    names: str,
    contents: Sequence[Content],
    tables: Mapping[str, pa.Table],
    low: int,
    high: int,
) -> tuple[pa.Table, bool]:
    """How a join changes at the instants low <= τ < high: columns `_at`, c0, c1, …, `_net`; as `evaluate._changes`.

    Returns: the changes, and whether they are in the order of instants and parts already: where nothing can cancel,
    they are not grouped, and equal rows may stand side by side.

    Arguments:
        names: c0, c1, … as a list.
    """
    plan = relation.joined
    assert plan is not None
    by_alias = {i.alias: c for i, c in zip(relation.inputs, contents, strict=True)}
    sides = [_side(db, plan, n, by_alias, tables) for n in range(len(plan.items))]
    join = _Join(db, plan, sides, relation.instants, low, min(high, FOR_EVER))
    events = join.pairs(relation.operator) if plan.kind == "inner" else join.outer()
    images = [join.images(e, names) for e in events]
    found = pa.concat_tables(images)
    if relation.operator == "istream" and not any((e.count < 0).any() for e in events):
        places = np.argsort(found["_at"].to_numpy(), kind="stable")
        if (places[1:] < places[:-1]).any():
            found = found.take(pa.array(places))
        return query_table(db, f"SELECT _at, {names}, _n AS _net FROM d", d=found), True
    sql = f"SELECT _at, {names}, sum(_n)::BIGINT AS _net FROM d GROUP BY _at, {names} HAVING sum(_n) <> 0"
    return query_table(db, sql, d=found), False


def _side(
    db: duckdb.DuckDBPyConnection,
    plan: JoinPlan,
    number: int,
    contents: Mapping[str, Content],
    tables: Mapping[str, pa.Table],
) -> _Side:
    alias = plan.items[number]
    if alias in contents:
        content = contents[alias]
    else:
        size = tables[alias].num_rows
        content = Content(tables[alias], np.full(size, _ALWAYS), np.full(size, FOR_EVER))
    wanted = [(n, e.side(number)) for n, e in enumerate(plan.equalities) if e.partner(number) is not None]
    if not wanted:
        return _Side(content.rows, content.begin, content.end, pa.table({}))
    listed = ", ".join(f"({sql}) AS e{n}" for n, sql in wanted)
    keys = query_table(db, f"SELECT {listed} FROM {plan.sources[number]}", **{alias: content.rows})
    return _Side(content.rows, content.begin, content.end, keys)


@dataclass(frozen=True)
class _Join:
    db: duckdb.DuckDBPyConnection
    plan: JoinPlan
    sides: Sequence[_Side]
    free: str
    low: int
    high: int

    def pairs(self, operator: str | None = None) -> list[Event]:
        """Joined rows of an inner join that enter or leave in the stretch.

        Of a stream of insertions only what leaves in the same instant matters, since it may be an equal row; of one of
        deletions what enters.
        """
        begins, ends = (self.instants(sign) for sign in (1, -1))
        enters = self.pipelines(1, ends if operator == "dstream" else None)
        leaves = self.pipelines(-1, begins if operator == "istream" else None)
        return [*enters, *leaves] or [self.nothing()]

    def instants(self, sign: int) -> Ints:
        """The instants in the stretch at which a row of any input begins (1) or ends (-1), ascending."""
        moments = [s.begin if sign > 0 else s.end for s in self.sides]
        return np.sort(np.concatenate([m[(m >= self.low) & (m < self.high)] for m in moments]))

    def nothing(self) -> Event:
        """No joined row."""
        none = np.empty(0, np.int64)
        return Event(tuple(none for _ in self.sides), none, none)

    def pipelines(self, sign: int, only: Ints | None) -> list[Event]:
        """What each input makes enter (1) or leave (-1), at the instants of `only` (ascending) if given."""
        found = []
        for number, side in enumerate(self.sides):
            moments = side.begin if sign > 0 else side.end
            chosen = (moments >= self.low) & (moments < self.high)
            rows = np.flatnonzero(chosen)
            if only is not None:
                moved = moments[rows]
                rows = rows[np.searchsorted(only, moved, "left") < np.searchsorted(only, moved, "right")]
            for start in range(0, len(rows), AT_ONCE):
                found.append(self.pipeline(number, rows[start : start + AT_ONCE], moments, sign))
                _bounded(sum(len(e.at) for e in found))
        return found

    def pipeline(self, number: int, rows: Ints, moments: Ints, sign: int) -> Event:
        """The rows of one input through the others: those for which it is the last to begin, or the first to end.

        Of several that begin (end) at the same instant it is the first FROM item that counts.
        """
        at = moments[rows]
        parts: dict[int, Ints] = {number: rows}
        for other in self.order(number):
            if sign > 0:
                within = f"r._b {'<' if other < number else '<='} f._t AND r._e > f._t"
            else:
                within = f"r._e {'>' if other < number else '>='} f._t AND r._b < f._t"
            kept, matched = self.probe(parts, {"_t": at}, other, within)
            parts = {n: p[kept] for n, p in parts.items()} | {other: matched}
            at = at[kept]
        ordered = tuple(parts[n] for n in range(len(self.sides)))
        return self.passing(Event(ordered, at, np.full(len(at), sign)))

    def order(self, number: int) -> list[int]:
        """In which order an input's pipeline meets the others: along equalities, without a needless product."""
        order, bound = [], {number}
        while len(bound) < len(self.sides):
            left = [n for n in range(len(self.sides)) if n not in bound]
            linked = [n for n in left if any(e.partner(n) in bound for e in self.plan.equalities)]
            order.append((linked or left)[0])
            bound.add(order[-1])
        return order

    def probe(
        self, parts: Mapping[int, Ints], moments: Mapping[str, Ints], other: int, within: str
    ) -> tuple[Ints, Ints]:
        """Partners in another input: which of the given rows has one (several times if it has several), and which.

        Arguments:
            moments: columns of the given rows that `within` speaks of, as f; r is the other input.
        """
        side = self.sides[other]
        frontier = {"_f": np.arange(len(next(iter(parts.values())))), **moments}
        probed = {"_r": np.arange(side.rows.num_rows), "_b": side.begin, "_e": side.end}
        tests = [within]
        for n, each in enumerate(self.plan.equalities):
            bound = each.partner(other)
            if bound is None or bound not in parts:
                continue
            frontier[f"e{n}"] = self.sides[bound].keys[f"e{n}"].take(pa.array(parts[bound]))
            probed[f"e{n}"] = side.keys[f"e{n}"]
            tests.append(f"f.e{n} = r.e{n}")
        sql = f"SELECT f._f, r._r FROM f JOIN r ON {' AND '.join(tests)} LIMIT {ROWS_AT_MOST + 1}"
        found = query_table(self.db, sql, f=pa.table(frontier), r=pa.table(probed))
        _bounded(found.num_rows)
        kept, matched = found["_f"].to_numpy(), found["_r"].to_numpy()
        # Which side DuckDB hashes depends on how many rows are held; what an epoch writes must not.
        places = np.argsort(kept * np.int64(max(1, side.rows.num_rows)) + matched, kind="stable")
        return kept[places], matched[places]

    def passing(self, event: Event) -> Event:
        """Without the joined rows that fail the join's condition."""
        if self.plan.on is None or not len(event.at):
            return event
        numbers = pa.table({f"{self.free}k": np.arange(len(event.at))})
        kept = self.over(event, quote(f"{self.free}k"), self.plan.on, numbers)[0].to_numpy()
        return Event(tuple(p[kept] for p in event.parts), event.at[kept], event.count[kept])

    def images(self, event: Event, names: str) -> pa.Table:
        """The select list for joined rows that pass WHERE: c0, c1, …, `_at`, `_n`."""
        moments = pa.table({f"{self.free}t": event.at, f"{self.free}n": event.count})
        own = ", ".join(quote(n) for n in moments.column_names)
        found = self.over(event, f"{self.plan.select}, {own}", self.plan.where, moments)
        return found.rename_columns([*names.split(", "), "_at", "_n"])

    def over(self, event: Event, select: str, where: str | None, beside: pa.Table) -> pa.Table:
        """A SELECT over joined rows side by side."""
        shown = 1 if self.plan.kind in ("semi", "anti") and len(event.parts) == 1 else len(self.sides)
        inputs = {}
        sources = []
        for number in range(shown):
            name = f"{self.free}{number}"
            part = event.parts[number]
            inputs[name] = self.sides[number].rows.take(pa.array(part, mask=part == MISSING))
            alias = self.plan.items[number]
            sources.append(self.plan.sources[number].replace(quote(alias), quote(name), 1))
        inputs[self.free] = beside
        items = " POSITIONAL JOIN ".join([*sources, quote(self.free)])
        tail = f" WHERE {where}" if where is not None else ""
        return query_table(self.db, f"SELECT {select} FROM {items}{tail}", **inputs)

    # --- outer joins --------------------------------------------------------------------------------------------------

    def outer(self) -> list[Event]:
        """Joined rows of an outer, semi or anti join of two inputs that enter or leave in the stretch."""
        kind = self.plan.kind
        pairs = self.pairs()
        events = pairs if kind in ("left", "right", "full") else []
        for number in (0, 1):
            if kind not in ({"left", "full", "semi", "anti"} if number == 0 else {"right", "full"}):
                continue
            side = self.sides[number]
            own = [np.flatnonzero((m >= self.low) & (m < self.high)) for m in (side.begin, side.end)]
            touched = distinct(np.concatenate([*own, *(e.parts[number] for e in pairs)]))
            free = self.alone(number, touched)
            if kind == "semi":  # what is not alone
                free = [Event(e.parts, e.at, -e.count) for e in free]
                for moments, sign in ((side.begin, 1), (side.end, -1)):
                    rows = touched[(moments[touched] >= self.low) & (moments[touched] < self.high)]
                    free.append(self.single(number, rows, moments[rows], sign))
            events = [*events, *free]
        return events or [self.nothing()]

    def single(self, number: int, rows: Ints, at: Ints, sign: int) -> Event:
        """Rows of one input, with NULLs for the other where it is shown."""
        if self.plan.kind in ("semi", "anti"):
            return Event((rows,), at, np.full(len(rows), sign))
        parts = [np.full(len(rows), MISSING)] * 2
        parts[number] = rows
        return Event(tuple(parts), at, np.full(len(rows), sign))

    def alone(self, number: int, touched: Ints) -> list[Event]:
        """When rows of one input begin and cease to be without a partner."""
        side, other = self.sides[number], self.sides[1 - number]
        begin, end = side.begin[touched], side.end[touched]
        # The partner counts where both are valid, somewhere between the instant before the stretch and its end.
        within = f"r._b < {self.high} AND r._e >= {self.low} AND r._b < f._until AND r._e > f._t"
        kept, matched = self.probe({number: touched}, {"_t": begin, "_until": end}, 1 - number, within)
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


def _bounded(rows: int) -> None:
    """Raises: ValueError when a join makes more rows than an epoch may."""
    if rows > ROWS_AT_MOST:
        raise ValueError(
            f"the join would make more than {ROWS_AT_MOST} rows in one epoch; shorter windows, an equality between its"
            " inputs or a filter below a window helps"
        )
