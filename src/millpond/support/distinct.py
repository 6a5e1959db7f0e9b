"""Distinct numbers, by sorting.

NumPy 2.3 and later find them with a hash table where only the values are asked for, which for a million whole numbers
takes 1.3 s instead of .02 s (measured with NumPy 2.4.6); `np.isin` rests on the same.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.integer)


def distinct(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The different values, ascending.

    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    ordered = np.sort(values)
    return ordered[np.r_[True, ordered[1:] != ordered[:-1]]] if len(ordered) else ordered


def is_among(values: npt.NDArray[Number], wanted: npt.NDArray[Number]) -> npt.NDArray[np.bool_]:
    """Which values are among those wanted.

    >>> is_among(np.array([1, 2, 5]), np.array([5, 1]))
    array([ True, False,  True])
    """
    if not len(wanted):
        return np.zeros(len(values), np.bool_)
    ordered = np.sort(wanted)
    found: npt.NDArray[np.bool_] = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found
