"""How far queries answer when their streams are so far."""

from __future__ import annotations

from millpond.progress import FOREVER, NEVER
from millpond.types import QueryOptions


def announced(options: QueryOptions, bound: int) -> int:
    """The progress up to which a query answers, when that of its stream is `bound`."""
    return bound if bound >= FOREVER or bound <= NEVER else bound - options.delay
