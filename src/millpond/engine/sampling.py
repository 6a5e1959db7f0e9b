"""Which rows of a piece are profiled when a filter drops them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Step:
    """What one filter did. before: places of the rows that came to it, in their order. holds: for which of them it
    holds. failed: places on which it fails."""

    before: Ints
    holds: Flags
    failed: Ints


def sampled(first: int, rows: int, probability: float, most: int | None = None) -> Ints:
    """Places of the rows of a piece that are profiled: each with a probability, drawn by the id of the first row.

    The gaps between them are drawn, from the last row on, which costs nothing for the rows that are left out.

    Arguments:
        most: that are wanted, the last ones; None: all.

    >>> len(sampled(7, 100_000, 0.1)) in range(9_500, 10_500), sampled(7, 3, 1.0).tolist()
    (True, [0, 1, 2])
    >>> sampled(7, 100_000, 0.1, 50).tolist() == sampled(7, 100_000, 0.1)[-50:].tolist()
    True
    """
    count = rows if most is None else min(rows, most)
    if probability >= 1:
        return np.arange(rows - count, rows)
    rng = np.random.Generator(np.random.PCG64(first))
    gaps = rng.geometric(probability, min(count, int(rows * probability + 6 * np.sqrt(rows * probability)) + 16))
    places = rows - np.cumsum(gaps)
    found: Ints = places[: int(np.count_nonzero(places >= 0))][::-1]
    return found


def enough(gone: int, rows: int, most: int) -> int:
    """As many places of a piece's rows as are likely to hold `most` of those that a filter drops, and some more.

    >>> enough(3, 4, 300)
    580
    """
    return int(1.2 * most * rows / max(1, gone)) + 100


def dropped(places: Ints, steps: Sequence[Step], rows: int, most: int) -> tuple[Ints, Ints]:
    """Of some places those that a filter drops, and at which position (from 0), in the order of the places.

    Only they are looked for in what came to each filter. Rows on which one fails are not profiled.

    Arguments:
        rows: of the piece. most: that are wanted, the last ones.

    >>> step = Step(np.array([0, 1, 4]), np.array([True, False, False]), np.array([4]))
    >>> [found.tolist() for found in dropped(np.array([0, 1, 3, 4]), [step], 5, 10)]
    [[1], [0]]
    """
    found: list[Ints] = []
    positions: list[Ints] = []
    for position, step in enumerate(steps):
        if not len(places) or not len(step.before):
            break
        if position or len(step.before) != rows:
            low = int(np.searchsorted(step.before, places[0]))
            before = step.before[low:]
            if not len(before):
                break
            at = np.minimum(np.searchsorted(before, places), len(before) - 1)
            here = before[at] == places
            at += low
            places, at = places[here], at[here]
        else:  # all rows came to it: they stand at their places
            at = places
        holds = step.holds[at]
        gone = places[~holds]
        if len(step.failed):
            gone = gone[~np.isin(gone, step.failed)]
        found.append(gone)
        positions.append(np.full(len(gone), position))
        places = places[holds]
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    together = np.concatenate(found)
    order = np.argsort(together, kind="stable")
    return together[order][-most:], np.concatenate(positions)[order][-most:]
