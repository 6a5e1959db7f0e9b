"""Partners of many rows at once in sorted runs.

For every row a directory leads to its key in a run's order, and time to the stretch of it that can be valid then, so a
small epoch touches little of a large window. What is found is counted first and then written to its place, so that the
partners of a row stand in total order whatever the runs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.compiled import compiled
from millpond.relations.contents import Ints
from millpond.relations.runs import KeyOrder, Words

#: Stretches of an order up to this length are walked through, longer ones are searched.
WALK = 16


@dataclass(frozen=True)
class Sought:
    """A run in which partners are sought: its rows sorted by key, where it begins in the content, and its span of time.

    oldest, newest: no row's time is before or after these.
    """

    order: KeyOrder
    start: int
    oldest: int
    newest: int


def partners(
    sought: Sequence[Sought],
    begin: Ints,
    end: Ints,
    reach: int,
    plain: bool,
    codes: Words,
    latest: Ints,
    earliest: Ints,
    most: int,
) -> tuple[Ints, Ints] | int:
    """Pairs of equal codes of which the row that is sought begins and ends in time.

    Arguments:
        sought: runs in total order. begin, end: validity of the rows of the content.
        reach: rows end at most so long after their time, microseconds; negative: whenever they do.
        plain: every row begins at its time, and ends `reach` after it.
        codes: of the rows whose partners are sought. latest, earliest: a partner begins at `latest` or before and ends
            at `earliest` or after.
        most: how many pairs may be found.

    Returns: which row, ascending, and which partner, those of a row in total order; or how many there would be.
    """
    counts = np.zeros(len(codes), np.int64)
    if not len(codes):
        return counts, counts.copy()
    begin, end = (a if a.flags.writeable else a.copy() for a in (begin, end))
    newest, oldest = int(latest.max()), int(earliest.min()) - reach
    spans = []
    for each in sought:
        order = each.order
        if not len(order.times) or (reach >= 0 and each.newest < oldest) or each.oldest > newest:
            continue
        first, last = np.empty(len(codes), np.int32), np.empty(len(codes), np.int32)
        _stretches(
            order.codes, order.times, order.directory, np.uint64(order.shift), reach, codes, latest, earliest,
            first, last,
        )  # fmt: skip
        if plain:
            counts += last - first
        else:
            _count(order.places, each.start, begin, end, latest, earliest, first, last, counts)
        spans.append((each, first, last))
    total = int(counts.sum())
    if total > most:
        return total
    rows = np.repeat(np.arange(len(codes)), counts)
    found = np.empty(total, np.int64)
    cursor = np.cumsum(counts) - counts
    for each, first, last in spans:
        if plain:
            _copy(each.order.places, each.start, first, last, cursor, found)
        else:
            _write(each.order.places, each.start, begin, end, latest, earliest, first, last, cursor, found)
    return rows, found


@compiled
def _stretches(
    sorted_codes: Words,
    times: Ints,
    directory: npt.NDArray[np.int32],
    shift: np.uint64,
    reach: int,
    codes: Words,
    latest: Ints,
    earliest: Ints,
    first: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
) -> None:
    """Where in an order the rows with each code stand whose times do not say that they begin late or end early."""
    for row in range(len(codes)):
        code = codes[row]
        bucket = np.int64(code >> shift)
        low, high = np.int64(directory[bucket]), np.int64(directory[bucket + 1])
        low = _first_not_below(sorted_codes, low, high, code)
        high = _first_above(sorted_codes, low, high, code)
        high = _first_above(times, low, high, latest[row])
        if reach >= 0:
            low = _first_not_below(times, low, high, earliest[row] - reach)
        first[row], last[row] = low, high


@compiled
def _first_not_below(values: npt.NDArray[Any], low: np.int64, high: np.int64, value: Any) -> np.int64:
    """Where in an ascending stretch the first value stands that is not below one; the end if none is."""
    stop = high
    while stop - low > WALK:
        middle = (low + stop) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            stop = middle
    while low < high and values[low] < value:
        low += 1
    return low


@compiled
def _first_above(values: npt.NDArray[Any], low: np.int64, high: np.int64, value: Any) -> np.int64:
    """Where in an ascending stretch the first value stands that is above one; the end if none is."""
    base = low
    while high - base > WALK:
        middle = (base + high) // 2
        if values[middle] <= value:
            base = middle + 1
        else:
            high = middle
    while high > low and values[high - 1] > value:
        high -= 1
    return high


@compiled
def _count(
    places: npt.NDArray[np.int32],
    start: int,
    begin: Ints,
    end: Ints,
    latest: Ints,
    earliest: Ints,
    first: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
    counts: Ints,
) -> None:
    for row in range(len(first)):
        count = 0
        for at in range(first[row], last[row]):
            partner = np.int64(places[at]) + start
            if begin[partner] <= latest[row] and end[partner] >= earliest[row]:
                count += 1
        counts[row] += count


@compiled
def _write(
    places: npt.NDArray[np.int32],
    start: int,
    begin: Ints,
    end: Ints,
    latest: Ints,
    earliest: Ints,
    first: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
    cursor: Ints,
    found: Ints,
) -> None:
    for row in range(len(first)):
        to = cursor[row]
        for at in range(first[row], last[row]):
            partner = np.int64(places[at]) + start
            if begin[partner] <= latest[row] and end[partner] >= earliest[row]:
                found[to] = partner
                to += 1
        cursor[row] = to


@compiled
def _copy(
    places: npt.NDArray[np.int32],
    start: int,
    first: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
    cursor: Ints,
    found: Ints,
) -> None:
    for row in range(len(first)):
        to = cursor[row]
        for at in range(first[row], last[row]):
            found[to] = np.int64(places[at]) + start
            to += 1
        cursor[row] = to
