"""What an adapter is: where data comes from (`poll`) and how a piece of it is read (`read`).

A new kind of source implements `Source` in the driver, and, when its items are not files in a known format, a `Reader`
for the tasks. Splits need no adapter code: `split` cuts what was taken into contiguous runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, runtime_checkable

import duckdb
import numpy as np

from millpond.sources.formats.shape import Read
from millpond.sources.intake_log import Item
from millpond.types import StreamDefinition


@runtime_checkable
class Source(Protocol):
    """The driver's side: finds what is new and records it in the stream's intake log before anything uses it."""

    def poll(self, clock_us: int, settle: bool = True) -> list[Item]:
        """Take what is new ("latest"), in order; `settle` False: everything that is there, now.

        Must be cheap when nothing is new, and must have made the items durable in the log when it returns.
        """
        ...


class Reader(Protocol):
    """The tasks' side: reads one item. A function of the item alone: no clock, no listing, no state."""

    def __call__(
        self,
        item: Item,
        definition: StreamDefinition,
        columns: Sequence[str] | None,
        db: duckdb.DuckDBPyConnection,
    ) -> Read:
        """The item's rows; see `millpond.sources.formats.read.read`."""
        ...


def split(items: Sequence[Item], n: int) -> list[list[Item]]:
    """Cut items into at most `n` contiguous runs of about the same size, for as many tasks.

    Deterministic; every run has an item. Order is kept within and between runs.

    >>> sizes = [50000, 9000, 9000, 40000]
    >>> items = [Item(i, "file", "f", "csv", size, 0, "", None, "", 0) for i, size in enumerate(sizes)]
    >>> [[i.size for i in run] for run in split(items, 2)]
    [[50000], [9000, 9000, 40000]]
    """
    n = min(max(1, n), len(items))
    if n <= 1:
        return [list(items)] if items else []
    # a file costs something even when it is small
    ends = np.cumsum([max(item.size, 4096) for item in items])
    cuts: list[int] = []
    for k in range(1, n):
        goal = ends[-1] * k / n
        cut = int(np.searchsorted(ends, goal))
        # the edge that is nearer to the goal
        cut += 1 if cut == 0 or ends[cut] - goal <= goal - ends[cut - 1] else 0
        cuts.append(min(max(cut, (cuts[-1] if cuts else 0) + 1), len(items) - (n - k)))
    edges = [0, *cuts, len(items)]
    return [list(items[a:b]) for a, b in pairwise(edges)]
