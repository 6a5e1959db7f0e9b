"""Streams out of order: event times in order of arrival, with the kinds of disorder that real sources show.

Li 2008, sections 3.1 and 6.2.5. All are functions of a seed; times are microseconds, as int64 arrays.

    >>> times = band(1_000, span=10_000_000, most=500_000)
    >>> lag = np.maximum.accumulate(times) - times
    >>> bool(0 < lag.max() <= 500_000)
    True
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def band(count: int, span: int, most: int, seed: int = 0) -> Ints:
    """Nearly ordered times, each behind the largest before it by `most` or less: reports of flows that take a while.

    Random copies of ten sequences of lags are put one behind the other. In each the lag wanders between nothing and an
    extent of its own, so that late rows are nearly in order among themselves.

    Arguments:
        count: rows. span: the time they cover. most: the largest lag.
    """
    rng = np.random.default_rng(seed)
    length = max(1, min(count, 200))
    phase = np.linspace(0, 2 * np.pi, length)
    sequences = []
    for extent in np.linspace(0.1, 1.0, 10):
        wave = (1 - np.cos(phase * rng.integers(1, 4))) / 2
        chosen = rng.random(length) < 0.4  # the others are on time
        sequences.append(np.where(chosen, wave * extent * rng.uniform(0.7, 1.0, length), 0.0))
    lags = np.concatenate([sequences[i] for i in rng.integers(0, 10, -(-count // length))])[:count]
    arrival = np.sort(rng.integers(0, span, count))
    return np.maximum(0, arrival - (lags * most).astype(np.int64))


def block_sorted(count: int, span: int, block: int, seed: int = 0) -> Ints:
    """Times that are in order from block to block and in none inside: a router that flushes its cache of flows.

    Arguments:
        block: the time that a block covers.

    >>> times = block_sorted(1_000, span=1_000, block=100)
    >>> bool((np.diff(times // 100) >= 0).all()), bool((np.diff(times) >= 0).all())
    (True, False)
    """
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, span, count))
    return times[np.lexsort((rng.random(count), times // block))]


def skewed(sources: Sequence[Ints], lags: Sequence[int | Ints]) -> tuple[Ints, Ints]:
    """The union of sources, each in order by itself, whose rows arrive behind their event times.

    Arguments:
        sources: event times of each. lags: how long after its event time a row arrives: one number, or one per row.

    Returns: event times in order of arrival, and the source of each row.

    >>> skewed([np.array([1, 5, 9]), np.array([1, 5])], [0, 6])[0].tolist()
    [1, 5, 1, 9, 5]
    """
    arrival = np.concatenate([np.maximum.accumulate(t + lag) for t, lag in zip(sources, lags, strict=True)])
    order = np.argsort(arrival, kind="stable")
    source = np.repeat(np.arange(len(sources)), [len(t) for t in sources])
    return np.concatenate(list(sources))[order], source[order]


def lull(times: Ints, begin: int, length: int) -> Ints:
    """The times without those in [begin, begin + length): a source that says nothing for a while.

    >>> lull(np.array([1, 4, 6, 9]), begin=4, length=5).tolist()
    [1, 9]
    """
    return times[(times < begin) | (times >= begin + length)]


def punctuations(times: Ints, step: int) -> tuple[Ints, Ints]:
    """The earliest true punctuations: nothing below the bound follows, and bounds are multiples of `step`.

    Returns: how many rows come before each punctuation, and its bound; bounds rise. The last one ends the stream.

    >>> at, bound = punctuations(np.array([1, 12, 8, 25]), step=10)
    >>> at.tolist(), bound.tolist()
    ([3, 4], [20, 30])
    """
    if not len(times):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ahead = np.minimum.accumulate(times[::-1])[::-1]  # the least time from each row on
    bound = np.append(ahead[1:] // step * step, (times.max() // step + 1) * step)
    first = np.append(True, bound[1:] > bound[:-1]) & (bound > times.min())
    return np.flatnonzero(first) + 1, bound[first]
