"""What a scan reads, divided into tasks: values that travel from the driver to the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millpond.archive.planning.ranges import Range
from millpond.archive.planning.sections import Piece
from millpond.synopses import PanesSpec
from millpond.tables import Segment

#: Rows of the archive that are good enough for one task; more are spread over several.
ROWS_PER_TASK = 4_000_000


@dataclass(frozen=True)
class ScanSplit:
    """What a scan reads of one stretch of a stream's past, of which everywhere as much is left out.

    drop: the fraction of rows that is left out; 0: every row is read. interval: rows are seen at the start of their
    interval (microseconds); 0: at their own time. entries: of a summary that keeps `have`, in place of the rows of
    `files`. since: panes of entries that end by then are of no use (microseconds); None: all are.
    """

    wanted: Range
    drop: float
    pieces: tuple[Piece, ...]
    interval: int = 0
    entries: tuple[Segment, ...] = ()
    files: tuple[Segment, ...] = ()
    have: PanesSpec | None = None
    since: int | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The files whose rows it reads."""
        return tuple(p.segment for p in self.pieces)


@dataclass(frozen=True)
class ScanTask:
    """What one map task reads of one stream. place: of the stream among those of a union."""

    place: int
    splits: tuple[ScanSplit, ...]


@dataclass(frozen=True)
class ScanPlan:
    """A scan in tasks. rows: that it reads, about. removed: the event time below which rows are missing; None: none."""

    tasks: tuple[ScanTask, ...]
    rows: int
    removed: int | None


def whole_files(segments: Sequence[Segment], wanted: Range) -> ScanSplit:
    """All rows of a range that some files hold."""
    return ScanSplit(wanted, 0.0, tuple(Piece.whole_file(s) for s in segments))


def divided(splits: Sequence[ScanSplit], most: int) -> list[tuple[ScanSplit, ...]]:
    """Splits by task: at most `most`, as even as files are, and none without work."""
    total = sum(p.rows for split in splits for p in split.pieces)
    count = max(1, min(most, -(-total // ROWS_PER_TASK)))
    tasks: list[dict[int, list[Piece]]] = [{} for _ in range(count)]
    done = 0
    for number, split in enumerate(splits):
        for piece in split.pieces:
            tasks[min(count - 1, done * count // max(total, 1))].setdefault(number, []).append(piece)
            done += piece.rows
    return [tuple(replace(splits[n], pieces=tuple(p)) for n, p in task.items()) for task in tasks if task]
