"""Join graphs: which FROM items of an inner join meet which, and in what orders their pipelines may go.

A vertex per item, an edge where a condition is about two of them (Babu 2005, 5.2). Columns that equalities make all
equal are one *key*: any two of its items meet. From an item's point of view the graph is a tree, and the path to each
other item is what has to be joined before it; of a cyclic graph a spanning tree is taken, breadth first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from millpond.types.relation_queries import JoinEquality, JoinPlan

Shape = Literal["star", "acyclic", "cyclic", "disconnected"]


@dataclass(frozen=True)
class JoinGraph:
    """The graph of an inner join.

    count: FROM items. keys: of each, DuckDB SQL over the columns of its items; all are equal in a joined row.
    others: items of each condition that is no equality.

    >>> chain = JoinGraph(4, ({0: "a", 1: "a"}, {1: "b", 2: "b"}, {2: "c", 3: "c"}))
    >>> chain.shape, chain.order(2)
    ('acyclic', (1, 0, 3))
    """

    count: int
    keys: tuple[Mapping[int, str], ...]
    others: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def _near(self) -> tuple[frozenset[int], ...]:
        """The items that meet each."""
        found: list[set[int]] = [set() for _ in range(self.count)]
        for group in (*self.keys, *self.others):
            for item in group:
                found[item] |= set(group) - {item}
        return tuple(map(frozenset, found))

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The items that are connected, part by part, each in ascending order."""
        found: list[tuple[int, ...]] = []
        for item in range(self.count):
            if all(item not in part for part in found):
                found.append(tuple(sorted({item, *_reached(item, self._near)})))
        return tuple(found)

    @cached_property
    def edges(self) -> frozenset[tuple[int, int]]:
        """Pairs of items with a condition, of a key as few as connect it, where possible such as are edges anyway."""
        found: set[tuple[int, int]] = set()
        groups = [tuple(sorted(group)) for group in (*self.keys, *self.others)]
        for group in sorted(groups, key=len):
            joined = {group[0]}
            while len(joined) < len(group):
                pairs = [(a, b) for a in joined for b in group if b not in joined]
                a, b = min(pairs, key=lambda pair: (tuple(sorted(pair)) not in found, pair))
                found.add((min(a, b), max(a, b)))
                joined.add(b)
        return frozenset(found)

    @cached_property
    def centres(self) -> tuple[int, ...]:
        """The items that meet all others."""
        return tuple(n for n in range(self.count) if len(self._near[n]) == self.count - 1)

    @property
    def shape(self) -> Shape:
        """What kind of graph it is (Babu 2005, 5.2)."""
        if len(self.parts) > 1:
            return "disconnected"
        if len(self.edges) >= self.count:
            return "cyclic"
        return "star" if self.centres else "acyclic"

    def paths(self, item: int) -> dict[int, tuple[int, ...]]:
        """What an item has to be joined with before each other item, that one included; of other parts nothing."""
        found = _reached(item, self._near)
        return {other: found.get(other, (other,)) for other in range(self.count) if other != item}

    def order(self, item: int, wished: Sequence[int] | None = None) -> tuple[int, ...]:
        """The pipeline of an item: the other items, each connected with what stands before it.

        Arguments:
            wished: in which order they should come; each is preceded by the items on its path (Babu 2005, 5.2.2).
        """
        paths = self.paths(item)
        found: list[int] = []
        if wished is None:
            own = next(part for part in self.parts if item in part)
            wished = sorted(paths, key=lambda other: (other not in own, other))
        for other in wished:
            found += [each for each in paths[other] if each not in found]
        return tuple(found)

    def growing(self, item: int, order: Sequence[int]) -> frozenset[int]:
        """The items of a pipeline that must be joined in their place: rows of later ones are found by theirs alone.

        Of all others it is enough to know whether they have a partner, until the end.
        """
        bound, found = {item}, set()
        for place, other in enumerate(order):
            later = order[place + 1 :]
            if not self.links(other, bound) or any(self._needs(each, other, bound) for each in later):
                bound.add(other)
                found.add(other)
        return frozenset(found)

    def _needs(self, item: int, other: int, bound: AbstractSet[int]) -> bool:
        """Whether an item is found by another one, for want of any that is there."""
        if any(item in key and other in key and bound.isdisjoint(key) for key in self.keys):
            return True
        return not self.links(item, bound) and any(item in group and other in group for group in self.others)

    def links(self, item: int, bound: Collection[int]) -> list[tuple[int, int]]:
        """By which keys an item is found from items that are there: numbers, and the first item that has each."""
        found = []
        for number, key in enumerate(self.keys):
            known = next((n for n in bound if n in key), None)
            if item in key and known is not None:
                found.append((number, known))
        return found


def graph_of(plan: JoinPlan) -> JoinGraph:
    """The graph of a join."""
    whole = {n for group in plan.alike for n in group}
    keys: list[dict[int, str]] = []
    for group in plan.alike:
        sides = [(i, plan.equalities[n].side(i).sql) for n in group for i in _ends(plan.equalities[n])]
        keys.append(dict(sorted(sides)))
    keys += [{i: e.side(i).sql for i in _ends(e)} for n, e in enumerate(plan.equalities) if n not in whole]
    others = tuple(c.items for c in plan.conditions if len(c.items) > 1)
    return JoinGraph(len(plan.items), tuple(keys), others)


def _ends(equality: JoinEquality) -> tuple[int, int]:
    return equality.left, equality.right


def _reached(item: int, near: Sequence[Collection[int]]) -> dict[int, tuple[int, ...]]:
    """The items that are reached from one, the nearest first, each with its path."""
    found: dict[int, tuple[int, ...]] = {}
    waiting = [item]
    while waiting:
        at, *waiting = waiting
        for other in sorted(set(near[at]) - found.keys() - {item}):
            found[other] = (*found.get(at, ()), other)
            waiting.append(other)
    return found
