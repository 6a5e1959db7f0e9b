"""Numba behind a typed decorator: compiled once per machine, without the interpreter's lock while it runs.

Numba takes half a second to import, more than most processes ever need of it: a function is compiled, or its machine
code loaded, when it is first called.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.Lock()


def trailing_zeros(word: Any) -> int:
    """Number of zero bits below the lowest set bit of a 64-bit word: one machine instruction in compiled functions."""
    raise NotImplementedError("this is for compiled functions")


def compiled(function: F) -> F:
    """A numpy loop as machine code.

    The code is cached beside the source or, where that folder is read-only, in the user's cache folder; where neither
    can be written every process compiles for itself.
    """
    made: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if not made:
            with _lock:
                if not made:
                    made.append(_made(function))
        return made[0](*arguments)

    return cast(F, call)


def _made(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba
    from numba.cpython.unsafe import numbers

    space = function.__globals__
    if space.get("trailing_zeros") is trailing_zeros:
        space["trailing_zeros"] = numbers.trailing_zeros
    try:
        return cast(Callable[..., Any], numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no folder for its cache
        return cast(Callable[..., Any], numba.njit(nogil=True)(function))
