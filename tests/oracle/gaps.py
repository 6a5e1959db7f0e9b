"""Windows without a row by definition: a group after the other, a window after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Any

#: A row: event time, key, value.
Seen = tuple[int, Any, int | None]


@dataclass(frozen=True)
class Gapped:
    """`SELECT k, count(*), sum(v) FROM s [RANGE size SLIDE slide] GROUP BY k`, with empty='report'.

    known: how long a group is known, a multiple of `size`. fills: the words for the count and for the sum; the count's
    is '' where nothing is said of it by name. whole: without GROUP BY; the key of every row is None then.
    """

    size: int
    slide: int
    known: int
    fills: tuple[str, str] = ("", "")
    whole: bool = False

    def answers(self, rows: Sequence[Seen], until: int) -> list[tuple[int, Any, Any, Any]]:
        """(end, key, count, sum) of all windows that end at or before `until`."""
        found = []
        for key in {row[1] for row in rows}:
            found += self._of_group(key, [(t, v) for t, k, v in rows if k == key], until)
        return found

    def asked_once(self, rows: Sequence[Seen], until: int) -> list[tuple[int, Any, Any, Any]]:
        """(end, key, count, sum) of the windows with a row that end at or before `until`: what a SELECT gives."""
        found = []
        for key in {row[1] for row in rows}:
            own = [(t, v) for t, k, v in rows if k == key]
            first = -(-(min(t for t, _ in own) + 1) // self.slide) * self.slide
            for end in range(first, until + 1, self.slide):
                inside = [v for t, v in own if end - self.size <= t < end]
                found += [(end, key, len(inside), _sum(inside))] if inside else []
        return found

    def invoked(self, rows: Sequence[Seen], now: int) -> list[tuple[int, Any, Any, Any]]:
        """(NOW, key, count, sum) over [NOW - size, NOW] of the groups with a row there: what INVOKE gives."""
        inside = [(k, v) for t, k, v in rows if now - self.size <= t <= now]
        groups = {key: [v for k, v in inside if k == key] for key in dict.fromkeys(k for k, _ in inside)}
        return [(now, key, len(values), _sum(values)) for key, values in groups.items()]

    def _of_group(
        self, key: Any, rows: Sequence[tuple[int, int | None]], until: int
    ) -> list[tuple[int, Any, Any, Any]]:
        times = [t for t, _ in rows]
        first = -(-(min(times) + 1) // self.slide) * self.slide
        ends = range(first, min(until, max(times) + self.size + self.known) + 1, self.slide)
        inside = {e: [v for t, v in rows if e - self.size <= t < e] for e in ends}
        there = [e for e in ends if inside[e]]
        if self.whole and "linear" not in self.fills:  # all of them, from the first with a row on
            ends = range(there[0], until + 1, self.slide) if there else range(0)
            inside = {end: inside.get(end, []) for end in ends}
        sums = {e: _sum(inside[e]) for e in there}
        values = ({e: len(inside[e]) for e in there}, sums)
        found = []
        for end in ends:
            before = max((e for e in there if e < end), default=None)
            behind = min((e for e in there if e > end), default=None)
            if inside[end]:
                found.append((end, key, values[0][end], values[1][end]))
            elif self._is_known(end, times) and self._is_told(before, behind, times):
                near = (end, self._near(before, end, times), behind)
                count = self._filled(self.fills[0], values[0], near, 0, bool(self.fills[0]))
                found.append((end, key, count, self._filled(self.fills[1], values[1], near, None, False)))
        return found

    def _is_known(self, end: int, times: Sequence[int]) -> bool:
        every = self.whole and "linear" not in self.fills
        return every or any(end - self.size - self.known <= t < end for t in times)

    def _is_told(self, before: int | None, behind: int | None, times: Sequence[int]) -> bool:
        """Whether a window on a line is answered: the next window with a row is not too far from the last row."""
        if "linear" not in self.fills:
            return True
        if before is None or behind is None:
            return False
        pane = gcd(self.size, self.slide)
        return behind <= self._last_in(before, times) // pane * pane + self.size + self.known

    def _last_in(self, end: int, times: Sequence[int]) -> int:
        return max(t for t in times if end - self.size <= t < end)

    def _near(self, before: int | None, end: int, times: Sequence[int]) -> int | None:
        """The window before, where its last row is not too old to fill from."""
        if before is None or self._last_in(before, times) < end - self.size - self.known:
            return None
        return before

    def _filled(
        self, word: str, values: Mapping[int, Any], near: tuple[int, int | None, int | None], own: Any, named: bool
    ) -> Any:
        end, before, behind = near
        if not word or (own is not None and not named):
            return own
        match word:
            case "null":
                return None
            case "0":
                return 0
            case "previous":
                return None if before is None else values[before]
        if before is None or behind is None or values[before] is None or values[behind] is None:
            return None
        share = Fraction(end - before, behind - before)
        return float(values[before] + (values[behind] - values[before]) * share)


def _sum(values: Sequence[int | None]) -> int | None:
    there = [v for v in values if v is not None]
    return sum(there) if there else None
