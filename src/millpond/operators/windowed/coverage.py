"""Coverage: which windows retention has cut, and from which instant on their rows are all there."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.progress import NEVER
from millpond.tables.segments import Snapshot
from millpond.types import (
    COVERED,
    NUMBER,
    Column,
    EndedWindow,
)
from millpond.types.instants import moment

COVERAGE = Column(COVERED, "TIMESTAMP")


@dataclass(frozen=True)
class Coverage:
    """How far back a query's windows are filled.

    start: the event time from which on all rows are there (microseconds); NEVER: no row is known to be missing.
    until: windows that end before it lack something; NEVER: none does.
    closed: the query has answered the windows that end by then.
    """

    start: int
    until: int
    closed: int

    @property
    def complete(self) -> bool:
        """Whether every window still to come is whole."""
        return self.closed >= self.until

    def __str__(self) -> str:
        return "complete" if self.complete else f"partial until {moment(self.until)}"


def coverage_of(standing: Standing, covered: int, closed: int, archives: Sequence[Snapshot]) -> Coverage:
    """What a window query was filled with: history that retention had left, or all since the stream's first row.

    Args:
        covered: as of its operator. closed: how far it has answered.
        archives: of its streams, the files and the event time before which rows were removed.
    """
    lows = [s.low for segments, _ in archives for s in segments]
    start = covered
    if start <= NEVER and lows and all(removed is None for _, removed in archives):
        start = min(lows)
    reach = standing.definition.query.partial_for
    return Coverage(start, start + reach if start > NEVER and reach else NEVER, closed)


def without_missed(answers: pa.Table, missed: Sequence[tuple[int, int]]) -> pa.Table:
    """Answers with `covered_from` where windows that end in stretches low <= t < high lack late rows: their end."""
    if not missed:
        return answers
    place, ends = answers.column_names.index(COVERED), answers["window_end"].cast(pa.timestamp("us"))
    end = ends.cast(pa.int64())
    lacking = [pc.and_(pc.greater_equal(end, low), pc.less(end, high)) for low, high in missed]
    some = functools.reduce(pc.or_, lacking)
    return answers.set_column(place, COVERED, pc.if_else(some, ends, answers[COVERED]))


def with_coverage(answers: pa.Table, removed: int | None, window: EndedWindow) -> pa.Table:
    """Answers of windows with a further column `covered_from`: NULL for a window that is whole.

    Arguments:
        removed: rows with an event time before it (microseconds) were removed when the windows were computed; None or
            NEVER: none were.
        window: what they are windows of.

    A window that starts before `removed` may lack rows; from `covered_from`, the smaller of `removed` and the window's
    end, to its end it has them all.

        >>> import datetime as dt
        >>> from millpond.types import DAY, TimeWindow
        >>> day = [dt.datetime(2026, 1, d) for d in (1, 2, 3)]
        >>> table = pa.table({"window_start": day[:2], "window_end": day[1:]})
        >>> with_coverage(table, 1_767_225_600_000_001, TimeWindow(DAY, DAY))["covered_from"].to_pylist()
        [datetime.datetime(2026, 1, 1, 0, 0, 0, 1), None]
    """
    kind = pa.timestamp("us")
    if removed is None or removed <= NEVER:
        return answers.append_column(COVERED, pa.nulls(answers.num_rows, kind))
    start, end = (answers[n].cast(kind).cast(pa.int64()) for n in ("window_start", "window_end"))
    limit = pa.scalar(removed, pa.int64())
    start = start.fill_null(NEVER)  # NULL: a window since the start of the stream
    cut = pc.less(pc.subtract(start, window.lead), limit)
    if window.first_whole and NUMBER.name in answers.column_names:
        cut = pc.less(answers[NUMBER.name], window.first_whole)
    covered = pc.if_else(cut, pc.min_element_wise(end, limit), pa.scalar(None, pa.int64()))
    return answers.append_column(COVERED, covered.cast(kind))
