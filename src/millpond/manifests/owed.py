"""Owed stretches: what rows have come for that state no longer covers, until it is recomputed from the archive.

An epoch revises what it has state for, and takes note of the rest. A job recomputes that, many windows in one scan, and
a later epoch adopts how it differs from what was reported (`engine.jobs.mending`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

#: Stretches that are told apart; where there are more, those that lie next to each other become one.
MOST = 16


@dataclass(frozen=True)
class Owed:
    """Windows that end, or instants that lie, at low <= t < high (microseconds), of which answers are owed.

    first, last: the epochs whose rows are not in the answers yet.
    """

    low: int
    high: int
    first: int
    last: int


def owed_together(stretches: Iterable[Owed], most: int = MOST) -> tuple[Owed, ...]:
    """Stretches in order and apart, at most so many: those with the least between them become one.

    >>> owed_together([Owed(5, 9, 2, 2), Owed(0, 5, 1, 1), Owed(20, 30, 3, 3)])
    (Owed(low=0, high=9, first=1, last=2), Owed(low=20, high=30, first=3, last=3))
    >>> owed_together([Owed(0, 1, 1, 1), Owed(3, 4, 1, 1), Owed(90, 91, 1, 1)], most=2)
    (Owed(low=0, high=4, first=1, last=1), Owed(low=90, high=91, first=1, last=1))
    """
    found: list[Owed] = []
    for each in sorted((s for s in stretches if s.low < s.high), key=lambda s: (s.low, s.high)):
        if found and each.low <= found[-1].high:
            found[-1] = _joined(found[-1], each)
        else:
            found.append(each)
    while len(found) > most:
        gaps = [after.low - before.high for before, after in pairwise(found)]
        place = gaps.index(min(gaps))
        found[place : place + 2] = [_joined(found[place], found[place + 1])]
    return tuple(found)


def scanned_together(stretches: Iterable[Owed]) -> tuple[Owed, ...]:
    """Stretches as they are read: those that lie closer together than they are long are one scan.

    >>> [(s.low, s.high) for s in scanned_together([Owed(0, 10, 1, 1), Owed(15, 25, 1, 1), Owed(900, 910, 1, 1)])]
    [(0, 25), (900, 910)]
    """
    found: list[Owed] = []
    for each in owed_together(stretches):
        if found and each.low - found[-1].high <= max(each.high - each.low, found[-1].high - found[-1].low):
            found[-1] = _joined(found[-1], each)
        else:
            found.append(each)
    return tuple(found)


def _joined(one: Owed, other: Owed) -> Owed:
    return Owed(
        min(one.low, other.low), max(one.high, other.high), min(one.first, other.first), max(one.last, other.last)
    )


def owed_of(lows: npt.NDArray[np.int64], highs: npt.NDArray[np.int64], epoch: int) -> tuple[Owed, ...]:
    """The stretches that intervals low <= t < high cover, for rows that an epoch brought.

    >>> owed_of(np.array([40, 0, 3]), np.array([50, 5, 9]), 7)
    (Owed(low=0, high=9, first=7, last=7), Owed(low=40, high=50, first=7, last=7))
    """
    some = lows < highs
    if not some.any():
        return ()
    order = np.argsort(lows[some], kind="stable")
    low, reach = lows[some][order], np.maximum.accumulate(highs[some][order])
    begins = np.flatnonzero(np.r_[True, low[1:] > reach[:-1]])
    ends = np.r_[begins[1:], len(low)] - 1
    if len(begins) > MOST:  # only the widest gaps are left
        gaps = low[begins[1:]] - reach[ends[:-1]]
        kept = np.sort(np.argsort(-gaps, kind="stable")[: MOST - 1])
        begins, ends = begins[np.r_[0, kept + 1]], ends[np.r_[kept, len(ends) - 1]]
    return tuple(Owed(int(low[b]), int(reach[e]), epoch, epoch) for b, e in zip(begins, ends, strict=True))


def settled(owed: Sequence[Owed], epoch: int) -> tuple[Owed, ...]:
    """What is still owed when the rows up to an epoch are in the answers.

    >>> settled([Owed(0, 9, 1, 3), Owed(20, 30, 2, 6)], 4)
    (Owed(low=20, high=30, first=5, last=6),)
    """
    return tuple(replace(s, first=max(s.first, epoch + 1)) for s in owed if s.last > epoch)


def all_owed(_before: Any, after: Sequence[Any]) -> tuple[Owed, ...]:
    """What any shard says is owed: the rule of a field of progress."""
    return owed_together(each for owed in after for each in owed)
