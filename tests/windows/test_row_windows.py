"""The functions that define windows of rows, their duality, and the kernel that works on whole arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millpond.types import CountWindow, Key, RowWindow, SpanWindow
from millpond.types.sql_expressions import parsed
from millpond.windows import row_runs
from millpond.windows.row_windows import StreamRow, extent, numbers, wids, windows
from tests.oracle.bins import Bins

PARTITION = (Key("k0", parsed('"k"').typed("BIGINT")),)


@st.composite
def row_windows(draw: st.DrawFn) -> RowWindow:
    partition = PARTITION if draw(st.booleans()) else ()
    numbered = draw(st.sampled_from(["rank", "arrival"]))
    slide = draw(st.integers(1, 4))
    if draw(st.booleans()):
        return CountWindow(rows=draw(st.integers(1, 5)), slide=slide, partition=partition, numbered=numbered)
    return SpanWindow(range=draw(st.integers(1, 12)), slide=slide, partition=partition, numbered=numbered)


@st.composite
def stream_rows(draw: st.DrawFn, window: RowWindow) -> list[StreamRow]:
    drawn = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=20))
    return [StreamRow(t, i, p if window.partition else None) for i, (t, p) in enumerate(drawn)]


@given(st.data())
def test_duality(data: st.DataObject) -> None:
    window = data.draw(row_windows())
    rows = data.draw(stream_rows(window))
    every = windows(window, rows)
    held = {wid: set(extent(window, wid, rows)) for wid in every}
    for row in rows:
        of_row = set(wids(window, row, rows))
        assert of_row == {wid for wid in every if row in held[wid]}


@given(st.data())
def test_the_kernel_is_the_definition(data: st.DataObject) -> None:
    window = data.draw(row_windows())
    rows = data.draw(stream_rows(window))
    since, before = sorted(data.draw(st.tuples(st.integers(0, 22), st.integers(0, 22))))
    number = numbers(window, rows)
    by_time = window.numbered == "rank" or isinstance(window, SpanWindow)
    ordered = sorted(rows, key=lambda r: (r.partition or 0, r.time, r.id) if by_time else (r.partition or 0, r.id))
    partition, time, counted = (
        np.array(list(x), np.int64)
        for x in ((r.partition or 0 for r in ordered), (r.time for r in ordered), (number[r] for r in ordered))
    )
    if isinstance(window, CountWindow):
        runs = row_runs.runs_of_rows(partition, time, counted, window.rows, window.slide, since, before)
    else:
        all_of_them = np.ones(len(rows), bool)
        runs = row_runs.runs_of_range(partition, time, counted, all_of_them, window.range, window.slide, since, before)
    got = {
        (int(partition[low]) if window.partition else None, int(end), int(n)): ordered[low:high]
        for end, n, low, high in zip(runs.end, runs.number, runs.low, runs.high, strict=True)
    }
    expected = {
        tuple(wid): sorted(extent(window, wid, rows), key=ordered.index)
        for wid in windows(window, rows)
        if since <= wid.end < before
    }
    assert got == expected
    assert bool(np.all(np.diff(runs.low) >= 0)) and bool(np.all(np.diff(runs.high) >= 0))
    passes = np.array([data.draw(st.booleans()) for _ in ordered], bool)
    seen = {
        (int(w), tuple(np.flatnonzero(passes)[low:high].tolist()))
        for w, low, high in zip(*row_runs.of_passing(runs, passes), strict=True)
    }
    assert seen == {
        (w, inside)
        for w in range(len(runs))
        if (inside := tuple(i for i in range(runs.low[w], runs.high[w]) if passes[i]))
    }
    groups = np.array([data.draw(st.integers(0, 2)) for _ in ordered], np.int64)
    at = np.flatnonzero(passes)
    order = np.lexsort((at, groups[at]))
    at = at[order]
    grouped = {
        (int(w), tuple(at[low:high].tolist()))
        for w, low, high in zip(*row_runs.of_groups(runs, at, groups[at], len(ordered)), strict=True)
    }
    assert grouped == {
        (w, inside)
        for w in range(len(runs))
        for g in range(3)
        if (inside := tuple(i for i in range(runs.low[w], runs.high[w]) if passes[i] and groups[i] == g))
    }


@given(st.lists(st.integers(-3, 3), max_size=30), st.integers(0, 3))
def test_sorting(values: list[int], scale: int) -> None:
    keys = np.array(values, np.int64) * 10 ** (2 * scale)
    other = np.arange(len(values))[::-1].copy()
    order = row_runs.sorted_by(keys, other)
    expected = np.lexsort((other, keys))
    assert np.array_equal(np.arange(len(keys)) if order is None else order, expected)


# --- the worked examples of Li's digest ---------------------------------------------------------------------------


def counting(size: int, **more: object) -> Bins:
    return Bins(size, 0, lambda state, value: state + 1, **more)  # type: ignore[arg-type]


def test_t7_the_bins_of_figure_6_5() -> None:
    bins = counting(10)
    states = []
    for time in (0, 3, 5, 12, 1):
        bins.insert(time)
        states.append((dict(bins.starts), {k: v for k, v in bins.ends.items() if k > 0}))
    assert states == [
        ({0: 1}, {10: 0}),
        ({0: 1, 3: 2}, {10: 1, 13: 0}),
        ({0: 1, 3: 2, 5: 3}, {10: 2, 13: 1, 15: 0}),
        ({0: 1, 3: 2, 5: 3, 12: 3}, {10: 2, 13: 2, 15: 1, 22: 0}),
        ({0: 1, 1: 2, 3: 3, 5: 4, 12: 3}, {10: 3, 11: 2, 13: 2, 15: 1, 22: 0}),
    ]
    assert [(end, value) for end, _, value in bins.punctuate(3)] == [(0, 1), (1, 2)]
    assert bins.ends[float("-inf")] == 2 and set(bins.starts) == {3, 5, 12}
    # "future A > 3" in whole numbers: no smaller value than 4 is to come.
    assert [(end, value) for end, _, value in bins.punctuate(4)] == [(3, 3)]


def test_t8_a_tuple_at_the_end_of_an_extent() -> None:
    bins = counting(10)
    bins.insert(0)
    bins.insert(10)
    assert bins.punctuate(20) == [(0, 1, 1), (10, 2, 1)]


def test_t9_every_third_row() -> None:
    ranked, arrived = counting(10, slide=3), counting(10, slide=3, numbered="arrival")
    for bins in (ranked, arrived):
        for time in (1, 2, 3, 4, 5, 6):
            bins.insert(time)
        bins.insert(0)  # late: raises the ranks above it
    assert [(end, number) for end, number, _ in ranked.punctuate(100)] == [(2, 1), (5, 2)]
    assert [(end, number) for end, number, _ in arrived.punctuate(100)] == [(3, 1), (6, 2)]


@given(st.data())
def test_bins_are_the_definition(data: st.DataObject) -> None:
    size, slide = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 3))
    numbered = data.draw(st.sampled_from(["rank", "arrival"]))
    window = SpanWindow(range=size, slide=slide, numbered=numbered)
    times = data.draw(st.lists(st.integers(0, 25), max_size=20))
    rows = [StreamRow(t, i) for i, t in enumerate(times)]
    bins = Bins(size, -1, max, slide, numbered)
    got = []
    for place, row in enumerate(rows):
        bins.insert(row.time, row.id)
        following = min((r.time for r in rows[place + 1 :]), default=100)
        if data.draw(st.booleans()) and following > 0:
            got += bins.punctuate(min(following, data.draw(st.integers(0, 30))))
    got += bins.punctuate(1000)
    expected = [(w.end, w.number, max(r.id for r in extent(window, w, rows))) for w in windows(window, rows)]
    assert sorted(got) == expected
