"""Columns that the equalities of a join make all equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millpond.types import JoinEquality

#: Types between whose columns equality is transitive, by what stands for all that can be compared with each other.
_TRANSITIVE: Mapping[str, str] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "BIGINT"),
    **{kind: kind for kind in ("VARCHAR", "DATE", "BOOLEAN", "UUID", "TIMESTAMP")},
}


def alike_of(equalities: Sequence[JoinEquality]) -> tuple[tuple[int, ...], ...]:
    """Groups of equalities that make columns of three items or more equal, one of each item (`JoinPlan.alike`)."""
    groups: list[tuple[set[tuple[int, str]], list[int]]] = []
    for number, each in enumerate(equalities):
        left, right = each.left_side.column, each.right_side.column
        if left is None or right is None:
            continue
        ends = {(each.left, left.lower()), (each.right, right.lower())}
        found = {_TRANSITIVE.get(side.type) for side in (each.left_side, each.right_side)}
        if None in found or len(found) > 1:
            continue
        met = [g for g in groups if g[0] & ends]
        groups = [g for g in groups if not g[0] & ends]
        groups.append((ends.union(*(g[0] for g in met)), sorted([number, *(n for g in met for n in g[1])])))
    return tuple(
        tuple(numbers)
        for members, numbers in groups
        if len(members) > 2 and len({i for i, _ in members}) == len(members)
    )
