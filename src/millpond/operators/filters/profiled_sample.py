"""Which rows of a piece are profiled when a filter drops them."""

from __future__ import annotations

import numpy as np

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

#: Of each stretch of length 1 a number in it. Every sample takes some that follow each other: making a generator for
#: each takes a tenth of a millisecond, as long as asking some hundred rows.
_STRATA: Floats = np.arange(1 << 15) + np.random.Generator(np.random.PCG64(1)).random(1 << 15)

#: A constant of SplitMix64: it spreads seeds that follow each other.
_MIX = 0xBF58476D1CE4E5B9


def _strata(seed: int, count: int) -> Floats:
    """A number of each of the first stretches of length 1, the same for the same seed.

    >>> _strata(7, 2).tolist() == _strata(7, 3)[:2].tolist() != _strata(8, 2).tolist()
    True
    >>> _strata(7, 1 << 17).astype(int).tolist() == list(range(1 << 17))
    True
    """
    begin = ((seed * _MIX) % (1 << 64) >> 32) % len(_STRATA)
    if begin + count <= len(_STRATA):
        some: Floats = _STRATA[begin : begin + count] - begin
        return some
    at = np.arange(begin, begin + count)
    again, at = np.divmod(at, len(_STRATA))
    many: Floats = _STRATA[at] + (again * len(_STRATA) - begin)
    return many


def sampled(seed: int, rows: int, probability: float) -> Ints:
    """Places of the rows that are profiled: each is with the probability; the same for the same seed.

    One is drawn out of each stretch of 1 / probability rows, so that they are as many as they should be.

    >>> len(sampled(7, 100_000, 0.1)) in range(9_990, 10_001), sampled(7, 3, 1.0).tolist()
    (True, [0, 1, 2])
    """
    if probability >= 1:
        return np.arange(rows)
    count = int(np.ceil(rows * probability))
    places = (_strata(seed, count) * (1 / probability)).astype(np.int64)
    places = places[: int(places.searchsorted(rows))]
    once = places[1:] > places[:-1]  # where two stretches meet within a row both may have drawn it
    return places if once.all() else places[np.r_[True, once]]
