"""Which rows a reduction keeps: each row has a fixed number u in [0, 1); a reduction d keeps the rows with u < 1 - d.

u is a hash of the row's `_id` and the stream's seed. So samples are nested (one that drops more is part of one that
drops less), the same in every repetition, compaction and back-fill, and a finer copy is thinned by the rule that made
it: what OSCAR draws at random (its access method, matching of copies) is a function of the row here.

The hash is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA
2014, figure 17, with Stafford's constants) of id + (seed + 1) * golden gamma.

    >>> import numpy as np
    >>> ids = np.arange(100_000)
    >>> half, quarter = keep(ids, 7, 0.5), keep(ids, 7, 0.75)
    >>> bool((half | ~quarter).all()), bool(abs(half.mean() - 0.5) < 0.01)
    (True, True)
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from millpond.types import StreamDefinition
from millpond.types.archive_design import PLACES as PLACES
from millpond.types.archive_design import kept_fraction as kept_fraction

Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_ALL = (1 << 64) - 1


def seed_of(stream: StreamDefinition) -> int:
    """The seed of a stream's samples: the option `seed`, or its id."""
    return stream.id if stream.options.seed is None else stream.options.seed


def offset_of(seed: int) -> np.uint64:
    """What is added to ids before they are mixed."""
    return np.uint64(((seed + 1) * _GAMMA) & _ALL)


def fractions(ids: Ids, seed: int) -> Floats:
    """The number u in [0, 1) of every row.

    Arguments:
        ids: the rows' `_id`. seed: see `seed_of`.
    """
    x = np.asarray(ids, np.int64).view(np.uint64) + np.full(1, offset_of(seed), np.uint64)
    x ^= x >> np.uint64(30)
    x *= np.uint64(_FIRST)
    x ^= x >> np.uint64(27)
    x *= np.uint64(_SECOND)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def keep(ids: Ids, seed: int, reduction: float) -> Mask:
    """Which rows a reduction keeps.

    Arguments:
        ids: the rows' `_id`. seed: see `seed_of`. reduction: the fraction to drop.
    Raises: ValueError when the reduction is not in [0, 1).
    """
    kept = kept_fraction(reduction)
    if kept == 1:
        return np.ones(len(ids), np.bool_)
    return fractions(ids, seed) < kept


def weight(kept: float) -> float:
    """What a kept row counts for: the inverse of the probability that it was kept (Horvitz and Thompson, 1952).

    >>> weight(0.25)
    4.0
    """
    return 1 / kept
