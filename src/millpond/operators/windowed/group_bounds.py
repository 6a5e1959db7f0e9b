"""Group-wise progress: groups whose windows are closed further than those of the others (Li 2008, 1.2 and T17).

A stream with `marks_by='k'` has bounds of its own for some values of k. A query that groups by k closes the windows of
these groups earlier. `Edges` says for the pane rows of a query up to where their windows are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.progress import NEVER
from millpond.support.sql import group_text
from millpond.synopses import connection, query_table
from millpond.synopses.partials.dispatch import Spec
from millpond.types import QueryOptions, StreamDefinition, WindowedQuery
from millpond.windows.candidates import Ints


@dataclass(frozen=True)
class GroupBounds:
    """Bounds of groups, microseconds: `further` by the text of the values in `columns` of pane rows."""

    columns: tuple[str, ...]
    further: Mapping[str, int] = field(default_factory=dict)


def group_bounds(
    stream: StreamDefinition, query: WindowedQuery, spec: Spec, groups: Mapping[str, int]
) -> GroupBounds | None:
    """What a stream's bounds of groups are to a query; None when it cannot use them.

    It must group by the very columns, windows that end with rows must be made within them; and LIMIT and DISTINCT need
    all groups of a window at once.
    """
    by = stream.options.marked_by
    if not by or not spec.spread or not query.keys:
        return None
    named = {key.column: name for name, key in zip(spec.key_names, spec.keys, strict=True) if name in spec.spread}
    return GroupBounds(tuple(named[c] for c in by), groups) if named.keys() >= set(by) else None


def released_by_groups(query: WindowedQuery, options: QueryOptions, stream: StreamDefinition, spec: Spec) -> bool:
    """Whether answers of a group go out when its own bound allows; arguments as of `group_bounds`."""
    return not options.delay and group_bounds(stream, query, spec, {}) is not None


def texts_of(rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    """Key columns as text, as bounds name their groups."""
    if len(columns) == 1 and pa.types.is_string(rows[columns[0]].type):
        return rows[columns[0]]
    return query_table(connection(), f"SELECT {group_text(columns)} AS g FROM rows", rows=rows)["g"]


@dataclass(frozen=True)
class Edges:
    """Up to where windows are closed: `common`, and `further` for some groups, as pane numbers.

    columns: of pane rows, which tell the groups apart; none: there is nothing but `common`.

    >>> edges = Edges(5, ("k0",), {"a": 9})
    >>> edges.of(pa.table({"k0": ["a", "b", None]})).tolist(), edges.most
    ([9, 5, 5], 9)
    """

    common: int
    columns: tuple[str, ...] = ()
    further: Mapping[str, int] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """The furthest of all."""
        return max(self.common, *self.further.values()) if self.further else self.common

    def of(self, rows: pa.Table) -> Ints:
        """The edge of each pane row."""
        edges = np.full(rows.num_rows, self.common, np.int64)
        if not self.columns or not self.further or not rows.num_rows:
            return edges
        names = sorted(self.further)
        texts = texts_of(rows, self.columns)
        place = pc.fill_null(pc.index_in(texts, pa.array(names, texts.type)), -1).to_numpy()
        own = np.array([self.further[n] for n in names], np.int64)
        return np.where(place >= 0, own[np.maximum(place, 0)], edges)

    def map(self, change: Callable[[int], int]) -> Edges:
        """Every edge changed."""
        return replace(self, common=change(self.common), further={g: change(e) for g, e in self.further.items()})


def edges_of(
    closed: int, bound: int, bounds: GroupBounds | None, known: Mapping[str, int], pane: Callable[[int], int]
) -> tuple[Edges, Edges]:
    """Up to where windows were closed before an epoch, and up to where they are after it.

    Arguments:
        closed, bound: what all groups had and have, microseconds. bounds: the stream's bounds of groups, or None.
        known: how far groups were closed before. pane: a bound as a pane number.
    """
    if bounds is None:
        return Edges(pane(closed)), Edges(pane(max(closed, bound)))
    before = {g: pane(b) for g, b in known.items() if b > closed}
    after = {g: pane(b) for g, b in closed_groups(max(closed, bound), bounds, known).items()}
    return Edges(pane(closed), bounds.columns, before), Edges(pane(max(closed, bound)), bounds.columns, after)


def closed_groups(bound: int, bounds: GroupBounds | None, known: Mapping[str, int]) -> dict[str, int]:
    """How far groups are closed after an epoch, where that is further than `bound`."""
    if bounds is None:
        return {}
    names = sorted({*bounds.further, *known})
    reached = {g: max(bounds.further.get(g, NEVER), known.get(g, NEVER)) for g in names}
    return {g: b for g, b in reached.items() if b > bound}
