"""When rows leave a window of rows, also where late rows become visible out of order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millpond.relations.spans import FOR_EVER, _pushed_out


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
