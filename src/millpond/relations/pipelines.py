"""One input's pipeline of a join over many: its changed rows against the other inputs, in an order of its own.

MJoin (Viglas, Naughton, Burger 2003; Babu 2005, chapter 5) over sets of rows. Two phases (5.2.1): *drop-probing* asks
each other input in turn whether there is a partner at all, over what is left of the rows; *output generation* then
makes the joined rows of those that have partners everywhere, from the stretches of the runs that drop-probing has
found. An input that leads to others is joined in its place, since what comes next is found by its rows (5.2.2).

The order decides what the work is and not what comes out: joined rows stand in one order whatever it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.relations.runs import Run
from millpond.relations.sides import Side
from millpond.relations.spans import Ints
from millpond.support.sql import quote
from millpond.synopses import query_table
from millpond.synopses.partners.finding import LEAST, Matches, Sought, Validity, look_up
from millpond.synopses.partners.keys import Codes, codes_of, same_keys
from millpond.synopses.partners.meeting import Spans, compared
from millpond.synopses.partners.orders import KeyOrder
from millpond.types import JoinCondition, JoinPlan
from millpond.types.join_graphs import JoinGraph

Flags = npt.NDArray[np.bool_]

#: Row number of a part that is missing.
MISSING = -1


class Clock(Protocol):
    """Says how long something takes."""

    def lap(self) -> float:
        """Seconds since it was made, or since it was last asked."""
        ...


class Observer(Protocol):
    """Says in which order the pipelines of a join go, and looks at what they do."""

    def order(self, number: int) -> Sequence[int] | None:
        """The pipeline of an input; None: as the join graph has it."""
        ...

    def piece(self, pipeline: Pipeline) -> Piece | None:
        """What watches some changed rows on their way; None: nobody does."""
        ...


class Piece(Protocol):
    """Watches some changed rows on their way through a pipeline."""

    def clock(self) -> Clock:
        """A clock that begins now."""
        ...

    def step(self, item: int, entered: int, left: Ints, seconds: float) -> None:
        """An input was asked: for how many of the changed rows, which are left (ascending), and how long it took."""
        ...

    def end(self) -> None:
        """No more inputs will be asked."""
        ...


@dataclass(frozen=True)
class Inputs:
    """The FROM items of a join, and how they are asked for partners.

    free: a name that nothing in the query begins with. most: joined rows that one epoch may make.
    """

    db: duckdb.DuckDBPyConnection
    plan: JoinPlan
    graph: JoinGraph
    sides: Sequence[Side]
    free: str
    most: int

    def look(
        self, parts: Mapping[int, Ints], latest: Ints, earliest: Ints, other: int, mine: Codes | None = None
    ) -> Looked | None:
        """Look up where the partners of rows can be in another input; None where keys are of two types.

        Arguments:
            parts: row numbers of the items that are joined.
            latest, earliest: of each given row: a partner begins at `latest` or before and ends at `earliest` or after.
            mine: the codes of the given rows, where they are known.
        """
        side = self.sides[other]
        linked, runs = self.runs_of(other, parts)
        if mine is None:
            mine = self.codes(linked, parts, len(latest))
        if any(order.kinds != mine.kinds for run, order in runs if len(run)):
            return None
        starts = np.cumsum([0, *(len(run) for run, _ in runs)])
        sought = [
            Sought(order, int(start), int(run.times[0]), int(run.times[-1]))
            for (run, order), start in zip(runs, starts, strict=False)
            if len(run)
        ]
        asked = None if mine.valid is None else np.flatnonzero(mine.valid)
        codes = mine.codes
        if asked is not None:
            codes, latest, earliest = codes[asked], latest[asked], earliest[asked]
        low = earliest - side.reach if side.reach >= 0 else np.full(len(codes), LEAST)
        validity = None if side.plain else Validity(side.begin, side.end, latest, earliest)
        return Looked(look_up(sought, codes, low, latest, validity), asked, other, tuple(linked), mine)

    def runs_of(
        self, other: int, parts: Mapping[int, Ints]
    ) -> tuple[list[tuple[int, int]], list[tuple[Run, KeyOrder]]]:
        """The keys by which an input is found (`JoinGraph.links`), and its runs sorted by them."""
        side, linked = self.sides[other], self.graph.links(other, parts.keys())
        return linked, [(run, side.order(self.db, run, [n for n, _ in linked])) for run in side.runs]

    def read(self, looked: Looked, parts: Mapping[int, Ints]) -> tuple[Ints, Ints]:
        """The partners that were looked up: which of the given rows has one (several times if several), and which."""
        return self.checked(looked, parts, self.within(looked.matches.pairs(self.most)))

    def checked(self, looked: Looked, parts: Mapping[int, Ints], found: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
        """Partners by code without those whose keys are different."""
        kept, matched = found if looked.asked is None else (looked.asked[found[0]], found[1])
        if not looked.codes.exact and len(kept):  # equal codes of different keys are possible
            side, same = self.sides[looked.item], np.ones(len(kept), bool)
            for n, bound in looked.linked:
                mine = self.sides[bound].keys_of(self.db, n, parts[bound][kept])
                same &= same_keys(self.db, mine, side.keys_of(self.db, n, matched))
            if not same.all():
                kept, matched = kept[same], matched[same]
        return kept, matched

    def codes(self, linked: Sequence[tuple[int, int]], parts: Mapping[int, Ints], count: int) -> Codes:
        """The codes of so many joined rows by some keys."""
        return codes_of(self.db, [self.sides[bound].keys_of(self.db, n, parts[bound]) for n, bound in linked], count)

    def probe(
        self, parts: Mapping[int, Ints], latest: Ints, earliest: Ints, other: int, mine: Codes | None = None
    ) -> tuple[Ints, Ints]:
        """Partners in another input: which of the given rows has one (several times if it has several), and which.

        Arguments: as of `look`.
        """
        looked = self.look(parts, latest, earliest, other, mine)
        return self.compare(parts, latest, earliest, other) if looked is None else self.read(looked, parts)

    def compare(self, parts: Mapping[int, Ints], latest: Ints, earliest: Ints, other: int) -> tuple[Ints, Ints]:
        """As `probe`, for keys of two types, which DuckDB compares."""
        side, linked = self.sides[other], self.graph.links(other, parts.keys())
        asked = Spans([self.sides[i].keys_of(self.db, n, parts[i]) for n, i in linked], earliest, latest)
        stored = Spans([side.keys_of(self.db, n, None) for n, _ in linked], side.begin, side.end)
        return self.within(compared(self.db, asked, stored, self.most))

    def within(self, found: tuple[Ints, Ints] | int) -> tuple[Ints, Ints]:
        """Pairs, if there are not more than an epoch may make.

        Raises: ValueError when there are.
        """
        if isinstance(found, int):
            bounded(found, self.most)
            raise AssertionError
        return found

    def holding(self, parts: Mapping[int, Ints], condition: str, count: int) -> Ints:
        """For which of some joined rows (of the items that are there) a condition holds, ascending."""
        numbers = pa.table({f"{self.free}k": np.arange(count)})
        found = self.over(parts, quote(f"{self.free}k"), condition, numbers)[0].to_numpy()
        return np.asarray(found, np.int64)

    def over(self, parts: Mapping[int, Ints], select: str, where: str | None, beside: pa.Table) -> pa.Table:
        """A SELECT over joined rows side by side, of the items that are there."""
        rows = {n: self.sides[n].rows for n in parts}
        return side_by_side(self.db, self.plan, self.free, rows, parts, select, where, beside)


@dataclass(frozen=True)
class Looked:
    """Partners of rows in an input that were looked up. asked: which of the rows have a key (None: all)."""

    matches: Matches
    asked: Ints | None
    item: int
    linked: tuple[tuple[int, int], ...]
    codes: Codes

    def some(self) -> Ints:
        """Which rows have a partner, as far as codes tell, ascending."""
        found = np.flatnonzero(self.matches.some())
        return found if self.asked is None else self.asked[found]

    def take(self, rows: Ints) -> Looked:
        """The partners of some of the rows, all of which have a key."""
        places = rows if self.asked is None else np.searchsorted(self.asked, rows)
        return Looked(self.matches.take(places), None, self.item, self.linked, self.codes)


def side_by_side(
    db: duckdb.DuckDBPyConnection,
    plan: JoinPlan,
    free: str,
    rows: Mapping[int, pa.Table],
    parts: Mapping[int, Ints],
    select: str,
    where: str | None,
    beside: pa.Table,
) -> pa.Table:
    """A SELECT over joined rows.

    Arguments:
        free: a name that nothing in the query begins with. rows: of the input of each FROM item that is there.
        parts: row numbers by item (MISSING: a row of NULLs). beside: columns that go with the joined rows.
    """
    inputs = {free: beside}
    sources = []
    for number in sorted(parts):
        name, alias = f"{free}{number}", plan.items[number]
        inputs[name] = rows[number].take(pa.array(parts[number], mask=parts[number] == MISSING))
        sources.append(plan.sources[number].replace(quote(alias), quote(name), 1))
    items = " POSITIONAL JOIN ".join([*sources, quote(free)])
    tail = f" WHERE {where}" if where is not None else ""
    return query_table(db, f"SELECT {select} FROM {items}{tail}", **inputs)


class Pipeline:
    """The way of some changed rows of an input through the others.

    Arguments:
        number: the input. rows: that begin (sign 1) or end (-1), at the instants `at`.
        order: of the other inputs; None: as the join graph has it.
    Of several rows that begin (end) at the same instant it is the first FROM item's that the joined row is made for.
    """

    def __init__(
        self, inputs: Inputs, number: int, rows: Ints, at: Ints, sign: int, order: Sequence[int] | None = None
    ) -> None:
        self.inputs, self.number, self.rows, self.at, self.sign = inputs, number, rows, at, sign
        graph = inputs.graph
        self.usual = graph.order(number)
        self.order = self.usual if order is None else tuple(order)
        self.growing = graph.growing(number, self.order)
        self._codes: dict[tuple[tuple[int, int], ...], Codes] = {}

    def codes(self, other: int, bound: Collection[int], origin: Ints) -> Codes | None:
        """The codes of changed rows by the keys that lead to another input; None where they are of other items.

        They are worked out once, however many inputs are asked for the same key.

        Arguments:
            bound: the items that are joined. origin: which of the changed rows.
        """
        linked = tuple(self.inputs.graph.links(other, bound))
        if not linked or any(item != self.number for _, item in linked):
            return None
        if linked not in self._codes:
            self._codes[linked] = self.inputs.codes(linked, {self.number: self.rows}, len(self.rows))
        found = self._codes[linked]
        if len(origin) == len(self.rows) and bool((origin[1:] > origin[:-1]).all()):
            return found
        return found.take(origin)

    def spans(self, at: Ints, other: int) -> tuple[Ints, Ints]:
        """When a partner has to begin at the latest, and end at the earliest, for rows that change at instants."""
        first = other < self.number
        return (at - first, at + 1) if self.sign > 0 else (at - 1, at + first)

    def run(self, piece: Piece | None = None) -> tuple[dict[int, Ints], Ints]:
        """The joined rows: row numbers by item, and at which instant each enters or leaves."""
        inputs = self.inputs
        front = _Front({self.number: self.rows}, self.at, np.arange(len(self.rows)), conditions_of(inputs.plan))
        grown: list[int] = []
        for place, other in enumerate(self.order):
            if not len(front.at):
                break
            entered = 0
            if piece is not None:
                inputs.runs_of(other, front.parts)  # what is new in them is sorted for all who ask
                entered = front.count
            begun = None if piece is None else piece.clock()
            latest, earliest = self.spans(front.at, other)
            mine = self.codes(other, front.parts.keys(), front.origin)
            only = place == len(self.order) - 1 and not front.waiting
            looked = None if other in self.growing or only else inputs.look(front.parts, latest, earliest, other, mine)
            if looked is not None:
                left = looked.some()
                looked = looked.take(left)
                front.take(left)
                front.waiting[other] = looked
            else:
                front.grow(inputs, other, *inputs.probe(front.parts, latest, earliest, other, mine))
                grown.append(other)
            if piece is not None and begun is not None:
                piece.step(other, entered, front.origins, begun.lap())
        if piece is not None:
            piece.end()
        if not len(front.at):
            none = np.empty(0, np.int64)
            return dict.fromkeys(range(inputs.graph.count), none), none
        for other in [n for n in self.usual if n in front.waiting]:
            looked = front.waiting.pop(other)
            front.grow(inputs, other, *inputs.read(looked, front.parts))
            grown.append(other)
        if grown != self.as_usual():
            self._settle(front)
        return front.parts, front.at

    def as_usual(self) -> list[int]:
        """In which order inputs are joined if the pipeline's order is the usual one."""
        graph = self.inputs.graph
        growing = self.growing if self.order == self.usual else graph.growing(self.number, self.usual)
        return sorted(self.usual, key=lambda n: n not in growing)

    def _settle(self, front: _Front) -> None:
        """Bring joined rows into the order that they have when the pipeline goes as usual."""
        keys = [front.origin, *(front.parts[n] for n in self.as_usual())]
        places = np.lexsort(keys[::-1])
        front.take(places)

    def meets(self, item: int, chosen: Ints, known: dict[int, tuple[Ints, dict[int, Ints]]], most: int) -> Flags | None:
        """For which of some changed rows another input and those on the path to it have partners together.

        This is the logical filter of the input (Babu 2005, 5.2.2). None: there would be too many on the path.

        Arguments:
            chosen: places of the changed rows. known: what was found for these rows before, and is again.
            most: joined rows up to which a path is followed.
        """
        path = self.inputs.graph.paths(self.number)[item]
        origin, parts = np.arange(len(chosen)), {self.number: self.rows[chosen]}
        for other in path:
            if other in known:
                origin, parts = known[other]
                continue
            latest, earliest = self.spans(self.at[chosen][origin], other)
            mine = self.codes(other, parts.keys(), chosen[origin])
            looked = self.inputs.look(parts, latest, earliest, other, mine)
            if looked is None:
                return None
            if other == item:
                found = np.zeros(len(chosen), np.bool_)
                found[origin[looked.some()]] = True
                return found
            pairs = looked.matches.pairs(most)
            if isinstance(pairs, int):
                return None
            kept, matched = self.inputs.checked(looked, parts, pairs)
            origin, parts = origin[kept], {n: p[kept] for n, p in parts.items()} | {other: matched}
            known[other] = origin, parts
        found = np.zeros(len(chosen), np.bool_)
        found[origin] = True
        return found


class _Front:
    """Joined rows on their way. origin: the changed row of each, ascending. waiting: looked up, and not yet joined."""

    def __init__(self, parts: dict[int, Ints], at: Ints, origin: Ints, conditions: Sequence[JoinCondition]) -> None:
        self.parts, self.at, self.origin, self.conditions = parts, at, origin, list(conditions)
        self.waiting: dict[int, Looked] = {}

    @property
    def origins(self) -> Ints:
        """The changed rows that are left, ascending."""
        if len(self.origin) < 2:
            return self.origin
        return self.origin[np.r_[True, self.origin[1:] != self.origin[:-1]]]

    @property
    def count(self) -> int:
        """How many changed rows are left."""
        return len(self.origins)

    def take(self, rows: Ints) -> None:
        """Go on with some of the joined rows, some of them perhaps several times."""
        self.waiting = {n: looked.take(rows) for n, looked in self.waiting.items()}
        if len(rows) == len(self.at) and (len(rows) < 2 or bool((rows[1:] - rows[:-1] == 1).all())):
            return  # all, once
        self.parts = {n: part[rows] for n, part in self.parts.items()}
        self.at, self.origin = self.at[rows], self.origin[rows]

    def grow(self, inputs: Inputs, other: int, kept: Ints, matched: Ints) -> None:
        """Join another input, and leave out what fails a condition that can be told now."""
        self.take(kept)
        self.parts[other] = matched
        bounded(len(matched), inputs.most)
        ready = [c for c in self.conditions if self.parts.keys() >= set(c.items)]
        if ready and len(self.at):
            self.conditions = [c for c in self.conditions if c not in ready]
            self.take(inputs.holding(self.parts, " AND ".join(c.sql for c in ready), len(self.at)))


def conditions_of(plan: JoinPlan) -> Sequence[JoinCondition]:
    """What beside equalities makes a joined row, condition by condition where that is known."""
    if plan.on is None or plan.conditions:
        return plan.conditions
    return (JoinCondition(tuple(range(len(plan.items))), plan.on),)


def bounded(rows: int, most: int) -> None:
    """Raises: ValueError when a join makes more rows than an epoch may."""
    if rows > most:
        raise ValueError(
            f"the join would make more than {most} rows in one epoch; shorter windows, an equality between its"
            " inputs or a filter below a window helps"
        )
