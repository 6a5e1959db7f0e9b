"""Instants that a relation reports of groups whose own bounds are further than that of all rows (`marks_by`).

A query that keeps groups apart gives of the rows of some groups the answers of these, whatever the others are. So what
is reported of a group ahead of the others follows from its rows alone, by the same evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.operators.relation.seen import Seen
from millpond.operators.relational.equal_groups import groups_meet
from millpond.operators.windowed.group_bounds import Edges, GroupBounds, edges_of
from millpond.progress import StreamProgress
from millpond.relations import FOR_EVER, Content, Known, TablesInTime, answers, difference
from millpond.relations.spans import Ints
from millpond.types import QueryOptions, RelationQuery, StreamDefinition


@dataclass(frozen=True)
class KeptApart:
    """The groups that a query keeps apart.

    columns: of each input, those that tell them apart. places: where the answer shows these.
    """

    columns: tuple[tuple[str, ...], ...]
    places: tuple[int, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of answers before they have names."""
        return tuple(f"c{place}" for place in self.places)


def released_by(query: RelationQuery, options: QueryOptions, inputs: Sequence[StreamDefinition]) -> KeptApart | None:
    """The groups that a query reports as their own bounds allow; None: it waits for all rows.

    Args:
        inputs: the stream of each of its inputs.
    """
    marked = [stream.options.marked_by for stream in inputs]
    waits = options.delay or query.tables or any(item.feeds for item in query.inputs)
    if waits or not all(marked) or len({len(by) for by in marked}) > 1:
        return None
    for item, by in zip(query.inputs, marked, strict=True):
        places = {column: place for alias, column, place in query.apart if alias == item.alias}
        if places.keys() >= set(by) and (len(inputs) == 1 or _meet(query, item.alias, marked)):
            return KeptApart(tuple(marked), tuple(places[column] for column in by))
    return None


def _meet(query: RelationQuery, alias: str, marked: Sequence[tuple[str, ...]]) -> bool:
    """Whether rows of several inputs meet only where their groups are the same, and each row of the answer has a row
    of one of them. marked: what tells the groups of each apart."""
    join, aliases = query.joined, [item.alias for item in query.inputs]
    if join is None or any(item.window.pushes for item in query.inputs):
        return False
    return groups_meet(join, join.items.index(alias), [marked[aliases.index(name)] for name in join.items])


def bounds_of(apart: KeptApart | None, states: Sequence[StreamProgress]) -> GroupBounds | None:
    """How far all inputs are of each group. states: the progress of each."""
    if apart is None:
        return None
    names = sorted({group for state in states for group in state.groups})
    return GroupBounds(apart.columns[0], {g: min(state.bound_of(g) for state in states) for g in names})


@dataclass(frozen=True)
class GroupsAhead:
    """The groups of an epoch that are ahead.

    tables: which the query does not read. apart: None: it keeps none apart. before, after: up to which instants rows
    were reported before the epoch, and are after it, by group.
    """

    seen: Seen
    tables: TablesInTime
    apart: KeptApart | None
    before: Edges
    after: Edges

    @staticmethod
    def of(
        seen: Seen, tables: TablesInTime, apart: KeptApart | None, bounds: GroupBounds | None, low: int, closed: int
    ) -> GroupsAhead:
        """As of when all rows are reported from `low` up to `closed`. bounds: of groups."""
        return GroupsAhead(seen, tables, apart, *edges_of(low, closed, bounds, seen.progress.own.groups, int))

    def revised(self, common: pa.Table | None) -> pa.Table | None:
        """How what was reported differs, that of groups ahead included. common: the same of what all rows are."""
        seen, before = self.seen, self.before
        if not before.further or not any(seen.revising):
            return common
        edges = self._by_input(before, seen.fresh)
        touched = np.concatenate([a[(a < e) & (e > before.common)] for a, e in zip(seen.arrivals, edges, strict=True)])
        if not len(touched):
            return common
        mine, low = self._only(before.further), max(before.common, int(touched.min()))
        old = self._answers(mine.known(seen.since - 1), low, before.most, before=True)
        changed = difference(seen.db, seen.query, old, self._answers(mine.contents, low, before.most))
        return _together([common, _within(changed, self._shown(before), upper=True)])

    def passed(self, common: pa.Table | None) -> pa.Table | None:
        """What is reported first, of groups ahead included. common: the same of all rows."""
        before, after = self._shown(self.before), self._shown(self.after)
        if common is not None and before.further:
            common = _within(common, before, upper=False)
        start = {g: max(self.before.further.get(g, self.before.common), after.common) for g in after.further}
        moved = [g for g, edge in after.further.items() if edge > start[g]]
        mine = self._only(moved) if moved else self.seen
        if not moved or not any(each.rows.num_rows for each in mine.inputs):
            return common
        low, high = min(start[g] for g in moved), max(after.further[g] for g in moved)
        found = _within(self._answers(mine.contents, low, high), after, upper=True)
        reported = replace(after, further={g: start[g] for g in moved})
        return _together([common, _within(found, reported, upper=False)])

    def opened(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Which of some answers are of instants that are not reported yet."""
        return np.asarray(rows["_at"].to_numpy()) >= self._shown(self.after).of(rows)

    def pending(self) -> int | None:
        """The next instant at which a window changes, of rows that are not reported so far; None: there is none."""
        contents = [c for c in self.seen.contents if isinstance(c, Content)]
        every = zip(contents, self._by_input(self.after, [c.rows for c in contents]), strict=True)
        found = [a[(a >= edges) & (a < FOR_EVER)] for c, edges in every for a in (c.begin, c.end)]
        return min((int(a.min()) for a in found if len(a)), default=None)

    def _by_input(self, edges: Edges, rows: Sequence[pa.Table]) -> list[Ints]:
        """The edge of each row of the inputs."""
        if self.apart is None:
            return [np.full(each.num_rows, edges.common, np.int64) for each in rows]
        each_input = zip(rows, self.apart.columns, strict=True)
        return [replace(edges, columns=columns).of(each) for each, columns in each_input]

    def _only(self, groups: Iterable[str]) -> Seen:
        """What is seen of the rows of some groups."""
        inputs = self.seen.inputs
        chosen = self._by_input(Edges(0, (), dict.fromkeys(groups, 1)), [each.rows for each in inputs])
        rows = [each.rows.filter(pa.array(mine > 0)) for each, mine in zip(inputs, chosen, strict=True)]
        return replace(
            self.seen,
            inputs=[replace(each, rows=kept, runs=(), below=0) for each, kept in zip(inputs, rows, strict=True)],
        )

    def _answers(self, contents: Sequence[Known], low: int, high: int, before: bool = False) -> pa.Table:
        ticks = self.seen.ticks_before if before else self.seen.ticks
        return answers(self.seen.db, self.seen.query, contents, self.tables, low, min(high, FOR_EVER), ticks)

    def _shown(self, edges: Edges) -> Edges:
        """Edges of rows of the stream as those of rows of answers."""
        return edges if self.apart is None else replace(edges, columns=self.apart.shown)


def _within(rows: pa.Table, edges: Edges, upper: bool) -> pa.Table:
    """The answers of instants before the edges of their groups; not `upper`: of those from there on."""
    inside = np.asarray(rows["_at"].to_numpy()) < edges.of(rows)
    return rows.filter(pa.array(inside if upper else ~inside))


def _together(parts: Sequence[pa.Table | None]) -> pa.Table | None:
    """Changes of several stretches as one."""
    there = [part for part in parts if part is not None]
    return pa.concat_tables(there, promote_options="permissive") if there else None
