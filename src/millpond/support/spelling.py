"""The known name that a misspelt one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The known name that looks most like `name`, or ''.

    Arguments:
        likeness: how much it has to, from 0 to 1 (the ratio of `difflib`).

    >>> nearest("mhp", ["mph", "sensor"])
    'mph'
    """
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=likeness)
    return by_lower[found[0]] if found else ""
