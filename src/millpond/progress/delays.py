"""Estimating how late rows come, from the disorder seen so far (Li 2008, 1.2 (c); Srivastava and Widom 2004).

The delay of a row is how far it lies behind the largest event time before it in its source partition, 0 if it lies
ahead. Delays are counted in buckets that grow by 9 % each (eight to a doubling), so that a sketch of any length of
stream has at most some five hundred numbers. Old delays fade: when a sketch has counted MEMORY rows, all counts are
halved, and what was seen once is forgotten.

An estimate is a promise that may turn out wrong. Then rows are late, and are treated as `late` says.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

#: Rows that a partition must have shown before anything is promised.
WARM = 100

#: Rows after which the counts are halved.
MEMORY = 65_536

#: Buckets in which a delay doubles.
PER_OCTAVE = 8

Counts = dict[str, int]


def delays_of(times: NDArray[np.int64], high: int) -> NDArray[np.int64]:
    """How far each row lies behind the largest event time before it; `high`: the largest before the first row.

    >>> delays_of(np.array([10, 7, 12, 11]), high=9).tolist()
    [0, 3, 0, 1]
    """
    if not len(times):
        return times
    before = np.maximum.accumulate(np.concatenate([np.array([high], np.int64), times[:-1]]))
    return np.maximum(before - times, 0)


def count(delays: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Delays as (bucket, rows), buckets ascending: bucket 0 holds the delay 0, bucket b those below `edge(b)`."""
    bucket = np.zeros(len(delays), np.int64)
    late = delays > 0
    bucket[late] = 1 + np.floor(np.log2(delays[late].astype(np.float64)) * PER_OCTAVE).astype(np.int64)
    numbers, rows = np.unique(bucket, return_counts=True)
    return tuple((int(b), int(n)) for b, n in zip(numbers, rows, strict=True))


def edge(bucket: int) -> int:
    """A delay that is larger than all in the bucket by at most 9 % (and 2 microseconds).

    >>> edge(0), all(edge(count(np.array([d]))[0][0]) >= d for d in (1, 2, 3, 1000, 10**12))
    (0, True)
    """
    return 0 if bucket == 0 else int(2.0 ** (bucket / PER_OCTAVE)) + 1


def remember(counts: Mapping[str, int], more: tuple[tuple[int, int], ...]) -> Counts:
    """The sketch with more delays counted in; keys are bucket numbers as text, since it is kept as JSON."""
    merged = dict(counts)
    for bucket, rows in more:
        merged[str(bucket)] = merged.get(str(bucket), 0) + rows
    while sum(merged.values()) > MEMORY:
        merged = {b: n // 2 for b, n in merged.items() if n > 1}
    return merged


def estimate(counts: Mapping[str, int], share: float) -> int | None:
    """The delay that `share` of the remembered rows do not exceed, rounded up to the edge of its bucket.

    Returns: microseconds; None while fewer than WARM rows are remembered.

    >>> counts = remember({}, ((0, 98), (count(np.array([1000]))[0][0], 2)))
    >>> estimate(counts, 0.5), 1000 <= estimate(counts, 1.0) < 1100
    (0, True)
    """
    total = sum(counts.values())
    if total < WARM:
        return None
    seen = 0
    for bucket in sorted(int(b) for b in counts):
        seen += counts[str(bucket)]
        if seen >= share * total:
            return edge(bucket)
    return None
