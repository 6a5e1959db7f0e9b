"""Clocks that say what a test says: what is decided by measured times is then the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from millpond.support import stopwatch

#: Seconds that have passed by the clock of `charged`.
_PASSED = [0.0]


def charge(seconds: float) -> None:
    """Let time pass. What is registered is a copy of a function: it imports this within, and charges the same clock."""
    _PASSED[0] += seconds


@contextmanager
def charged(tick: float = 0.0) -> Iterator[None]:
    """Time passes only as it is charged.

    Args:
        tick: seconds that each look at the clock takes besides, so that everything costs the same.
    """

    def look() -> stopwatch.Reading:
        charge(tick)
        return _PASSED[0], 0.0, None

    with patch.object(stopwatch, "_reading", look):
        yield
