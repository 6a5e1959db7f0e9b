"""The known name that a misspelt one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that looks most like `name`, or ''.

    >>> nearest("mhp", ["mph", "sensor"])
    'mph'
    """
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[found[0]] if found else ""
