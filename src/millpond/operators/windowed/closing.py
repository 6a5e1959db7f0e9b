"""What is asked of the windows of one query: by an epoch, a back-fill, or somebody who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from millpond.operators.windowed.group_bounds import GroupBounds
from millpond.operators.windowed.window_progress import Windowed
from millpond.types import QueryOptions, WindowedQuery

#: (low, high) -> revision numbers given so far to windows that end between two instants, both included.
Given = Callable[[int, int], pa.Table | None]

Q = TypeVar("Q", bound=WindowedQuery, covariant=True)


def nothing_given(low: int, high: int) -> pa.Table | None:
    """The revision numbers of a query that has not answered yet."""
    return None


@dataclass(frozen=True)
class Closing(Generic[Q]):
    """Windows that close, and those closed before that rows revise. Times are microseconds.

    late: what late rows do: 'revise' or 'drop'. before: how far the query has answered. until: windows that end by then
    close now. known, reached: high watermark of the stream before and after. groups: bounds of groups that are ahead of
    `until`, on a stream that has them. given: revision numbers so far. epoch: the one that asks.
    """

    query: Q
    options: QueryOptions
    late: str
    before: Windowed
    until: int
    known: int
    reached: int
    groups: GroupBounds | None = None
    given: Given = nothing_given
    epoch: int = 0

    @property
    def owes(self) -> bool:
        """Whether answers that state no longer covers are recomputed for late rows."""
        return self.late == "revise" and not self.options.limited
