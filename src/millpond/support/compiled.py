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

_lock = threading.RLock()


def trailing_zeros(word: Any) -> int:
    """Number of zero bits below the lowest set bit of a 64-bit word: one machine instruction in compiled functions."""
    raise NotImplementedError("this is for compiled functions")


class _Compiled:
    """A function that is compiled when it is first called, with those that it calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._made: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._made or self.made())(*arguments)

    def made(self) -> Callable[..., Any]:
        """The function as machine code."""
        with _lock:
            if self._made is None:
                self._made = _compile(self._function)
            return self._made


def compiled(function: F) -> F:
    """A numpy loop as machine code; it may call others of its module.

    The code is cached beside the source or, where that folder is read-only, in the user's cache folder; where neither
    can be written every process compiles for itself.
    """
    return cast(F, _Compiled(function))


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba
    from numba.cpython.unsafe import numbers

    space = function.__globals__
    for name in function.__code__.co_names:  # numba looks names up where the function does
        known = space.get(name)
        if isinstance(known, _Compiled):
            space[name] = known.made()
        elif known is trailing_zeros:
            space[name] = numbers.trailing_zeros
    try:
        return cast(Callable[..., Any], numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no folder for its cache
        return cast(Callable[..., Any], numba.njit(nogil=True)(function))
