"""The matrix view: for every position of an order, how much each later filter would drop there.

V[i, j], i <= j, is the number of profile tuples dropped by the filter at position j among those that no filter before
position i drops: proportional to the conditional drop probability d(j | i-1). The order is greedy (the invariant 4.2)
when no entry of a row, divided by its filter's time, exceeds the row's diagonal entry. Babu (2005), 4.3.2-4.3.4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millpond.adapt.profile import Bits, Times

Counts = np.ndarray[tuple[int, int], np.dtype[np.int64]]


class MatrixView:
    """The matrix view over a window of profile tuples for one order of filters.

    Arguments:
        order: filter at each position.

    >>> view = MatrixView((0, 1))
    >>> view.insert(np.array([[1, 1], [0, 1]], np.int8))
    >>> view.counts.tolist()
    [[1, 2], [0, 1]]
    """

    def __init__(self, order: Sequence[int]) -> None:
        self.order = list(order)
        self.counts: Counts = np.zeros((len(self.order), len(self.order)), np.int64)

    def insert(self, bits: Bits) -> None:
        """Count profile tuples that enter the window (figure 4.5, for all at once)."""
        self.counts += counted(bits, self.order)

    def delete(self, bits: Bits) -> None:
        """Take away profile tuples that leave it."""
        self.counts -= counted(bits, self.order)

    def violation(self, times: Times, alpha: float) -> int | None:
        """The first position where another filter would drop more per second, by more than the thrashing factor.

        Arguments:
            times: seconds per row of each filter.
            alpha: at most 1; the smaller, the more a change must promise (4.4).
        """
        ratios = self.counts / times[self.order]
        diagonal = ratios.diagonal()
        best = np.where(np.tri(len(diagonal), k=0, dtype=np.bool_), -np.inf, ratios).max(axis=1, initial=-np.inf)
        rows = np.flatnonzero(diagonal < alpha * best)
        return int(rows[0]) if len(rows) else None

    def correct(self, at: int, window: Bits, times: Times) -> None:
        """Restore the invariant from position `at` on, from the tuples of the window (figure 4.7).

        A filter that moves forward shifts those between by one place; exchanging the two, as the figure prints it,
        would not give the result of the thesis' own example.
        """
        drops = window > 0
        position, last = at, at
        while position <= last:
            alive = ~drops[:, self.order[:position]].any(axis=1)
            self.counts[position, position:] = drops[alive][:, self.order[position:]].sum(axis=0)
            ratios = self.counts[position, position:] / times[self.order[position:]]
            found = position + int(np.argmax(ratios))
            last = max(last, found)
            if found != position:
                self.order.insert(position, self.order.pop(found))
                rows = self.counts[: position + 1]
                rows[:, position : found + 1] = np.roll(rows[:, position : found + 1], 1, axis=1)
            position += 1


def counted(bits: Bits, order: Sequence[int]) -> Counts:
    """The matrix view of some profile tuples alone."""
    drops = (bits[:, list(order)] > 0).astype(np.int64)
    before = np.zeros_like(drops)
    before[:, 1:] = np.maximum.accumulate(drops, axis=1)[:, :-1]
    return np.triu((1 - before).T @ drops)
