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

from millpond.relations.contents import Ints
from millpond.relations.runs import KeyOrder, Words, key_order, spread_codes
from millpond.support.compiled import compiled

Places = npt.NDArray[np.int32]

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


@dataclass(frozen=True)
class Matches:
    """Where in runs the partners of some rows can stand: what has been looked up by key and time, and not yet read.

    spans: runs, and the stretch of each in which the partners of each row are. The other fields: as of `sought_in`.
    """

    spans: tuple[tuple[Sought, Places, Places], ...]
    begin: Ints
    end: Ints
    plain: bool
    latest: Ints
    earliest: Ints

    def some(self) -> npt.NDArray[np.bool_]:
        """Which rows have a partner; each is looked for until the first is found."""
        found = np.zeros(len(self.latest), np.bool_)
        for each, first, last in self.spans:
            if self.plain:
                found |= last > first
            else:
                _some(
                    each.order.places, each.start, self.begin, self.end, self.latest, self.earliest, first, last, found
                )
        return found

    def take(self, rows: Ints) -> Matches:
        """Those of some of the rows."""
        spans = tuple((each, first[rows], last[rows]) for each, first, last in self.spans)
        return Matches(spans, self.begin, self.end, self.plain, self.latest[rows], self.earliest[rows])

    def pairs(self, most: int) -> tuple[Ints, Ints] | int:
        """Which row, ascending, and which partner, those of a row in total order; or how many there would be.

        Arguments:
            most: how many pairs may be found.
        """
        counts = np.zeros(len(self.latest), np.int64)
        for each, first, last in self.spans:
            if self.plain:
                counts += last - first
            else:
                _count(
                    each.order.places, each.start, self.begin, self.end, self.latest, self.earliest, first, last, counts
                )
        total = int(counts.sum())
        if total > most:
            return total
        rows = np.repeat(np.arange(len(counts)), counts)
        found = np.empty(total, np.int64)
        cursor = np.cumsum(counts) - counts
        for each, first, last in self.spans:
            if self.plain:
                _copy(each.order.places, each.start, first, last, cursor, found)
            else:
                _write(
                    each.order.places, each.start, self.begin, self.end, self.latest, self.earliest, first, last,
                    cursor, found,
                )  # fmt: skip
        return rows, found


def sought_in(
    sought: Sequence[Sought],
    begin: Ints,
    end: Ints,
    reach: int,
    plain: bool,
    codes: Words,
    latest: Ints,
    earliest: Ints,
) -> Matches:
    """Look up where rows with equal codes stand of which the begin and the end are in time.

    Arguments:
        sought: runs in total order. begin, end: validity of the rows of the content.
        reach: rows end at most so long after their time, microseconds; negative: whenever they do.
        plain: every row begins at its time, and ends `reach` after it.
        codes: of the rows whose partners are sought. latest, earliest: a partner begins at `latest` or before and ends
            at `earliest` or after.
    """
    spans = []
    if len(codes):
        begin, end = (a if a.flags.writeable else a.copy() for a in (begin, end))
        newest, oldest = int(latest.max()), int(earliest.min()) - reach
        for each in sought:
            order = each.order
            if not len(order.times) or (reach >= 0 and each.newest < oldest) or each.oldest > newest:
                continue
            first, last = np.empty(len(codes), np.int32), np.empty(len(codes), np.int32)
            _stretches(
                order.codes, order.times, order.directory, np.uint64(order.shift), reach, codes, latest, earliest,
                first, last,
            )  # fmt: skip
            spans.append((each, first, last))
    return Matches(tuple(spans), begin, end, plain, latest, earliest)


def load() -> None:
    """Have the machine code at hand that finds partners: to load it takes a process a second, once."""
    two = np.arange(2)
    order = key_order(spread_codes(two), two, two, True, ("number",))
    for plain in (True, False):
        found = sought_in([Sought(order, 0, 0, 1)], two, two + 1, 1, plain, order.codes, two, two)
        found.some()
        found.pairs(2)


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
def _some(
    places: npt.NDArray[np.int32],
    start: int,
    begin: Ints,
    end: Ints,
    latest: Ints,
    earliest: Ints,
    first: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
    found: npt.NDArray[np.bool_],
) -> None:
    for row in range(len(first)):
        for at in range(first[row], last[row]):
            if found[row]:
                break
            partner = np.int64(places[at]) + start
            if begin[partner] <= latest[row] and end[partner] >= earliest[row]:
                found[row] = True


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
