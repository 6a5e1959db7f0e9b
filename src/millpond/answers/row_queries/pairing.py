"""Set-at-a-time probing: which pairs of keys satisfy `left op right`, for many left keys at once (P7).

PSoup substitutes a tuple's values into a query's join factor and probes the other stream with the resulting *hybrid
structs*. Structs that came from one query and many tuples, or from one tuple and many queries, make a *composite
tuple*: the factor they share is evaluated once, and their own factors are evaluated as one join. Everything here is a
pure function on numpy arrays; joins of selections (`joins.py`) are built of the same pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Keys = NDArray[Any]
Operator = Literal["=", "<", "<=", ">", ">="]

#: Pairs that are made at a time.
PAIRS_AT_ONCE = 1_048_576

_MIRRORED: dict[str, Operator] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def mirrored(operator: Operator) -> Operator:
    """The operator of `right op left` that says the same as `left op right`.

    >>> mirrored("<=")
    '>='
    """
    return _MIRRORED[operator]


@dataclass(frozen=True)
class Sorted:
    """Keys of stored rows in ascending order, and the row of each: the ordered index of one attribute.

    Keys are numbers with numpy's order and without NULL and NaN; rows whose key is NULL are left out.
    """

    keys: Keys
    rows: Ints

    @staticmethod
    def of(keys: Keys, rows: Ints | None = None) -> Sorted:
        """The index of keys whose rows are 0, 1, … or as given.

        >>> Sorted.of(np.array([7, 3, 5])).rows.tolist()
        [1, 2, 0]
        """
        order = np.argsort(keys, kind="stable")
        return Sorted(keys[order], order if rows is None else rows[order])

    def where(self, keep: NDArray[np.bool_]) -> Sorted:
        """Only the rows for which `keep` (by row number) holds."""
        kept = keep[self.rows]
        return Sorted(self.keys[kept], self.rows[kept])

    def merged(self, other: Sorted) -> Sorted:
        """Both as one index; cheap when `other` is small."""
        at = np.searchsorted(self.keys, other.keys, "right")
        return Sorted(np.insert(self.keys, at, other.keys), np.insert(self.rows, at, other.rows))


def runs(values: Keys, operator: Operator, index: Keys) -> tuple[Ints, Ints]:
    """For each value the run [low, high) of the ascending keys `index` with `value op key`.

    >>> low, high = runs(np.array([3, 9]), "<", np.array([1, 3, 5]))
    >>> low.tolist(), high.tolist()
    ([2, 3], [3, 3])
    """
    size = len(index)
    if operator == "=":
        return np.searchsorted(index, values, "left"), np.searchsorted(index, values, "right")
    if operator in ("<", "<="):
        low = np.searchsorted(index, values, "right" if operator == "<" else "left")
        return low, np.full(len(values), size, np.int64)
    high = np.searchsorted(index, values, "left" if operator == ">" else "right")
    return np.zeros(len(values), np.int64), high


def sorted_runs(values: Keys, operator: Operator, index: Keys) -> tuple[Ints, Ints]:
    """As `runs`, looked up in order of the values: as in a sort-merge join, the index is gone through once."""
    if len(values) < 1_024:
        return runs(values, operator, index)
    order = np.argsort(values, kind="stable")
    low, high = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    low[order], high[order] = runs(values[order], operator, index)
    return low, high


def count(low: Ints, high: Ints) -> int:
    """How many pairs runs stand for."""
    return int((high - low).sum())


def expand(low: Ints, high: Ints, at_once: int = PAIRS_AT_ONCE) -> Iterator[tuple[Ints, Ints]]:
    """The pairs (value number, position in the index) that runs stand for, in order, in pieces of bounded size.

    >>> [(v.tolist(), k.tolist()) for v, k in expand(np.array([0, 5]), np.array([2, 6]))]
    [([0, 0, 1], [0, 1, 5])]
    """
    ends = np.cumsum(high - low)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, at_once):
        stop = min(start + at_once, total)
        first, last = np.searchsorted(ends, [start, stop - 1], "right")
        upper = np.minimum(ends[first : last + 1], stop)
        sizes = np.diff(upper, prepend=start)
        value = np.repeat(np.arange(first, last + 1), sizes)
        # The n-th pair of a value is the n-th key of its run; pairs before `start` were in an earlier piece.
        origin = low[first : last + 1] - (ends[first : last + 1] - (high - low)[first : last + 1])
        yield value, np.arange(start, stop) + np.repeat(origin, sizes)


@dataclass(frozen=True)
class Shared:
    """The factor that all structs of a composite tuple share: `attribute op constant` over the stored rows.

    index: the ordered index of that attribute.
    """

    index: Sorted
    operator: Operator
    constant: float

    def rows(self, size: int) -> NDArray[np.bool_]:
        """For each of the `size` stored rows, whether the factor holds."""
        keep = np.zeros(size, bool)
        low, high = runs(np.array([self.constant]), mirrored(self.operator), self.index.keys)
        keep[self.index.rows[low[0] : high[0]]] = True
        return keep


def probe_composite(values: Keys, operator: Operator, stored: Sorted, shared: Shared | None) -> tuple[Ints, Ints]:
    """Probe stored rows with a composite tuple: all pairs (struct, stored row) that satisfy both factors.

    Arguments:
        values: per struct the value that was substituted into its join factor `value op stored`; structs can come
            from one query and many tuples, one tuple and many queries, or many of both.
        stored: the ordered index of the stored rows' join attribute.
        shared: the factor that all structs have in common; it is evaluated once. Equality factors are then joined by
            sort-merge, inequalities by a probe of the ordered index each.

    Returns:
        Struct numbers and stored row numbers, ordered by struct, then by the order of `stored`.

    >>> shared = Shared(Sorted.of(np.array([1, 0, 1])), "=", 1)
    >>> structs, rows = probe_composite(np.array([4, 2]), ">", Sorted.of(np.array([3, 1, 2])), shared)
    >>> list(zip(structs.tolist(), rows.tolist()))
    [(0, 2), (0, 0)]
    """
    if shared is not None:
        keep = shared.rows(int(max(stored.rows.max(initial=-1), shared.index.rows.max(initial=-1))) + 1)
        stored = stored.where(keep)
    return _all(sorted_runs(values, operator, stored.keys), stored)


def probe_separately(values: Keys, operator: Operator, stored: Sorted, shared: Shared | None) -> tuple[Ints, Ints]:
    """The same pairs, one hybrid struct at a time, each evaluating the shared factor anew: what composites save."""
    found: list[tuple[Ints, Ints]] = []
    size = int(stored.rows.max(initial=-1)) + 1
    for number in range(len(values)):
        low, high = runs(values[number : number + 1], operator, stored.keys)
        rows = stored.rows[low[0] : high[0]]
        if shared is not None:
            rows = rows[shared.rows(max(size, int(shared.index.rows.max(initial=-1)) + 1))[rows]]
        found.append((np.full(len(rows), number, np.int64), rows))
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([s for s, _ in found]), np.concatenate([r for _, r in found])


def _all(found: tuple[Ints, Ints], stored: Sorted) -> tuple[Ints, Ints]:
    low, high = found
    pairs = list(expand(low, high, max(1, count(low, high))))
    if not pairs:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return pairs[0][0], stored.rows[pairs[0][1]]


def join_many(
    tuples: Keys, queries: Keys, operator: Operator, stored: Sorted, shared: Shared | None
) -> tuple[Ints, Ints, Ints]:
    """Join many queries x many tuples x stored rows at once: `tuple op stored + constant of the query`.

    Arguments:
        tuples: the new tuples' join values, integers. queries: the queries' constants `c`, integers.
        stored, shared: as of `probe_composite`; queries that share their other factors share one call.

    Returns:
        (query number, tuple number, stored row) of every triple that satisfies both factors, by query and tuple.
        Structs with the same substituted value are probed once, whichever query and tuple they come from.

    >>> q, t, s = join_many(np.array([5, 7]), np.array([0, 2]), "=", Sorted.of(np.array([5, 3])), None)
    >>> list(zip(q.tolist(), t.tolist(), s.tolist()))
    [(0, 0, 0), (1, 0, 1), (1, 1, 0)]
    """
    values = (tuples[None, :] - queries[:, None]).ravel()
    distinct, struct_of = np.unique(values, return_inverse=True)
    structs, rows = probe_composite(distinct, operator, stored, shared)
    starts = np.searchsorted(structs, np.arange(len(distinct)))
    ends = np.searchsorted(structs, np.arange(len(distinct)), "right")
    low, high = starts[struct_of], ends[struct_of]
    pairs = list(expand(low, high, max(1, count(low, high))))
    if not pairs:
        none = np.empty(0, np.int64)
        return none, none, none
    struct, at = pairs[0]
    return struct // len(tuples), struct % len(tuples), rows[at]
