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
import pyarrow.compute as pc

from millpond.distinct import distinct
from millpond.language.duck import quote
from millpond.relations.contents import FOR_EVER, Content, Ints
from millpond.relations.matching import Sought, partners
from millpond.relations.sides import Side, as_they_are, codes_of, side_of
from millpond.synopses import query_table
from millpond.types import JoinPlan, Relational

#: Rows of an input that go down its pipeline at a time.
AT_ONCE = 200_000

#: Joined rows that one epoch may make, of any part of a join: some gigabytes.
ROWS_AT_MOST = 50_000_000

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
    known = {i.alias: (i, c) for i, c in zip(relation.inputs, contents, strict=True)}
    sides = [side_of(db, plan, n, known, tables) for n in range(len(plan.items))]
    join = _Join(db, plan, sides, relation.instants, low, min(high, FOR_EVER))
    event = _one(join.pairs(relation.operator) if plan.kind == "inner" else join.outer())
    enter, leave = (event.at[event.count == sign] for sign in (1, -1))
    if not len(leave) or not len(enter) or not len(np.intersect1d(distinct(enter), distinct(leave), True)):
        places = np.argsort(event.at, kind="stable")
        if (places[1:] < places[:-1]).any():
            event = Event(tuple(p[places] for p in event.parts), event.at[places], event.count[places])
        return join.images(event, names).rename_columns([*names.split(", "), "_at", "_net"]), True
    found = join.images(event, names)
    sql = f"SELECT _at, {names}, sum(_n)::BIGINT AS _net FROM d GROUP BY _at, {names} HAVING sum(_n) <> 0"
    return query_table(db, sql, d=found), False


def _one(events: Sequence[Event]) -> Event:
    """Several events one behind the other."""
    if len(events) == 1:
        return events[0]
    parts = tuple(np.concatenate(p) for p in zip(*(e.parts for e in events), strict=True))
    return Event(parts, np.concatenate([e.at for e in events]), np.concatenate([e.count for e in events]))


def side_by_side(
    db: duckdb.DuckDBPyConnection,
    plan: JoinPlan,
    free: str,
    rows: Sequence[pa.Table],
    parts: Sequence[Ints],
    select: str,
    where: str | None,
    beside: pa.Table,
) -> pa.Table:
    """A SELECT over joined rows.

    Arguments:
        free: a name that nothing in the query begins with. rows: of each FROM item's input. parts: row numbers, of the
            first items or of all (MISSING: a row of NULLs). beside: columns that go with the joined rows.
    """
    inputs = {free: beside}
    sources = []
    for number, part in enumerate(parts):
        name, alias = f"{free}{number}", plan.items[number]
        inputs[name] = rows[number].take(pa.array(part, mask=part == MISSING))
        sources.append(plan.sources[number].replace(quote(alias), quote(name), 1))
    items = " POSITIONAL JOIN ".join([*sources, quote(free)])
    tail = f" WHERE {where}" if where is not None else ""
    return query_table(db, f"SELECT {select} FROM {items}{tail}", **inputs)


@dataclass(frozen=True)
class _Join:
    db: duckdb.DuckDBPyConnection
    plan: JoinPlan
    sides: Sequence[Side]
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
            first = other < number
            latest, earliest = (at - first, at + 1) if sign > 0 else (at - 1, at + first)
            kept, matched = self.probe(parts, latest, earliest, other)
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

    def probe(self, parts: Mapping[int, Ints], latest: Ints, earliest: Ints, other: int) -> tuple[Ints, Ints]:
        """Partners in another input: which of the given rows has one (several times if it has several), and which.

        Arguments:
            latest, earliest: of each given row: a partner begins at `latest` or before and ends at `earliest` or after.
        """
        side, plan = self.sides[other], self.plan
        links = [(n, each.partner(other)) for n, each in enumerate(plan.equalities)]
        linked = [(n, bound) for n, bound in links if bound is not None and bound in parts]
        runs = [(run, side.order(self.db, run, [n for n, _ in linked])) for run in side.runs] if linked else []
        mine = None
        if runs and all(order is not None for _, order in runs):
            columns = [self.sides[bound].keys_of(self.db, n, parts[bound]) for n, bound in linked]
            mine = codes_of(self.db, columns)
            kinds = {order.kinds for run, order in runs if order is not None and len(run)}
        if mine is None or kinds - {mine.kinds}:
            return self.compare(parts, latest, earliest, other, linked)
        starts = np.cumsum([0, *(len(run) for run, _ in runs)])
        sought = [
            Sought(order, int(start), int(run.times[0]), int(run.times[-1]))
            for (run, order), start in zip(runs, starts, strict=False)
            if order is not None and len(run)
        ]
        asked = np.arange(len(latest)) if mine.valid is None else np.flatnonzero(mine.valid)
        codes, latest, earliest = mine.codes[asked], latest[asked], earliest[asked]
        found = partners(sought, side.begin, side.end, side.reach, side.plain, codes, latest, earliest, ROWS_AT_MOST)
        if isinstance(found, int):
            _bounded(found)
            raise AssertionError
        kept, matched = asked[found[0]], found[1]
        if not mine.exact and len(kept):  # equal codes of different keys are possible
            same = np.ones(len(kept), bool)
            for column, (n, _) in zip(columns, linked, strict=True):
                same &= pc.equal(column.take(pa.array(kept)), side.keys_of(self.db, n, matched)).to_numpy(False)
            kept, matched = kept[same], matched[same]
        return kept, matched

    def compare(
        self,
        parts: Mapping[int, Ints],
        latest: Ints,
        earliest: Ints,
        other: int,
        linked: Sequence[tuple[int, int]],
    ) -> tuple[Ints, Ints]:
        """As `probe`, without equalities between keys of one type: DuckDB compares."""
        side = self.sides[other]
        frontier = {"_f": np.arange(len(latest)), "_l": latest, "_s": earliest}
        probed = {"_r": np.arange(side.rows.num_rows), "_b": side.begin, "_e": side.end}
        tests = ["r._b <= f._l AND r._e >= f._s"]
        for n, bound in linked:
            frontier[f"e{n}"] = self.sides[bound].keys_of(self.db, n, parts[bound])
            probed[f"e{n}"] = side.keys_of(self.db, n, None)
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
        rows = [s.rows for s in self.sides]
        return side_by_side(self.db, self.plan, self.free, rows, event.parts, select, where, beside)

    # --- outer joins --------------------------------------------------------------------------------------------------

    def outer(self) -> list[Event]:
        """Joined rows of an outer, semi or anti join of two inputs that enter or leave in the stretch."""
        kind = self.plan.kind
        pairs = self.pairs()
        events = pairs if kind in ("left", "right", "full") else []
        for number in self.plan.alone:
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
        latest, earliest = np.minimum(end, self.high) - 1, np.maximum(begin + 1, self.low)
        kept, matched = self.probe({number: touched}, latest, earliest, 1 - number)
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
