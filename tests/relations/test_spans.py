"""When rows leave a window of rows, also where late rows become visible out of order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.progress import NEVER
from millpond.relations import UNLIMITED
from millpond.relations.spans import FOR_EVER, _pushed_out, left_of, visible_from
from millpond.synopses import connection


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=40), st.integers(1, 4))
def test_a_row_leaves_when_enough_later_rows_of_its_partition_are_visible(
    rows: list[tuple[int, int]], count: int
) -> None:
    visible, partition = (np.array([r[i] for r in rows], np.int64) for i in (0, 1))
    expected = []
    for at, (_, part) in enumerate(rows):
        later = sorted(seen for seen, other in rows[at + 1 :] if other == part)
        expected.append(later[count - 1] if len(later) >= count else FOR_EVER)
    assert _pushed_out(visible, partition, count).tolist() == expected


@pytest.mark.parametrize("cut", [NEVER, 0, FOR_EVER])
@pytest.mark.parametrize("spare", [0, 5, UNLIMITED])
def test_bounds_before_and_behind_all_times_do_not_wrap_around(cut: int, spare: int) -> None:
    """A late row is seen at its own time, or where answers are not final yet: `spare` before the bound."""
    rows = pa.table({
        "_t": pa.array([3, 3], pa.int64()), "_id": pa.array([0, 1], pa.int64()), "_epoch": pa.array([1, 2], pa.int64()),
        "_cut": pa.array([None, cut], pa.int64()), "op": ["+", "-"],
    })  # fmt: skip
    limit = cut - spare  # of Python, which has no largest number
    assert visible_from(rows, rows["_t"].to_numpy(), spare)[1] == max(3, limit)
    assert left_of(connection(), rows, spare).num_rows == (0 if limit <= 3 else 1)
