"""Numba behind a typed decorator: compiled once per machine, without the interpreter's lock while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.cpython.unsafe import numbers

#: Number of zero bits below the lowest set bit of a 64-bit word: one machine instruction in compiled functions.
trailing_zeros: Any = numbers.trailing_zeros

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """A numpy loop as machine code.

    The code is cached beside the source or, where that folder is read-only, in the user's cache folder; where neither
    can be written every process compiles for itself.
    """
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no folder for its cache
        return cast(F, numba.njit(nogil=True)(function))
