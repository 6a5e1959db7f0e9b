"""The greedy order of filters and what an order costs, from profile tuples.

Babu (2005), 4.1-4.2: equation (4.1) and Static Greedy; at most four times the best order (pipelined set cover).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millpond.adapt.profile import Times

Drops = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


def greedy_order(drops: Drops, times: Times) -> tuple[int, ...]:
    """Filters in greedy order: each drops most per second of the rows that those before it let pass.

    Arguments:
        drops: one line per row, one column per filter, true where the filter drops the row.
        times: seconds per row of each filter.

    >>> greedy_order(np.array([[1, 0], [1, 0], [0, 1]], bool), np.array([1.0, 1.0]))
    (0, 1)
    >>> greedy_order(np.array([[1, 0], [1, 0], [0, 1]], bool), np.array([3.0, 1.0]))
    (1, 0)
    """
    left = list(range(drops.shape[1]))
    alive = np.ones(len(drops), np.bool_)
    order: list[int] = []
    while left:
        gains = [drops[alive, f].sum() / times[f] for f in left]
        best = left.pop(int(np.argmax(gains)))
        order.append(best)
        alive &= ~drops[:, best]
    return tuple(order)


def expected_cost(drops: Drops, times: Times, order: Sequence[int]) -> float:
    """Seconds per row of evaluating filters in an order until one drops the row (equation 4.1).

    >>> expected_cost(np.array([[1, 0], [0, 0]], bool), np.array([1.0, 1.0]), (0, 1))
    1.5
    """
    alive = np.ones(len(drops), np.bool_)
    total = 0.0
    for f in order:
        total += float(times[f]) * float(alive.mean()) if len(drops) else float(times[f])
        alive = alive & ~drops[:, f]
    return total
