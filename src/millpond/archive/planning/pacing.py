"""`REDUCE load()` while a scan runs: what it drops is asked anew before each file, so that long scans give way, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from millpond.archive.design.load import Choice
from millpond.archive.design.reductions import Step
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.sections import Piece, Section, pieces_of
from millpond.types import StreamDefinition


@dataclass
class Pace:
    """What a scan in the pond's own process reads of the files that it has not come to yet.

    It drops more than was planned when the load has grown since, never less: what may be dropped at most was settled,
    and a copy that is fine enough for less may be gone.

    Arguments:
        choose: what a scan is to drop now. sections: those of a stream that can hold rows of a range.
    """

    choose: Callable[[], Choice]
    sections: Callable[[StreamDefinition, Range], Sequence[Section]]
    steps: list[Step] = field(default_factory=list)
    reason: str = ""
    _known: dict[tuple[int, Range], dict[str, Section]] = field(default_factory=dict)

    def piece(self, stream: StreamDefinition, planned: Piece, wanted: Range, drop: float) -> Piece:
        """What to read of a section now, in place of what was planned with so much to drop."""
        choice = self.choose()
        if choice.drop <= drop:
            return planned
        key = stream.id, wanted
        if key not in self._known:
            self._known[key] = {s.name: s for s in self.sections(stream, wanted)}
        section = self._known[key].get(planned.section)
        if section is None:
            return planned
        low, high = wanted.within(planned.segment.low, planned.segment.high + 1)
        self.steps.append(Step(low, high, choice.drop))
        self.reason = choice.reason
        return pieces_of(stream, [(section, choice.drop)])[0]
