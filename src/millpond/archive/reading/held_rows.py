"""Rows that a reduction function has looked at, kept for the scan that it decides about, so that they are read once."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from millpond.archive.design.reductions import END, START
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.sections import Piece
from millpond.types import StreamDefinition

#: Rows that are held at most: what an ad hoc scan may read in the pond's own process. A larger one is a job elsewhere.
MOST = 3_000_000


@dataclass
class HeldRows:
    """Rows of pieces, by stretch of event time. Of a piece every scan of the same rate reads the same rows.

    rows: how many it holds. full: more than `MOST` came, and it holds none any more.
    """

    rows: int = 0
    full: bool = False
    _parts: dict[tuple[int, str, str, float], list[tuple[int, int, list[pa.Table]]]] = field(default_factory=dict)

    def keep(self, stream: StreamDefinition, piece: Piece, wanted: Range, rows: list[pa.Table]) -> None:
        """Hold the rows of a piece in a range, with all their columns and their weight."""
        self.rows += sum(t.num_rows for t in rows)
        if self.full or self.rows > MOST:
            self.forget()
            self.full = True
            return
        low, high = _stretch(wanted)
        self._parts.setdefault(_key(stream, piece), []).append((low, high, rows))

    def of(self, stream: StreamDefinition, piece: Piece, wanted: Range) -> list[pa.Table] | None:
        """The rows of a piece in a range; None where not all of them are held."""
        low, high = _stretch(wanted)
        first, last = max(low, piece.segment.low), min(high, piece.segment.high + 1)
        found: list[pa.Table] = []
        parts, reached = sorted(self._parts.get(_key(stream, piece), []), key=lambda p: p[:2]), first
        for begin, end, rows in parts:
            if begin < low or end > high or begin > reached:
                return None
            found += rows
            reached = max(reached, end)
        return found if parts and reached >= last else None

    def forget(self) -> None:
        """Hold nothing any more."""
        self.rows = 0
        self._parts.clear()


def _key(stream: StreamDefinition, piece: Piece) -> tuple[int, str, str, float]:
    return stream.id, piece.copy, piece.segment.path, piece.kept


def _stretch(wanted: Range) -> tuple[int, int]:
    return START if wanted.low is None else wanted.low, END if wanted.high is None else wanted.high
