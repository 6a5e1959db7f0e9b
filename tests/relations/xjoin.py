"""XJoin (Babu 2005, 5.3): a tree of two-way joins whose intermediate results are kept and maintained, row by row.

A baseline for joins of many inputs, at its slowest: elements of all inputs in the order of time, each to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

#: A row of an input with its interval [begin, end).
Span = tuple[int, int, tuple[Any, ...]]

#: (input, column) = (input, column).
Equality = tuple[tuple[int, int], tuple[int, int]]


def xjoin(inputs: Sequence[Sequence[Span]], equalities: Sequence[Equality], tree: Sequence[int]) -> Counter[Any]:
    """Net changes of the join by (instant, rows of the inputs one behind the other).

    Arguments:
        tree: inputs of a left-deep tree.
    """
    moments = [
        (at, -sign, item, row)
        for item, spans in enumerate(inputs)
        for begin, end, row in spans
        for at, sign in ((begin, 1), (end, -1))
    ]
    elements = sorted(moments, key=lambda each: each[:3])
    kept: list[Counter[Any]] = [Counter() for _ in tree]
    held: list[Counter[Any]] = [Counter() for _ in inputs]
    found: Counter[Any] = Counter()
    for at, minus, item, row in elements:
        held[item][row] -= minus
        place = tree.index(item)
        delta = Counter({((item, row),): 1})
        if place:
            delta = _joined(kept[place - 1], delta, equalities)
        for level in range(place, len(tree)):
            if level > place:
                other = Counter({((tree[level], r),): n for r, n in held[tree[level]].items()})
                delta = _joined(delta, other, equalities)
            for each, n in delta.items():
                kept[level][each] -= minus * n
        for each, n in delta.items():
            found[at, tuple(v for _, r in sorted(each) for v in r)] -= minus * n
    return Counter({k: n for k, n in found.items() if n})


def _joined(one: Counter[Any], other: Counter[Any], equalities: Sequence[Equality]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for a, n in one.items():
        for b, m in other.items():
            rows = dict((*a, *b))
            sides = [(rows[i][c], rows[j][d]) for (i, c), (j, d) in equalities if i in rows and j in rows]
            if n and m and all(x is not None and x == y for x, y in sides):
                found[(*a, *b)] += n * m
    return found
