"""Which rows of an archive are wanted, and the files that can hold some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millpond.tables import Segment


@dataclass(frozen=True)
class Range:
    """Rows of an archive: event times low <= t < high (microseconds), epochs from `first` to `epoch`; None: open."""

    low: int | None = None
    high: int | None = None
    epoch: int | None = None
    first: int | None = None

    def meets(self, segment: Segment) -> bool:
        """Whether a file can hold rows of the range."""
        return (
            (self.low is None or segment.high >= self.low)
            and (self.high is None or segment.low < self.high)
            and (self.epoch is None or segment.first_epoch <= self.epoch)
            and (self.first is None or segment.last_epoch >= self.first)
        )

    def within(self, low: int, high: int) -> tuple[int, int]:
        """The part of the event times low <= t < high that is wanted."""
        return (
            low if self.low is None else max(low, self.low),
            high if self.high is None else min(high, self.high),
        )


def segments_in(segments: Sequence[Segment], wanted: Range) -> list[Segment]:
    """The segments that can hold rows of a range, in order of time."""
    return sorted((s for s in segments if wanted.meets(s)), key=lambda s: (s.low, s.path))
