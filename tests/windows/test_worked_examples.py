"""The worked examples of Li 2008 for windows, panes and progress, with the values given there (or derived by hand)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.progress import StreamProgress, absorb, summarise
from millpond.types import TimeWindow
from millpond.windows import extent, first_end_after, id_of_end, last_end_until, wids, windows
from millpond.windows.pane_layout import panes_of

S, M = 1_000_000, 60_000_000
Q5_1 = TimeWindow(range=10 * M, slide=M)


@pytest.mark.parametrize(
    ("wid", "start", "end"),
    [(0, 0, 1), (1, 0, 2), (8, 0, 9), (9, 0, 10), (10, 1, 11), (11, 2, 12), (12, 3, 13), (13, 4, 14), (14, 5, 15)],
)
def test_t1_window_table(wid: int, start: int, end: int) -> None:
    low, high = extent(Q5_1, wid)
    # The thesis's stream begins at 00:00, so its windows 0..8 are partial: their extents begin earlier, without data.
    assert (max(0, low), high) == (start * M, end * M)
    assert (low < 0) == (wid < 9)


def test_t1_closed_open() -> None:
    assert extent(Q5_1, 10) == (M, 11 * M)
    assert 10 in wids(Q5_1, M) and 10 not in wids(Q5_1, 11 * M) and 10 in wids(Q5_1, 11 * M - 1)


@pytest.mark.parametrize("start", [0, 10 * 3600 * S])
def test_t2_wids_of_a_tuple_at_five_seconds(start: int) -> None:
    window = TimeWindow(600 * S, 60 * S, origin=start)
    assert list(wids(window, start + 5 * S)) == list(range(10))


def test_t3_extent_is_fixed_under_any_arrival_order() -> None:
    ten = 10 * 3600 * S
    window = TimeWindow(10 * M, M, origin=ten)
    times = [ten + m * M for m in (5, 10, 15, 19, 20, 25)]
    for order in (times, times[::-1], times[3:] + times[:3]):
        wid = id_of_end(window, ten + 20 * M)
        assert sorted(t for t in order if wid in wids(window, t)) == [ten + m * M for m in (10, 15, 19)]
        assert windows(window, order) == windows(window, times)
    assert [extent(Q5_1, w) for w in (19, 20, 21)] == [(10 * M, 20 * M), (11 * M, 21 * M), (12 * M, 22 * M)]


def test_t4_punctuation_closes_window_10() -> None:
    noon = 12 * 3600 * S
    window = TimeWindow(10 * M, M, origin=noon)
    bound = noon + 11 * M
    assert wids(window, bound).start == 11  # the bucket's bound: no more tuples for windows below 11
    assert id_of_end(window, last_end_until(window, bound)) == 10  # the last window that is complete
    assert first_end_after(window, bound) == noon + 12 * M
    tagged = wids(window, noon + 10 * M + 30 * S)
    assert (tagged.start, tagged.stop) == (10, 20)  # ten groups are updated
    assert wids(window, noon + 10 * M) == wids(window, noon + 11 * M - 1) == tagged


def test_t10_panes() -> None:
    panes = panes_of(TimeWindow(range=9, slide=6))
    assert panes.width == 3
    per_window, per_slide, _ = panes.shape(TimeWindow(range=9, slide=6))
    assert (per_window, per_slide, per_window - per_slide) == (3, 2, 1)
    q6_2 = TimeWindow(4 * M, M)
    panes = panes_of(q6_2)
    assert (panes.width, panes.shape(q6_2)[0]) == (M, 4)

    def of(wid: int) -> list[int]:
        low, high = extent(q6_2, wid)
        return list(range(panes.pane(low), panes.pane(high - 1) + 1))

    # With panes named by their place, window w ends with pane w: w3 = p0..p3 here is the thesis's p3..p6 shifted by 3.
    assert of(6) == [3, 4, 5, 6] and of(7) == [4, 5, 6, 7]
    assert [w for w in range(20) if 5 in of(w)] == [5, 6, 7, 8]  # a pane serves four windows
    assert len(wids(q6_2, 5 * M)) == 4  # four updates per tuple without panes, one with


def test_t11_differential() -> None:
    window = TimeWindow(4 * M, M)
    panes = panes_of(window)
    times = np.random.default_rng(1).integers(0, 20 * M, 500)
    per_pane = {p: sum(1 for t in times if panes.pane(int(t)) == p) for p in range(20)}

    def count(wid: int) -> int:
        low, high = extent(window, wid)
        return int(((times >= low) & (times < high)).sum())

    for wid in range(5, 15):
        assert count(wid) == count(wid - 1) - per_pane[wid - 4] + per_pane[wid]


def test_t7_a_window_ends_at_each_tuple_and_a_punctuation_emits_those_before_it(
    inline_pond: Callable[..., Any],
) -> None:
    def at(second: int) -> dt.datetime:
        return dt.datetime(1970, 1, 1, 0, 0, second)

    pond = inline_pond()
    pond.sql("CREATE STREAM s (a TIMESTAMP, wm TIMESTAMP) WITH (event_time='a', marks='column:wm')")
    pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 SECONDS SLIDE 1 ROW]")
    for second in (0, 3, 5, 12):
        pond.ingest("s", [{"a": at(second), "wm": None}])
        pond.step()
    pond.ingest("s", [{"a": at(1), "wm": at(4)}])  # "future A > 3": none below 4, to the second
    pond.step()
    answers = "SELECT window_end, n FROM q ORDER BY window_end"
    assert pond.sql(answers).rows() == [(at(0), 1), (at(1), 2), (at(3), 3)]
    pond.drain(final=True)  # 10 s before 12 lies 2: the tuples at 3, 5, 12
    assert pond.sql(answers).rows() == [(at(0), 1), (at(1), 2), (at(3), 3), (at(5), 4), (at(12), 3)]


def test_t18_open_windows_of_a_tuple() -> None:
    assert len(wids(TimeWindow(5 * M, M), 7 * M)) == 5  # eager: five partials for one tuple
    assert len(wids(TimeWindow(60 * M, 5 * M), 123 * M)) == 12


def test_t21_low_watermark_generators() -> None:
    from millpond.types import StreamOptions

    # (b) no tuple late by more than n tuples: the largest of those before the last n.
    options = StreamOptions(time="ts", lateness_rows=2)
    times = np.array([10, 30, 20, 25, 5], np.int64)
    bounds = []
    state = StreamProgress()
    for t in times:
        state = absorb(state, options, [summarise(np.array([t]), options, "", None)], clock=0)
        bounds.append(state.bound)
    assert bounds[:2] == [StreamProgress().bound] * 2
    assert bounds[2:] == [10, 30, 30]
    at_once = absorb(StreamProgress(), options, [summarise(times, options, "", None)], clock=0)
    assert at_once.bound == 30
    # (a) ordered: the bound is the latest tuple's.
    ordered = StreamOptions(time="ts")
    assert absorb(StreamProgress(), ordered, [summarise(times, ordered, "", None)], clock=0).bound == 30
    # (d) the timer in a lull is the arrival generator: a clock reading announces progress without data.
    arrival = StreamOptions()
    state = absorb(StreamProgress(), arrival, [summarise(np.array([100]), arrival, "", None)], clock=100)
    assert absorb(state, arrival, (), clock=120).bound == 120


lengths = st.integers(1, 10_000)
anywhere = st.integers(-(10**15), 10**15)


@given(lengths, lengths, anywhere, anywhere)
def test_duality(size: int, slide: int, origin: int, time: int) -> None:
    window = TimeWindow(size, slide, origin)
    found = wids(window, time)
    for wid in {*found[:3], *found[-3:]} | {found.start - 1, found.stop}:
        low, high = extent(window, wid)
        assert (low <= time < high) == (wid in found)


@given(lengths, lengths, anywhere, anywhere)
def test_ends(size: int, slide: int, origin: int, time: int) -> None:
    window = TimeWindow(size, slide, origin)
    after, until = first_end_after(window, time), last_end_until(window, time)
    assert until <= time < after and after - until == slide and (after - origin) % slide == 0


@given(lengths, lengths, anywhere, anywhere)
def test_every_window_is_a_run_of_whole_panes(size: int, slide: int, origin: int, time: int) -> None:
    window = TimeWindow(size, slide, origin)
    panes = panes_of(window)
    assert panes.width == gcd(size, slide) and panes.serves(window)
    for wid in wids(window, time)[:2]:
        low, high = extent(window, wid)
        assert panes.start(panes.pane(low)) == low and panes.start(panes.pane(high)) == high
        first, last = panes.pane(low), panes.pane(high - 1)
        assert last - first + 1 == panes.shape(window)[0]
    assert panes.start(panes.pane(time)) <= time < panes.start(panes.pane(time) + 1)


@given(lengths, lengths, anywhere, st.lists(st.integers(-(10**6), 10**6), max_size=8))
def test_pane_sql_is_pane(size: int, slide: int, origin: int, times: list[int]) -> None:
    import duckdb

    panes = panes_of(TimeWindow(size, slide, origin))
    for time in times:
        assert duckdb.sql(f"SELECT {panes.sql(f'({time}::BIGINT)')}").fetchall() == [(panes.pane(time),)]
