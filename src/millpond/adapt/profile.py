"""Profile tuples: for a sample of the rows that were dropped, which filters of a conjunction drop them.

Babu, "Adaptive Query Processing in Data Stream Management Systems" (2005), 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Bits = np.ndarray[tuple[int, int], np.dtype[np.int8]]
Times = np.ndarray[tuple[int], np.dtype[np.float64]]

#: What a profile tuple says of a filter: it drops the row (1), lets it pass, or was not asked.
PASSES, UNKNOWN = 0, -1


@dataclass(frozen=True)
class Profile:
    """What one epoch observed about a conjunction of n filters.

    bits: one line per profiled row, one column per filter (not per position): 1 it drops the row, 0 it lets it pass,
        -1 it was not asked. Only rows that some filter dropped are profiled.
    times: seconds per row that each filter took, n numbers; NaN where it was not measured.
    """

    bits: Bits
    times: Times | None = None


class ProfileWindow:
    """The last `size` profile tuples, and what the filters took while these were made.

    >>> window = ProfileWindow(filters=2, size=2)
    >>> _ = window.push(Profile(np.array([[1, 0], [0, 1]], np.int8)))
    >>> window.push(Profile(np.array([[1, 1]], np.int8))).tolist()  # what the window had no room for
    [[1, 0]]
    """

    def __init__(self, filters: int, size: int) -> None:
        self.size = size
        self.bits: Bits = np.empty((0, filters), np.int8)
        self._times = np.empty((0, filters), np.float64)

    def push(self, profile: Profile) -> Bits:
        """Take in the profile tuples of an epoch, oldest first. Returns the tuples that leave the window."""
        times = np.full(self.bits.shape[1], np.nan) if profile.times is None else profile.times
        bits = np.concatenate([self.bits, profile.bits])
        spread = np.broadcast_to(times, profile.bits.shape)
        gone = max(0, len(bits) - self.size)
        self.bits = bits[gone:]
        self._times = np.concatenate([self._times, spread])[gone:]
        return bits[:gone]

    def keep(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Forget the tuples that are not chosen."""
        self.bits, self._times = self.bits[chosen], self._times[chosen]

    def last(self, count: int) -> Bits:
        """Forget all but the last tuples. Returns those that are forgotten."""
        gone = max(0, len(self.bits) - count)
        forgotten = self.bits[:gone]
        self.bits, self._times = self.bits[gone:], self._times[gone:]
        return forgotten

    def clear(self) -> None:
        """Forget all tuples; what the filters took is kept until new tuples say otherwise."""
        self.keep(np.zeros(len(self.bits), np.bool_))

    def times(self, otherwise: Times) -> Times:
        """Seconds per row of each filter: the average over the window; `otherwise` where nothing was measured."""
        known = ~np.isnan(self._times)
        counts = known.sum(axis=0)
        sums = np.where(known, self._times, 0.0).sum(axis=0)
        return np.where(counts > 0, sums / np.maximum(counts, 1), otherwise)
