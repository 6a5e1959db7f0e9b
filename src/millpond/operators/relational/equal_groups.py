"""Joins of which rows of one group meet rows of the same group alone."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.types import JoinPlan


def groups_meet(join: JoinPlan, item: int, by: Sequence[tuple[str, ...]]) -> bool:
    """Whether rows meet only where their groups are the same, and each row of the answer has a row of `item`.

    Args:
        by: of each item, the columns that tell its groups apart.
    """
    if join.kind.alone not in ((), (item,)) or len({len(columns) for columns in by}) > 1:
        return False
    return all(_alike(join, list(enumerate(part))) for part in zip(*by, strict=True))


def _alike(join: JoinPlan, columns: Sequence[tuple[int, str]]) -> bool:
    """Whether some columns, one of each item, are equal in rows that meet, and of one type."""
    pairs = []
    for each in join.equalities:
        left, right = each.left_side, each.right_side
        if left.column is not None and right.column is not None and left.type == right.type:
            pairs.append(((each.left, left.column.lower()), (each.right, right.column.lower())))
    wanted = {(item, column.lower()) for item, column in columns}
    found = {min(wanted)}
    while more := {b for a, c in pairs for a, b in ((a, c), (c, a)) if a in found} - found:
        found |= more
    return wanted <= found
