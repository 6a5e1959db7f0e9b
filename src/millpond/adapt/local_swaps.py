"""LocalSwaps: neighbours change places when the later one would drop more.

Babu (2005), 4.5.3. The least profiling of all; may rest at an order from which no single exchange helps.
"""

from __future__ import annotations

import numpy as np

from millpond.adapt.orderer import Orderer, Reorder
from millpond.adapt.profile import UNKNOWN, Bits, Profile

#: Of its window the part that has to be there before neighbours change places, which empties it of what says nothing of
#: them: else a handful of tuples would decide.
SURE = 5


class LocalSwaps(Orderer):
    """Keeps d(i | i-1) / t(i) >= d(i+1 | i-1) / t(i+1) for neighbours, from the two diagonals of the matrix view.

    >>> from millpond.adapt.orderer import OrderSettings
    >>> orderer = LocalSwaps((0, 1), OrderSettings(window=15))
    >>> orderer.observe(Profile(np.array([[0, 1], [0, 1], [1, 0]], np.int8)))
    Reorder(order=(1, 0), position=0)
    """

    def wanted(self, dropped: int) -> tuple[int, ...]:
        """The filter right behind the one that dropped the row."""
        return self.order[dropped + 1 : dropped + 2]

    def observe(self, profile: Profile) -> Reorder | None:
        """Take in what an epoch profiled; an exchange forgets the tuples that say nothing of the new neighbours.

        The next one waits until there are enough again, so that exchanges come one after the other.
        """
        self.window.push(profile)
        moved: int | None = None
        for _ in range(
            len(self._order) ** 2
        ):  # every exchange shrinks the window or lowers the cost; a bound all the same
            self.window.keep(_telling(self.window.bits, self._order))
            at = self._violation() if len(self.window.bits) >= self.settings.window // SURE else None
            if at is None:
                break
            moved = at if moved is None else min(moved, at)
            self._order[at : at + 2] = self._order[at + 1], self._order[at]
        return None if moved is None else Reorder(self.order, moved)

    def _violation(self) -> int | None:
        drops = self.window.bits[:, self._order] > 0
        first = drops.argmax(axis=1)
        n = len(self._order)
        own = np.bincount(first, minlength=n)[:n] if len(drops) else np.zeros(n, np.int64)
        # The next filter drops it too, or (dropped at i) it alone drops what i - 1 lets pass.
        after = drops[np.arange(len(drops)), np.minimum(first + 1, n - 1)] & (first + 1 < n)
        both = np.bincount(first[after], minlength=n)[:n] if len(drops) else np.zeros(n, np.int64)
        later = both[:-1] + own[1:]
        times = self.times[self._order]
        wrong = np.flatnonzero(own[:-1] / times[:-1] < self.settings.alpha * later / times[1:])
        return int(wrong[0]) if len(wrong) else None


def _telling(bits: Bits, order: list[int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which tuples say where they are dropped under an order, and whether the next filter drops them."""
    placed = bits[:, order]
    first = (placed != 0).argmax(axis=1)
    rows = np.arange(len(placed))
    known: np.ndarray[tuple[int], np.dtype[np.bool_]] = placed[rows, first] == 1
    following = np.minimum(first + 1, len(order) - 1)
    known &= (first + 1 >= len(order)) | (placed[rows, following] != UNKNOWN)
    return known
