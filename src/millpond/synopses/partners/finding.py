"""Partners of many rows at once in sorted runs: those with an equal key whose value lies in a band.

For every row a directory leads to its key in a run's order, and the band to the stretch of it that can be meant, so few
rows that ask touch little of many that are kept. What is found is counted first and then written to its place, so that
the partners of a row stand in the order of the runs whatever these are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.support.compiled import compiled
from millpond.synopses.partners.orders import Ints, KeyOrder, Places, Words, key_order, spread_codes

#: The ends of a band that is open.
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

#: Stretches of an order up to this length are walked through, longer ones are searched.
WALK = 16


@dataclass(frozen=True)
class Sought:
    """A run in which partners are sought: its rows sorted by key, and the number of its first one.

    least, most: no row's value lies outside of them.
    """

    order: KeyOrder
    start: int = 0
    least: int = LEAST
    most: int = MOST


@dataclass(frozen=True)
class Validity:
    """What partners must be beside the band.

    begin, end: from when to when each row in which partners are sought is valid. latest, earliest: of each row that
    asks: a partner begins at `latest` or before and ends at `earliest` or after.
    """

    begin: Ints
    end: Ints
    latest: Ints
    earliest: Ints


@dataclass(frozen=True)
class Matches:
    """Where the partners of rows stand in runs: looked up by key and band, and not yet read.

    count: rows that ask. spans: runs, and the stretch of each in which the partners of each row are. validity: which of
    these are partners; None: all.
    """

    count: int
    spans: tuple[tuple[Sought, Places, Places], ...]
    validity: Validity | None = None

    def some(self) -> npt.NDArray[np.bool_]:
        """Which rows have a partner; each is looked for until the first is found."""
        found = np.zeros(self.count, np.bool_)
        for each, first, last in self.spans:
            if (v := self.validity) is None:
                found |= last > first
            else:
                _some(each.order.places, each.start, v.begin, v.end, v.latest, v.earliest, first, last, found)
        return found

    def take(self, rows: Ints) -> Matches:
        """Those of some of the rows."""
        spans = tuple((each, first[rows], last[rows]) for each, first, last in self.spans)
        v = self.validity
        return Matches(
            len(rows), spans, None if v is None else Validity(v.begin, v.end, v.latest[rows], v.earliest[rows])
        )

    def spread(self, rows: Ints, count: int) -> Matches:
        """Those of so many rows, of which all but some ask for nothing. rows: which these are."""
        spans = []
        for each, first, last in self.spans:
            bounds = np.zeros(count, np.int32), np.zeros(count, np.int32)
            bounds[0][rows], bounds[1][rows] = first, last
            spans.append((each, *bounds))
        assert self.validity is None
        return Matches(count, tuple(spans))

    def counts(self) -> Ints:
        """How many partners each row has."""
        counts = np.zeros(self.count, np.int64)
        for each, first, last in self.spans:
            if (v := self.validity) is None:
                counts += last - first
            else:
                _count(each.order.places, each.start, v.begin, v.end, v.latest, v.earliest, first, last, counts)
        return counts

    def pairs(self, most: int) -> tuple[Ints, Ints] | int:
        """Which row, ascending, and which partner, those of a row in the order of the runs; or how many there would be.

        Args:
            most: how many pairs may be found.
        """
        counts = self.counts()
        total = int(counts.sum())
        if total > most:
            return total
        rows = np.repeat(np.arange(len(counts)), counts)
        found = np.empty(total, np.int64)
        cursor = np.cumsum(counts) - counts
        for each, first, last in self.spans:
            if (v := self.validity) is None:
                _copy(each.order.places, each.start, first, last, cursor, found)
            else:
                _write(each.order.places, each.start, v.begin, v.end, v.latest, v.earliest, first, last, cursor, found)
        return rows, found

    def pieces(self, at_once: int) -> Iterator[tuple[Ints, Ints]]:
        """As `pairs`, in pieces of bounded size; for partners of which nothing but key and band is asked."""
        assert self.validity is None
        counts = self.counts()
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, at_once):
            stop = min(start + at_once, total)
            low, high = np.searchsorted(ends, [start, stop - 1], "right")
            yield self._piece(int(low), int(high) + 1, start - int(ends[low] - counts[low]), stop - start)

    def _piece(self, low: int, high: int, skipped: int, size: int) -> tuple[Ints, Ints]:
        """So many pairs of the rows low <= row < high, behind the first few."""
        bounds = [(first[low:high].copy(), last[low:high].copy()) for _, first, last in self.spans]
        surplus = sum(int((last - first).sum()) for first, last in bounds) - skipped - size
        for first, last in bounds:
            some = min(skipped, int(last[0] - first[0]))
            first[0] += some
            skipped -= some
        for first, last in reversed(bounds):
            some = min(surplus, int(last[-1] - first[-1]))
            last[-1] -= some
            surplus -= some
        spans = tuple((s, first, last) for (s, _, _), (first, last) in zip(self.spans, bounds, strict=True))
        found = Matches(high - low, spans).pairs(size)
        assert not isinstance(found, int)
        return found[0] + low, found[1]


def look_up(sought: Sequence[Sought], codes: Words, low: Ints, high: Ints, validity: Validity | None = None) -> Matches:
    """Look up where the rows stand that have the same codes and a value in a band.

    Args:
        sought: runs, in the order in which partners are to stand.
        codes: of the rows whose partners are sought.
        low, high: of each, between what the values of its partners lie, both included.
        validity: what else is asked of partners; None: nothing.
    """
    spans = []
    if len(codes):
        if validity is not None:
            begin, end = (a if a.flags.writeable else a.copy() for a in (validity.begin, validity.end))
            validity = replace(validity, begin=begin, end=end)
        least, most = int(low.min()), int(high.max())
        for each in sought:
            order = each.order
            if not len(order.codes) or each.most < least or each.least > most:
                continue
            first, last = np.empty(len(codes), np.int32), np.empty(len(codes), np.int32)
            shift = np.uint64(order.shift)
            _stretches(order.codes, order.values, order.directory, shift, codes, low, high, first, last)
            spans.append((each, first, last))
    return Matches(len(codes), tuple(spans), validity)


def load() -> None:
    """Have the machine code at hand that finds partners: to load it takes a process a second, once."""
    two = np.arange(2)
    order = key_order(spread_codes(two), two, two)
    for validity in (None, Validity(two, two + 1, two, two)):
        found = look_up([Sought(order)], order.codes, two - 1, two, validity)
        found.some()
        found.pairs(2)


@compiled
def _stretches(
    sorted_codes: Words,
    values: Ints,
    directory: Places,
    shift: np.uint64,
    codes: Words,
    low: Ints,
    high: Ints,
    first: Places,
    last: Places,
) -> None:
    """Where in an order the rows with each code stand whose values lie in a band."""
    for row in range(len(codes)):
        code = codes[row]
        bucket = np.int64(code >> shift)
        begin, end = np.int64(directory[bucket]), np.int64(directory[bucket + 1])
        begin = _first_not_below(sorted_codes, begin, end, code)
        end = _first_above(sorted_codes, begin, end, code)
        end = _first_above(values, begin, end, high[row])
        begin = _first_not_below(values, begin, end, low[row])
        first[row], last[row] = begin, end


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
    places: Places,
    start: int,
    begin: Ints,
    end: Ints,
    latest: Ints,
    earliest: Ints,
    first: Places,
    last: Places,
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
    places: Places,
    start: int,
    begin: Ints,
    end: Ints,
    latest: Ints,
    earliest: Ints,
    first: Places,
    last: Places,
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
    places: Places,
    start: int,
    begin: Ints,
    end: Ints,
    latest: Ints,
    earliest: Ints,
    first: Places,
    last: Places,
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
    places: Places,
    start: int,
    first: Places,
    last: Places,
    cursor: Ints,
    found: Ints,
) -> None:
    for row in range(len(first)):
        to = cursor[row]
        for at in range(first[row], last[row]):
            found[to] = np.int64(places[at]) + start
            to += 1
        cursor[row] = to


__all__ = ["LEAST", "MOST", "Matches", "Sought", "Validity", "load", "look_up"]
