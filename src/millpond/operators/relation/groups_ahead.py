"""Instants that a relation reports of groups whose own bounds are further than that of all rows (`marks_by`).

A query that keeps groups apart (`RelationQuery.apart`) gives of the rows of some groups the answers of these, whatever
the others are. So what is reported of a group ahead of the others follows from its rows alone, by the same evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millpond.operators.relation.seen import Seen
from millpond.operators.windowed.group_bounds import Edges, GroupBounds, edges_of
from millpond.relations import FOR_EVER, Content, Known, TablesInTime, answers, difference, pending
from millpond.types import QueryOptions, RelationQuery, StreamDefinition


@dataclass(frozen=True)
class GroupsAhead:
    """The groups of an epoch that are ahead. The query has one input.

    tables: which the query does not read. before, after: up to which instants rows were reported before the epoch, and
    are after it, by group.
    """

    seen: Seen
    tables: TablesInTime
    before: Edges
    after: Edges

    @staticmethod
    def of(seen: Seen, tables: TablesInTime, bounds: GroupBounds | None, low: int, closed: int) -> GroupsAhead:
        """As of when all rows are reported from `low` up to `closed`. bounds: None: no group is ahead."""
        return GroupsAhead(seen, tables, *edges_of(low, closed, bounds, seen.progress.own.groups, int))

    def revised(self, common: pa.Table | None) -> pa.Table | None:
        """How what was reported differs, that of groups ahead included. common: the same of what all rows are."""
        seen, before = self.seen, self.before
        if not before.further or not any(seen.revising):
            return common
        arrivals, edges = seen.arrivals[0], before.of(seen.fresh[0])
        touched = arrivals[(arrivals < edges) & (edges > before.common)]
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
        if not moved or not mine.inputs[0].rows.num_rows:
            return common
        low, high = min(start[g] for g in moved), max(after.further[g] for g in moved)
        found = _within(self._answers(mine.contents, low, high), after, upper=True)
        reported = replace(after, further={g: start[g] for g in moved})
        return _together([common, _within(found, reported, upper=False)])

    def pending(self) -> int | None:
        """The next instant at which a window changes, of rows that are not reported so far."""
        contents = self.seen.contents
        if not self.after.further:
            return pending(contents, self.after.common)
        (content,) = (c for c in contents if isinstance(c, Content))
        edges = self.after.of(content.rows)
        found = [a[(a >= edges) & (a < FOR_EVER)] for a in (content.begin, content.end)]
        return min((int(a.min()) for a in found if len(a)), default=None)

    def _only(self, groups: Iterable[str]) -> Seen:
        """What is seen of the rows of some groups."""
        chosen, (item,) = Edges(0, self.after.columns, dict.fromkeys(groups, 1)), self.seen.inputs
        rows = item.rows.filter(pa.array(chosen.of(item.rows) > 0))
        return replace(self.seen, inputs=[replace(item, rows=rows, runs=(), below=0)])

    def _answers(self, contents: Sequence[Known], low: int, high: int, before: bool = False) -> pa.Table:
        ticks = self.seen.ticks_before if before else self.seen.ticks
        return answers(self.seen.db, self.seen.query, contents, self.tables, low, min(high, FOR_EVER), ticks)

    def _shown(self, edges: Edges) -> Edges:
        """Edges of rows of the stream as those of rows of answers."""
        places = dict(self.seen.query.apart)
        return replace(edges, columns=tuple(f"c{places[c]}" for c in edges.columns))


def released_by(query: RelationQuery, options: QueryOptions, streams: Sequence[StreamDefinition]) -> tuple[str, ...]:
    """The columns by which a query's groups are reported as their own bounds allow; none: it waits for all rows.

    Args:
        streams: that it reads.
    """
    by = streams[0].options.marked_by
    if options.early is not None or options.delay or len(streams) > 1:
        return ()
    return by if dict(query.apart).keys() >= set(by) else ()


def _within(rows: pa.Table, edges: Edges, upper: bool) -> pa.Table:
    """The answers of instants before the edges of their groups; not `upper`: of those from there on."""
    inside = np.asarray(rows["_at"].to_numpy()) < edges.of(rows)
    return rows.filter(pa.array(inside if upper else ~inside))


def _together(parts: Sequence[pa.Table | None]) -> pa.Table | None:
    """Changes of several stretches as one."""
    there = [part for part in parts if part is not None]
    return pa.concat_tables(there, promote_options="permissive") if there else None
