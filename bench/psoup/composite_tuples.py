"""Composite tuples: all structs of one probed at once, and one after the other, over the pond's own indexes.

PSoup substitutes a tuple's values into a query's join factor and probes the other stream with the resulting *hybrid
structs*. Structs that came from one query and many tuples, or from one tuple and many queries, make a *composite
tuple*: the factor they share is evaluated once, and their own factors are evaluated as one join.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millpond.answers.row_queries.pairing import Index, Operator, mirrored
from millpond.synopses.partners.finding import MOST, Matches
from millpond.synopses.partners.orders import Ints, Mask, key_order


@dataclass(frozen=True)
class Shared:
    """The factor that all structs of a composite tuple share: `attribute op constant` over the stored rows.

    index: of that attribute, for this operator.
    """

    index: Index
    operator: Operator
    constant: int

    def rows(self, size: int) -> Mask:
        """For each of the `size` stored rows, whether the factor holds."""
        keep = np.zeros(size, bool)
        keep[_pairs(self.index.partners(np.array([self.constant]), mirrored(self.operator)))[1]] = True
        return keep


def probe_composite(values: Ints, operator: Operator, stored: Index, shared: Shared | None) -> tuple[Ints, Ints]:
    """Probe stored rows with a composite tuple: all pairs (struct, stored row) that satisfy both factors.

    Args:
        values: per struct the value that was substituted into its join factor `value op stored`; structs can come
            from one query and many tuples, one tuple and many queries, or many of both.
        stored: the index of the stored rows' join attribute.
        shared: the factor that all structs have in common; it is evaluated once.

    Returns:
        Struct numbers and stored row numbers, ordered by struct, then by the order of `stored`.

    >>> shared = Shared(Index.of("=", np.array([1, 0, 1])), "=", 1)
    >>> structs, rows = probe_composite(np.array([4, 2]), ">", Index.of(">", np.array([3, 1, 2])), shared)
    >>> list(zip(structs.tolist(), rows.tolist()))
    [(0, 2), (0, 0)]
    """
    if shared is not None:
        stored = _where(stored, shared.rows(_size(stored, shared)))
    return _pairs(stored.partners(values, operator))


def probe_separately(values: Ints, operator: Operator, stored: Index, shared: Shared | None) -> tuple[Ints, Ints]:
    """The same pairs, one hybrid struct at a time, each evaluating the shared factor anew: what composites save."""
    found: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for number in range(len(values)):
        rows = _pairs(stored.partners(values[number : number + 1], operator))[1]
        if shared is not None:
            rows = rows[shared.rows(_size(stored, shared))[rows]]
        found.append((np.full(len(rows), number, np.int64), rows))
    return np.concatenate([s for s, _ in found]), np.concatenate([r for _, r in found])


def _size(stored: Index, shared: Shared) -> int:
    """How many rows there are."""
    return int(max(stored.order.places.max(initial=-1), shared.index.order.places.max(initial=-1))) + 1


def _pairs(matches: Matches) -> tuple[Ints, Ints]:
    found = matches.pairs(MOST)
    assert not isinstance(found, int)
    return found


def _where(index: Index, keep: Mask) -> Index:
    """Only the rows for which `keep` (by row number) holds."""
    order = index.order
    left = keep[order.places]
    places = order.places[left].astype(np.int64)
    return Index(index.operator, key_order(order.codes[left], places, order.values[left], is_sorted=True))
