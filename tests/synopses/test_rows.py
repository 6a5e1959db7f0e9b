"""Rows as a synopsis: leaving out what no window needs changes no answer, and keeps state from growing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millpond.synopses import connection, finish_windows, partial, spec_of
from millpond.synopses.row_answers import fold_row_windows
from millpond.synopses.row_partials import RowsSpec, fold, together
from millpond.types import (
    Aggregate,
    Column,
    CountWindow,
    Key,
    Output,
    QueryOptions,
    RowWindow,
    RowWindowQuery,
    SpanWindow,
    StreamDefinition,
    StreamOptions,
)
from millpond.types.sql_expressions import parsed
from tests.oracle.bins import Bins

STREAM = StreamDefinition(
    "s", (Column("ts", "TIMESTAMP"), Column("k", "BIGINT"), Column("v", "BIGINT")), StreamOptions(time="ts"), 1
)
TOTAL = Aggregate("a0", "sum", (parsed('"v"').typed("BIGINT"),), type="HUGEINT")
COUNT = Aggregate("a1", "count_star")


def query_over(window: RowWindow, where: str = "") -> RowWindowQuery:
    select = tuple(Output(a.name, parsed(a.name).typed(a.type)) for a in (TOTAL, COUNT))
    keys = window.partition
    shown = (*(Output(k.name, parsed(k.name).typed(k.type)) for k in keys), *select)
    condition = parsed(where) if where else None
    return RowWindowQuery(
        stream="s",
        window=window,
        select=shown,
        where=condition,
        keys=keys,
        aggregates=(TOTAL, COUNT),
    )


def segment(rows: list[tuple[int, int]], first: int = 0) -> pa.Table:
    ids = np.arange(first, first + len(rows))
    return pa.table(
        {
            "ts": pa.array([t for t, _ in rows], pa.timestamp("us")),
            "k": pa.array([k for _, k in rows], pa.int64()),
            "v": pa.array(ids + 1, pa.int64()),
            "_id": pa.array(ids, pa.int64()),
        }
    )


def answers(spec: RowsSpec, query: RowWindowQuery, rows: pa.Table, since: int) -> list[tuple[Any, ...]]:
    folded = fold_row_windows(connection(), spec, query, rows, since, 2**62)
    if folded is None:
        return []
    found = finish_windows(connection(), query, "ts", folded)
    return sorted((repr(tuple(row.values())) for row in found.to_pylist()), key=repr)


@st.composite
def windows(draw: st.DrawFn) -> RowWindow:
    partition = (Key("k0", parsed('"k"').typed("BIGINT")),) if draw(st.booleans()) else ()
    numbered = draw(st.sampled_from(["rank", "arrival"]))
    slide = draw(st.integers(1, 3))
    if draw(st.booleans()):
        return CountWindow(draw(st.integers(1, 4)), slide, partition, numbered)
    return SpanWindow(draw(st.integers(1, 8)), slide, partition, numbered)


@given(st.data())
def test_folding_changes_no_answer(data: st.DataObject) -> None:
    query = query_over(data.draw(windows()), data.draw(st.sampled_from(["", '"v" % 3 > 0'])))
    spec = spec_of(query, STREAM, QueryOptions())
    db = connection()
    state: list[pa.Table] = []
    everything: list[pa.Table] = []
    since, first = 0, 0
    for _ in range(data.draw(st.integers(1, 5))):
        times = data.draw(st.lists(st.tuples(st.integers(since, since + 12), st.integers(0, 1)), max_size=8))
        rows = partial(db, spec, segment(times, first))
        first += len(times)
        state.append(rows)
        everything.append(rows)
        since += data.draw(st.integers(0, 8))
        # As state files are: some of the tables are put together and folded, others stay as they are.
        cut = data.draw(st.integers(0, len(state)))
        state = [*state[:cut], fold(db, spec, together(state[cut:]), since)]
        assert answers(spec, query, together(state), since) == answers(spec, query, together(everything), since)


def test_what_is_kept_does_not_grow() -> None:
    window = CountWindow(10, 1, (Key("k0", parsed('"k"').typed("BIGINT")),))
    query = query_over(window)
    spec = spec_of(query, STREAM, QueryOptions())
    db, state = connection(), pa.table({})
    for at in range(20):
        rows = partial(db, spec, segment([(at * 100 + i, i % 3) for i in range(100)], at * 100))
        state = fold(db, spec, together([state, rows]), (at + 1) * 100)
        assert state.num_rows == 3 * (10 + 1)
    assert -sum(n for n in state["n"].to_pylist() if n < 0) == 20 * 100 - 3 * 10


@given(st.data())
def test_the_engine_is_lis_bins(data: st.DataObject) -> None:
    """Slide by tuple in any order of arrival: the kernel, and the bins of Fig 6-5 to 6-7 with E4 and E5."""
    size, slide = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 3))
    numbered = data.draw(st.sampled_from(["rank", "arrival"]))
    times = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=20))
    window = SpanWindow(size, slide, (), numbered)
    query = query_over(window)
    spec = spec_of(query, STREAM, QueryOptions())
    rows = partial(connection(), spec, segment([(t, 0) for t in times]))
    folded = fold_row_windows(connection(), spec, query, rows, -(2**62), 2**62)
    bins = Bins(size, 0, lambda total, value: total + value, slide, numbered)
    for place, time in enumerate(times):
        bins.insert(time, place + 1)
    expected = bins.punctuate(1000)
    if folded is None:
        assert expected == []
        return
    found = finish_windows(connection(), query, "ts", folded)
    ends = found["window_end"].cast(pa.int64()).to_pylist()
    got = zip(ends, found["window_number"].to_pylist(), map(int, found["a0"].to_pylist()), strict=True)
    assert sorted(got) == expected
