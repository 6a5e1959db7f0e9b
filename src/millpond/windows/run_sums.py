"""Sums and extremes of many overlapping runs of one array: running sums where they are exact, doubling where not.

A sum of integers over [low, high) is the difference of two running sums, exact whatever its length. Doubles become
integers first: a value is cut into limbs of 30 bits below the highest bit of the largest one, which are summed apart.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millpond.windows.candidates import Ints

Floats = NDArray[np.float64]

#: Bits of a limb: sums of 2^33 of them fit an int64.
_BITS = 30
#: Limbs that doubles are cut into at most: 180 bits from the highest of the largest to the lowest of the smallest.
_LIMBS = 6


def run_sums(values: Ints, low: Ints, high: Ints) -> Ints:
    """The sum of each run [low, high) of integers, modulo 2^64.

    >>> run_sums(np.array([1, 2, 3]), np.array([0, 1]), np.array([2, 3])).tolist()
    [3, 5]
    """
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total[high] - total[low]


def run_float_sums(values: Floats, low: Ints, high: Ints) -> Floats | None:
    """The sum of each run [low, high) of doubles, right but for the last rounding.

    None where values are not finite or lie too far apart in size.

    >>> run_float_sums(np.array([1e16, 1.0, -1e16]), np.array([0]), np.array([3])).tolist()
    [1.0]
    """
    largest = float(np.abs(values).max(initial=0.0))
    if not math.isfinite(largest):
        return None
    if largest == 0.0:
        return np.zeros(len(low))
    exponent = math.frexp(largest)[1]
    if not -700 < exponent < 1000:
        return None
    rest = values.copy()
    sums: list[Ints] = []
    units: list[float] = []
    while len(sums) < _LIMBS:
        unit = math.ldexp(1.0, exponent - _BITS * (len(sums) + 1))
        whole = np.trunc(rest * (1.0 / unit))
        rest -= whole * unit  # exact: it takes the leading bits away
        sums.append(run_sums(whole.astype(np.int64), low, high))
        units.append(unit)
        if not rest.any():
            return _joined(sums, units)
    return None


def _joined(sums: list[Ints], units: list[float]) -> Floats:
    """The doubles whose limbs were summed."""
    for at in range(len(sums) - 1, 0, -1):
        sums[at - 1] += sums[at] >> _BITS
        sums[at] &= (1 << _BITS) - 1
    # From the top: what follows is less than a unit of what is there, so leading bits that cancel do so exactly.
    result = np.zeros(len(sums[0]))
    for limb, unit in zip(sums, units, strict=True):
        result += limb * unit
    return result


def run_minima(values: Any, low: Ints, high: Ints, none: int) -> Ints:
    """The smallest value of each run [low, high); `none` of an empty run.

    Two blocks of a power of two rows that overlap cover a run.

    >>> run_minima(np.array([3, 1, 2]), np.array([0, 2, 1]), np.array([3, 3, 1]), 9).tolist()
    [1, 2, 9]
    """
    length = high - low
    result = np.full(len(low), none, np.int64)
    # Windows by the level whose blocks cover them.
    level_of = np.where(length > 0, np.frexp(np.maximum(length, 1).astype(np.float64))[1] - 1, -1)
    level = np.asarray(values)
    for bit in range(int(level_of.max(initial=-1)) + 1):
        chosen = np.flatnonzero(level_of == bit)
        if len(chosen):
            result[chosen] = np.minimum(level[low[chosen]], level[high[chosen] - (1 << bit)])
        if (2 << bit) <= len(values):
            level = np.minimum(level[: -(1 << bit)], level[1 << bit :])
    return result
