"""The order-agnostic join of two streams: a stream of pairs, each as soon as both rows are there (OA-Join).

Li 2008, chapter 7. A row spans [first, last]: from its event time for as long as its stream's window says (sliding), or
the interval that it lies in (tumbling). Two rows meet when their spans overlap: for windows W0 and W1 that is the band
t0 - W1 <= t1 <= t0 + W0. Nothing waits for order. A bound on what one stream can still bring tells how far spans of the
other matter: what nobody can reach any more is left out, and a row that found no partner is reported alone.

Everything here is a function of which rows take part before and after an epoch, and of the bounds that were known
then, so that it does not matter what came first. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.progress import FOREVER, NEVER
from millpond.relations.joining import AT_ONCE, ROWS_AT_MOST
from millpond.relations.pipelines import MISSING, side_by_side
from millpond.relations.spans import Ints
from millpond.support.distinct import distinct
from millpond.support.sql import group_text, quote
from millpond.synopses import query_table
from millpond.synopses.partners.meeting import Spans, met
from millpond.types import JoinPlan, PairsQuery, RangeWindow, TimedWindow, TumblingWindow

Mask = npt.NDArray[np.bool_]


# --- progress ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marks:
    """What the bounds of two inputs say of results to come (Li 2008, 7.3).

    result: none has a smaller largest event time. sides: none has a smaller event time of that input (individual).
    joint: none has both event times smaller than these; None where `sides` say more.
    """

    result: int
    sides: tuple[int, int]
    joint: tuple[int, int] | None


def first_reaching(window: TimedWindow, bound: int) -> int:
    """The least event time whose span does not end before `bound`.

    >>> first_reaching(RangeWindow(3), 10), first_reaching(TumblingWindow(4), 10)
    (7, 8)
    """
    if bound <= NEVER or bound >= FOREVER:
        return bound
    return max(NEVER, window.since(bound))


def marks_of(relation: PairsQuery, bounds: tuple[int, int]) -> Marks:
    """What is known of results to come when an input's rows have event times of at least its bound from now on."""
    windows = relation.windows
    reached = [first_reaching(windows[n], bounds[1 - n]) for n in (0, 1)]
    sides = (min(bounds[0], reached[0]), min(bounds[1], reached[1]))
    joint = bounds if reached[0] <= bounds[0] and reached[1] <= bounds[1] else None
    alone = [sides[n] for n in relation.join.kind.alone]
    return Marks(min([*bounds, *alone]), sides, joint)


def needed_from(relation: PairsQuery, limits: Sequence[int]) -> tuple[int, int]:
    """The event times from which rows of the inputs can still matter.

    An input's rows are let go by the progress of the *other* one. Where rows of the other may be alone, one is also
    kept for as long as it can be the reason why some are not.

    Arguments:
        limits: the least event time that a row of the input can have from now on, late rows included.
    """
    windows = relation.windows
    found = []
    for n in (0, 1):
        low = first_reaching(windows[n], limits[1 - n])
        if 1 - n in relation.join.kind.alone:
            low = min(low, first_reaching(windows[n], first_reaching(windows[1 - n], limits[n])))
        found.append(low)
    return found[0], found[1]


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """The rows of an input in total order, their event times, and which take part before and after an epoch."""

    rows: pa.Table
    times: Ints
    before: Mask
    after: Mask


@dataclass(frozen=True)
class Reached:
    """What an input brings no more of: rows with event times below `bound`, or below a larger one of their group.

    groups: these, by the text of their values of `by`, quoted columns; none: nothing is known of groups.
    """

    bound: int = NEVER
    groups: Mapping[str, int] = field(default_factory=dict)
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Joined rows: of each input row numbers (MISSING: NULLs; semi and anti joins: of the first alone); sign: 1 more,
    -1 less."""

    parts: tuple[Ints, ...]
    sign: Ints


def pair_changes(
    db: duckdb.DuckDBPyConnection,
    relation: PairsQuery,
    names: str,
    seen: Sequence[Seen],
    before: tuple[Reached, Reached],
    after: tuple[Reached, Reached],
) -> tuple[pa.Table, int | None]:
    """What an epoch adds to the stream of pairs, or takes back: columns `_at`, `_sign` (1), c0, c1, …, `_n`.

    `_at` is the largest event time of the row's parts.

    Arguments:
        names: c0, c1, … as a list. before, after: how far the inputs were before and after the epoch.
    Returns: the changes in the order of instants and parts, and the least end of a span whose row waits to be alone.
    """
    join = _Join(db, relation.join, seen, _sides(db, relation, seen), relation.instants)
    found = join.pairs()
    waits = []
    kind = relation.join.kind
    if not kind.inner:
        touched = list(found)
        found = found if kind.every else []
        for n in kind.alone:
            known = join.bounds(n, after[1 - n])
            found.append(join.alone(n, touched, join.bounds(n, before[1 - n]), known))
            last = join.sides[n].last
            waiting = last[seen[n].after & (last >= known)]
            if len(waiting) and not kind.partnered:
                waits.append(int(waiting.min()))
    return join.images(found, names), min(waits, default=None)


@dataclass(frozen=True)
class _Side:
    """An input's spans, all last - first = length, and the values of its sides of equalities (columns e0, e1, …)."""

    first: Ints
    last: Ints
    length: int
    keys: pa.Table


def _sides(db: duckdb.DuckDBPyConnection, relation: PairsQuery, seen: Sequence[Seen]) -> list[_Side]:
    plan = relation.join
    found = []
    for n, (window, each) in enumerate(zip(relation.windows, seen, strict=True)):
        match window:
            case TumblingWindow():
                first, length = each.times - (each.times - window.origin) % window.range, window.range - 1
            case RangeWindow():
                first, length = each.times, window.range
            case _:
                assert_never(window)
        listed = ", ".join(f"({e.side(n)}) AS e{k}" for k, e in enumerate(plan.equalities))
        sql = f"SELECT {listed} FROM {plan.sources[n]}"
        keys = query_table(db, sql, **{plan.items[n]: each.rows}) if listed else pa.table({})
        found.append(_Side(first, first + length, length, keys))
    return found


@dataclass(frozen=True)
class _Join:
    db: duckdb.DuckDBPyConnection
    plan: JoinPlan
    seen: Sequence[Seen]
    sides: Sequence[_Side]
    free: str

    def pairs(self) -> list[Found]:
        """Pairs that an epoch adds (of which a row is new), and those that it takes back (of which a row is gone)."""
        left, right = self.seen
        found = []
        for sign, own, other in ((1, "after", "before"), (-1, "before", "after")):
            moved = [np.flatnonzero(getattr(s, own) & ~getattr(s, other)) for s in self.seen]
            found.append(self.meeting(0, moved[0], getattr(right, own), sign))
            found.append(self.meeting(1, moved[1], left.before & left.after, sign))
        return found

    def bounds(self, number: int, reached: Reached) -> Ints:
        """Below which event times the other input brings no partner any more, for each row of one input."""
        rows = len(self.seen[number].times)
        found = np.full(rows, reached.bound)
        sides = {e.side(1 - number).sql: f"e{k}" for k, e in reversed(list(enumerate(self.plan.equalities)))}
        if not reached.by or not reached.groups or not rows or not set(reached.by) <= sides.keys():
            return found
        sql = f"SELECT {group_text([sides[c] for c in reached.by])} AS g FROM keys"
        texts = query_table(self.db, sql, keys=self.sides[number].keys)["g"]
        names = sorted(reached.groups)
        place = pc.fill_null(pc.index_in(texts, pa.array(names, texts.type)), -1).to_numpy()
        own = np.array([reached.groups[n] for n in names], np.int64)
        return np.where(place >= 0, np.maximum(found, own[np.maximum(place, 0)]), found)

    def alone(self, number: int, touched: Sequence[Found], before: Ints, after: Ints) -> Found:
        """Rows of one input that become certain to be alone, or are alone no more; of a semi join the contrary.

        Arguments:
            touched: pairs that come or go. before, after: see `bounds`.
        """
        mine, other = self.seen[number], self.seen[1 - number]
        last = self.sides[number].last
        due = np.flatnonzero((mine.before != mine.after) | ((last >= before) & (last < after)))
        rows = distinct(np.concatenate([due, *(f.parts[number] for f in touched)]))
        met = self.meeting(number, rows, other.before | other.after, 1)
        if self.plan.kind.latest:
            return self.latest(rows, met, before, after)
        state = []
        for ours, theirs, bound in ((mine.before, other.before, before), (mine.after, other.after, after)):
            has = np.zeros(len(last), bool)
            has[met.parts[number][theirs[met.parts[1 - number]]]] = True
            state.append((ours & (has if self.plan.kind.partnered else ~has & (last < bound)))[rows])
        changed = np.flatnonzero(state[0] != state[1])
        sign = np.where(state[1][changed], 1, -1)
        if self.plan.kind.first_only:
            return Found((rows[changed],), sign)
        parts = [np.full(len(changed), MISSING)] * 2
        parts[number] = rows[changed]
        return Found((parts[0], parts[1]), sign)

    def latest(self, rows: Ints, met: Found, before: Ints, after: Ints) -> Found:
        """Rows of the first input with their latest partner, where that becomes certain or another one.

        Arguments: as of `alone`; met: the rows' partners.
        """
        mine, other = self.seen
        best, told = [], []
        for ours, theirs, bound in ((mine.before, other.before, before), (mine.after, other.after, after)):
            found = np.full(len(mine.times), MISSING)
            there = theirs[met.parts[1]]
            np.maximum.at(found, met.parts[0][there], met.parts[1][there])  # rows are in total order
            best.append(found[rows])
            told.append((ours & (mine.times < bound) & (self.plan.kind.bare | (found != MISSING)))[rows])
        same = told[0] & told[1] & (best[0] == best[1])
        gone, come = np.flatnonzero(told[0] & ~same), np.flatnonzero(told[1] & ~same)
        left = np.concatenate([rows[gone], rows[come]])
        right = np.concatenate([best[0][gone], best[1][come]])
        return Found((left, right), np.repeat([-1, 1], [len(gone), len(come)]))

    def meeting(self, number: int, rows: Ints, among: Mask, sign: int) -> Found:
        """The pairs of some rows of an input with those of the other one that take part."""
        parts: list[list[Ints]] = [[np.empty(0, np.int64)], [np.empty(0, np.int64)]]
        made = 0
        for start in range(0, len(rows), AT_ONCE):
            kept, matched = self.probe(number, rows[start : start + AT_ONCE], among)
            both = (kept, matched) if number == 0 else (matched, kept)
            passed = self.passing(both)
            parts[0].append(both[0][passed])
            parts[1].append(both[1][passed])
            made += len(passed)
            _bounded(made)
        return Found((np.concatenate(parts[0]), np.concatenate(parts[1])), np.full(sum(map(len, parts[0])), sign))

    def probe(self, number: int, rows: Ints, among: Mask) -> tuple[Ints, Ints]:
        """Row numbers of both inputs whose spans and keys meet, in their order."""
        mine, other = self.sides[number], self.sides[1 - number]
        first, last = mine.first[rows], mine.last[rows]
        near = np.flatnonzero(among & (other.first <= last.max()) & (other.last >= first.min()))
        keys = [self.sides[n].keys.columns for n in (number, 1 - number)]
        asked = Spans([k.take(pa.array(rows)) for k in keys[0]], first, last)
        stored = Spans([k.take(pa.array(near)) for k in keys[1]], other.first[near], other.last[near])
        found = met(self.db, asked, stored, other.length, ROWS_AT_MOST)
        if isinstance(found, int):
            _bounded(found)
            raise AssertionError
        return rows[found[0]], near[found[1]]

    def passing(self, parts: tuple[Ints, Ints]) -> Ints:
        """Which pairs pass the join's condition."""
        numbers = np.arange(len(parts[0]))
        if self.plan.on is None or not len(numbers):
            return numbers
        beside = pa.table({f"{self.free}k": numbers})
        passed: Ints = self.over(parts, quote(f"{self.free}k"), self.plan.on, beside)[0].to_numpy()
        return passed

    def images(self, found: Sequence[Found], names: str) -> pa.Table:
        """The select list for joined rows that pass WHERE, in the order of `_at` and of their parts."""
        width = len(found[0].parts)
        parts = tuple(np.concatenate([f.parts[n] for f in found]) for n in range(width))
        sign = np.concatenate([f.sign for f in found])
        times = [
            np.where(p == MISSING, NEVER, s.times[p] if len(s.times) else NEVER)
            for p, s in zip(parts, self.seen, strict=False)
        ]
        at = np.maximum.reduce(times)
        places = np.lexsort((*reversed(parts), sign, at))
        beside = pa.table({f"{self.free}t": at[places], f"{self.free}n": sign[places]})
        own = ", ".join(map(quote, beside.column_names))
        chosen = tuple(p[places] for p in parts)
        rows = self.over(chosen, f"{self.plan.select}, {own}", self.plan.where, beside)
        rows = rows.rename_columns([*names.split(", "), "_at", "_n"])
        return query_table(self.db, f"SELECT _at, 1::BIGINT AS _sign, {names}, _n FROM rows", rows=rows)

    def over(self, parts: tuple[Ints, ...], select: str, where: str | None, beside: pa.Table) -> pa.Table:
        """A SELECT over joined rows side by side."""
        rows = {n: s.rows for n, s in enumerate(self.seen)}
        return side_by_side(self.db, self.plan, self.free, rows, dict(enumerate(parts)), select, where, beside)


def _bounded(pairs: int) -> None:
    """Raises: ValueError when there are more pairs than an epoch may make."""
    if pairs > ROWS_AT_MOST:
        raise ValueError(
            f"more than {ROWS_AT_MOST} pairs would come of one epoch; shorter windows, an equality between the streams"
            " or a filter on one of them helps"
        )
