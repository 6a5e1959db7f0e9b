"""Conditions cut into cheap parts and filters: the conjuncts that call registered functions."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.types import Expression, all_of


@dataclass(frozen=True)
class Conjunction:
    """A condition. cheap: the conjuncts without registered functions, as one; None without any. filters: the others, in
    the order in which they are written, equal ones once."""

    cheap: Expression | None
    filters: tuple[Expression, ...]


def conjunction_of(where: Expression | None) -> Conjunction | None:
    """A condition cut into its parts; None without registered functions."""
    if where is None or not where.registered:
        return None
    parts = dict.fromkeys(where.conjuncts or (where,))
    return Conjunction(all_of(p for p in parts if not p.registered), tuple(p for p in parts if p.registered))
