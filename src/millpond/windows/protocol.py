"""What a kind of windows must say of itself (Li 2008, section 5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable


@runtime_checkable
class WindowKind(Protocol):
    """A kind of windows over event times (microseconds). Their ids are whole numbers, in the order of their ends."""

    def windows(self, times: Iterable[int], until: int) -> list[int]:
        """The ids of all windows with at least one of `times` that end at or before `until`, ascending."""
        ...

    def extent(self, wid: int) -> tuple[int, int]:
        """The times that window `wid` covers, as (start, end), closed-open."""
        ...

    def wids(self, time: int, until: int) -> range:
        """The ids of the windows that `time` belongs to and that end at or before `until`."""
        ...
