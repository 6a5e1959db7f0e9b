"""Slide-by-tuple by Li's bins (Li 2008, Fig 6-5 to 6-7), with the corrections E4 and E5 of the digest; pure and slow.

A window ends at every value of the range attribute and covers (end - RANGE, end]. Start bins hold the aggregate of the
window that ends there, end bins that of the first window without a tuple. Only insertions are needed, so any aggregate
goes. Variants: SLIDE n ROWS by arrival, and by rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

NEVER = float("-inf")


@dataclass
class Bins:
    """The state of one aggregate: `insert` tuples in any order, `punctuate` when no smaller value is to come.

    Arguments:
        range: of the windows. identity, update: the aggregate, (state, value) -> state.
        slide, numbered: a window ends only with tuples whose number is a multiple.
    """

    range: int
    identity: Any
    update: Callable[[Any, Any], Any]
    slide: int = 1
    numbered: Literal["rank", "arrival"] = "rank"
    starts: dict[float, Any] = field(default_factory=dict)
    ends: dict[float, Any] = field(default_factory=dict)
    numbers: dict[float, list[int]] = field(default_factory=dict)
    arrived: int = 0
    passed: int = 0

    def __post_init__(self) -> None:
        self.ends[NEVER] = self.identity

    def _value(self, target: float) -> Any:
        """The value of the largest bin at or below `target` (E4: at, not only below)."""
        if target in self.starts:
            return self.starts[target]
        if target in self.ends:
            return self.ends[target]
        best = max(b for b in (*self.starts, *self.ends) if b < target)
        return self.starts[best] if best in self.starts else self.ends[best]

    def insert(self, time: int, value: Any = None) -> None:
        """A tuple arrives."""
        self.arrived += 1
        end = time + self.range
        if time not in self.starts:
            self.starts[time] = self._value(time)
        if end not in self.ends:
            self.ends[end] = self._value(end)
        for bins in (self.starts, self.ends):
            for bin_id in bins:
                if time <= bin_id < end:
                    bins[bin_id] = self.update(bins[bin_id], value)
        if self.numbered == "arrival":
            self.numbers.setdefault(time, []).append(self.arrived)
            return
        # By rank: every tuple above moves up by one; among equals the new one is the last.
        for other, ranks in self.numbers.items():
            if other > time:
                self.numbers[other] = [r + 1 for r in ranks]
        below = self.passed + sum(len(r) for t, r in self.numbers.items() if t <= time)
        self.numbers.setdefault(time, []).append(below + 1)

    def punctuate(self, value: float) -> list[tuple[int, int, Any]]:
        """No tuple below `value` follows: (end, number, aggregate) of the windows that are complete, ascending."""
        out = []
        for end in sorted(s for s in self.starts if s < value):
            hit = [n for n in self.numbers[end] if n % self.slide == 0]
            if hit:
                out.append((int(end), max(hit) // self.slide, self.starts[end]))
            self.passed += len(self.numbers.pop(end))
        below = [b for b in (*self.starts, *self.ends) if b < value]
        seed = self._value(max(below))  # E5: the largest bin below stays as the seed
        self.starts = {b: v for b, v in self.starts.items() if b >= value}
        self.ends = {b: v for b, v in self.ends.items() if b >= value}
        self.ends[NEVER] = seed
        return out
