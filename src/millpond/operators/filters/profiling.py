"""Profile tuples of a piece of a task's rows: of some that a filter drops, what the other filters say of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millpond.operators.filters.profiled_sample import Flags, Ints, sampled
from millpond.types import Expression

Codes = np.ndarray[tuple[int, int], np.dtype[np.uint8]]

#: What a profile tuple says of a filter: it lets the row pass, drops it (one less and one more, as true and false are),
#: or it is not known.
PASSES, DROPS, UNKNOWN = ord("0"), ord("1"), ord("?")


@dataclass(frozen=True)
class Step:
    """What one filter did. before: places of the rows that came to it, in their order. holds: for which of them it
    holds. failed: places on which it fails."""

    before: Ints
    holds: Flags
    failed: Ints

    def __add__(self, other: Step) -> Step:
        """What it did with these rows and those behind them."""
        return Step(
            np.concatenate([self.before, other.before]),
            np.concatenate([self.holds, other.holds]),
            np.concatenate([self.failed, other.failed]),
        )


def profile_tuples(
    rows: pa.Table,
    filters: Sequence[Expression],
    order: Sequence[int],
    ask: Sequence[Sequence[int]],
    groups: Sequence[Ints],
    holds: Callable[[pa.Table, int], Flags | None],
) -> Codes:
    """Profile tuples, in the order of their rows: a line for each, with '0', '1' or '?' of each filter.

    Args:
        rows: the piece. order: the filter at each position; groups: places of the rows to profile that it dropped.
        ask: for a row that was dropped at a position, the filters that it is to be asked besides.
        holds: for which rows of a table a filter holds; None when it fails on one.
    """
    starts = [0, *itertools.accumulate(map(len, groups))]
    places = np.concatenate(groups)
    # From far and wide once, whatever is asked of them.
    columns = {c for f in filters for c in f.columns} & {*rows.column_names}
    some = rows.select(sorted(columns) or rows.column_names[:1]).take(pa.array(places))
    codes = np.full((len(order), len(places)), UNKNOWN, np.uint8)
    for position, number in enumerate(order):
        column = codes[number]
        column[starts[position] : starts[position + 1]] = DROPS
        column[starts[position + 1] :] = PASSES
        asked = [n for n in range(position) if number in ask[n] and len(groups[n])]
        for first, last in _runs(asked):
            low, high = starts[first], starts[last + 1]
            if (found := holds(some.slice(low, high - low), number)) is not None:
                column[low:high] = DROPS - found.view(np.uint8)
    return np.ascontiguousarray(codes.T[places.argsort()])


def dropped(seed: int, steps: Sequence[Step], rows: int, gone: int, probability: float, most: int) -> list[Ints]:
    """Places of the rows to profile that were dropped at each position. Rows on which a filter fails are not profiled.

    Which rows are profiled is drawn of what came to each filter: a function of the rows, of the order, and of nothing
    else.

    Args:
        seed: of the piece. steps: what the filter at each position did. rows: of the piece. gone: those that were
            dropped. probability: of a dropped row to be profiled. most: that are wanted, of the end of the piece.

    >>> step = Step(np.array([0, 1, 4]), np.array([True, False, False]), np.array([4]))
    >>> [found.tolist() for found in dropped(7, [step], 5, 2, 1.0, 10)]
    [[1]]
    """
    # From where on there are about as many as are wanted; a few more or less do not matter.
    begin = max(0, rows - int(most * rows / max(1, gone) / probability))
    drawn = sampled(seed, rows - begin, probability)
    found: list[Ints] = []
    for step in steps:
        size = len(step.before)
        low = int(step.before.searchsorted(begin)) if begin else 0
        at = size - 1 - drawn[: int(drawn.searchsorted(size - low))]  # from the end on
        places = step.before[at[~step.holds[at]]]
        found.append(places[~np.isin(places, step.failed)] if len(step.failed) else places)
    return found


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as runs (first, last).

    >>> _runs([0, 1, 2, 5])
    [(0, 2), (5, 5)]
    """
    found: list[tuple[int, int]] = []
    for n in numbers:
        found = [*found[:-1], (found[-1][0], n)] if found and found[-1][1] == n - 1 else [*found, (n, n)]
    return found
