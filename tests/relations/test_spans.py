"""When rows leave a window of rows, also where late rows become visible out of order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millpond.progress import FOREVER, NEVER
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


@given(
    st.lists(
        st.tuples(st.integers(-5, 20), st.one_of(st.none(), st.integers(-5, 20), st.just(NEVER))),
        min_size=1,
        max_size=9,
    ),
    st.one_of(st.integers(0, 9), st.sampled_from([FOREVER, FOR_EVER])),
)
def test_a_late_row_is_seen_so_long_before_what_it_was_behind(rows: list[tuple[int, int | None]], spare: int) -> None:
    """However far back: what is behind nothing yet, or may revise for ever, is seen at its own time."""
    times = np.array([t for t, _ in rows], np.int64)
    cuts = [cut for _, cut in rows]
    seen = [t if cut is None else max(t, cut - spare) for t, cut in rows]
    table = pa.table(
        {
            "_t": pa.array(times), "_id": pa.array(np.arange(len(rows))), "_epoch": pa.array(np.arange(len(rows))),
            "_cut": pa.array(cuts, pa.int64()), "op": pa.array(["+"] * len(rows)),
        }
    )  # fmt: skip
    assert visible_from(table, times, spare).tolist() == seen
    for at, time in enumerate(seen):  # one that undoes it counts where it is seen at its own time
        pair = pa.concat_tables([table.slice(at, 1), table.slice(at, 1)])
        pair = pair.set_column(4, "op", pa.array(["+", "-"])).set_column(1, "_id", pa.array([0, 1]))
        assert left_of(connection(), pair, spare).num_rows == (time != times[at])
