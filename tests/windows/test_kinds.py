"""Every kind of window: extent() and wids() are inverse to each other; T6; landmarks against a calendar."""

from __future__ import annotations

import datetime as dt

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.types import DAY, HOUR, Landmark, LandmarkWindow, TimeWindow
from millpond.windows import Cover
from millpond.windows import landmark_windows as landmarks
from millpond.windows.kinds import Growing, Sliding, WindowKind, bucket, kind_of, mismatches
from millpond.windows.pane_layout import panes_of
from tests.oracle import Since
from tests.properties.landmarks import CHANGES, ZONES
from tests.windows.months import EPOCH, Months

S, M = 1_000_000, 60_000_000

lengths = st.integers(1, 1000)
near = st.integers(-3000, 3000)


@given(st.data())
def test_duality(data: st.DataObject) -> None:
    slide, origin = data.draw(lengths), data.draw(near)
    since = data.draw(st.none() | near)
    every = data.draw(st.none() | lengths) if since is not None else None
    kinds: list[WindowKind] = [
        Sliding(TimeWindow(data.draw(lengths), slide, origin)),
        Growing(LandmarkWindow(slide, Landmark(since, every), origin)),
    ]
    times = data.draw(st.lists(near, min_size=1, max_size=6))
    for kind in kinds:
        assert mismatches(kind, times, data.draw(near)) == []


@given(st.lists(st.integers(0, 20_000 * DAY), min_size=1, max_size=5), st.integers(0, 20_000 * DAY))
def test_duality_of_a_kind_from_outside(times: list[int], until: int) -> None:
    assert isinstance(Months(), WindowKind)
    assert mismatches(Months(), times, until) == []


def test_a_mismatch_is_found() -> None:
    class Ceiling(Sliding):
        def wids(self, time: int, until: int) -> range:  # the ceiling brackets that Li 2008 prints (E1)
            first = -(-time // self.window.slide)
            return range(first, first + self.window.range // self.window.slide)

    assert mismatches(Ceiling(TimeWindow(600, 60)), [5], 10_000)


def test_a_kind_from_outside_is_evaluated() -> None:
    def micros(*day: int) -> int:
        return (dt.datetime(*day) - EPOCH) // dt.timedelta(microseconds=1)  # type: ignore[arg-type]

    times = [micros(2024, 1, 14), micros(2024, 1, 15), micros(2024, 2, 1), micros(2024, 2, 20), micros(2024, 3, 1)]
    values = np.array([1, 2, 4, 8, 16])
    rows, wids = bucket(Months(), times, micros(2024, 4, 1))
    v = values[rows]
    found = duckdb.sql("SELECT w % 12 + 1, sum(v) FROM (SELECT unnest($w) AS w, unnest($v) AS v) GROUP BY w ORDER BY w",
                       params={"w": wids.tolist(), "v": v.tolist()}).fetchall()  # fmt: skip
    assert found == [(1, 3), (2, 14), (3, 24)]


def test_t6_landmark() -> None:
    kind = kind_of(LandmarkWindow(M, Landmark()))
    assert list(kind.wids(30 * S, 5 * M)) == [0, 1, 2, 3, 4]  # in every window w >= 0
    assert list(kind.wids(90 * S, 5 * M)) == [1, 2, 3, 4]  # in every window w >= 1
    _, wids = bucket(kind, [30 * S, 90 * S, 200 * S], 5 * M)
    counts = np.bincount(wids).tolist()
    assert counts == sorted(counts) == [1, 2, 2, 3, 3]  # count(w) is non-decreasing


def test_a_window_that_ends_at_a_landmark_belongs_to_the_stretch_before() -> None:
    window = LandmarkWindow(M, Landmark(2 * M, 3 * M))
    assert landmarks.extent(window, 1)[0] == -M and landmarks.extent(window, 2)[0] == 2 * M
    assert landmarks.wids(window, 2 * M - 1, 10 * M) == range(1, 2)
    assert landmarks.wids(window, 2 * M, 10 * M) == range(2, 5)


@pytest.mark.parametrize("zone", ZONES)
@given(st.data())
def test_days_of_a_zone(zone: str, data: st.DataObject) -> None:
    clock = data.draw(st.integers(0, DAY // S - 1)) * S
    landmark, since = Landmark(clock, DAY, zone), Since(daily_at=clock, zone=zone)
    times = np.array([data.draw(st.sampled_from(CHANGES)) + data.draw(st.integers(0, 4 * DAY)) for _ in range(4)])
    assert landmarks.last_before(landmark, times).tolist() == [since.before(int(t)) for t in times]
    after = landmarks.first_after(landmark, times)
    assert all(t < a and since.before(int(a)) <= t for t, a in zip(times.tolist(), after.tolist(), strict=True))


def test_clocks_that_are_set() -> None:
    def reading(text: str) -> int:
        return (dt.datetime.fromisoformat(text) - EPOCH) // dt.timedelta(microseconds=1)

    half_past_two = Landmark(2 * HOUR + HOUR // 2, DAY, "Europe/Berlin")
    noon = np.array([reading("2024-03-31 12:00"), reading("2024-10-27 12:00")])
    # 02:30 is left out on the one day, and is there twice on the other: 03:30 summer time, and the first of the two.
    assert landmarks.last_before(half_past_two, noon).tolist() == [
        reading("2024-03-31 01:30"), reading("2024-10-27 00:30")]  # fmt: skip


def test_all_offsets_of_today_divide_panes() -> None:
    from zoneinfo import ZoneInfo, available_timezones

    for name in sorted(available_timezones())[::7]:
        for year in range(1980, 2040, 3):
            for month in (1, 7):
                offset = dt.datetime(year, month, 2).replace(tzinfo=ZoneInfo(name)).utcoffset()
                assert offset is not None and offset % dt.timedelta(minutes=15) == dt.timedelta(0), name


@given(st.data())
def test_every_window_is_a_run_of_whole_panes(data: st.DataObject) -> None:
    since = data.draw(st.none() | near)
    every = data.draw(st.none() | lengths) if since is not None else None
    window = LandmarkWindow(data.draw(lengths), Landmark(since, every), data.draw(near))
    panes = panes_of(window)
    cover = Cover(panes, window)
    assert panes.serves(window)
    time = data.draw(near)
    wids = landmarks.wids(window, time, time + 5000)
    for wid in wids[:3]:
        start, end = landmarks.extent(window, wid)
        low = int(cover.starts(np.array([panes.pane(end)]))[0])
        assert panes.start(panes.pane(end)) == end
        assert low <= -(2**60) if since is None else panes.start(low) == start
        assert low <= panes.pane(time) < panes.pane(end) <= int(cover.lasts(np.array([panes.pane(time)]))[0])
