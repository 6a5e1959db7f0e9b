"""Sessions as runs of sorted arrays, against the same one row at a time; and which of them retention has cut."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millpond.operators.windowed.coverage import with_coverage
from millpond.types import SessionWindow
from millpond.windows.session_runs import sessions, sessions_of

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 30), st.integers(0, 9)), max_size=25)


@given(ROWS, st.sampled_from([None, 1, 3, 10]))
def test_runs_of_arrays_are_those_of_single_rows(rows: list[tuple[int, int, int]], longest: int | None) -> None:
    partition, time, gap = (np.array([row[n] for row in rows], np.int64) for n in range(3))
    found = sessions_of(partition, time, time + gap, longest)
    expected = [(p, *each) for p in range(3) for each in sessions([(t, t + g) for q, t, g in rows if q == p], longest)]
    counts = np.bincount(found.of_row, minlength=len(found)) if len(found) else []
    owners = {int(n): int(p) for n, p in zip(found.of_row, partition, strict=True)}
    got = [
        (owners[n], int(start), int(end), int(count))
        for n, (start, end, count) in enumerate(zip(found.start, found.end, counts, strict=True))
    ]
    assert got == expected


def test_a_session_that_a_removed_row_may_have_reached_is_cut() -> None:
    """Rows before the minute 20 are gone; one of minute 19 reaches to 29."""
    at = [dt.datetime(2026, 1, 1, 0, minute) for minute in (25, 29, 30, 40, 50)]
    answers = pa.table({"window_start": [at[0], at[1], at[2]], "window_end": [at[3], at[3], at[4]]})
    removed = dt.datetime(2026, 1, 1, 0, 20)
    micros = int(removed.replace(tzinfo=dt.UTC).timestamp()) * 1_000_000
    found = with_coverage(answers, micros, SessionWindow(10 * 60_000_000))
    assert found["covered_from"].to_pylist() == [removed, removed, None]
