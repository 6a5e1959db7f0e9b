"""Which windows have an answer: sorted arrays against the definition, `windows.ids`, whatever the gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from millpond.types import DAY, TimeWindow
from millpond.windows import Panes, Rows, end_of, extent, late_pairs, wids
from millpond.windows.candidates import fold
from millpond.windows.pane_layout import panes_of

CENTURY = 36_525 * DAY


@st.composite
def cuts(draw: st.DrawFn) -> tuple[TimeWindow, int]:
    """A window and a divisor: panes may be finer than the window needs, as those of a shared synopsis are."""
    unit = draw(st.sampled_from([1, 7, 1_000_000]))
    size, slide = draw(st.integers(1, 12)), draw(st.integers(1, 15))
    finer = draw(st.sampled_from([1, 1, 2, 3]))
    origin = draw(st.integers(-20, 20)) * unit * finer + draw(st.sampled_from([0, 0, 1]))
    return TimeWindow(size * unit * finer, slide * unit * finer, origin), finer


TIMES = st.builds(
    lambda base, offset: base + offset,
    st.sampled_from([0, 0, 0, -20, 5 * CENTURY, -7 * CENTURY]),
    st.integers(-60_000_000, 60_000_000) | st.integers(-60, 60),
)


@given(cuts(), st.lists(st.tuples(st.integers(0, 2), TIMES), max_size=12), st.data())
def test_ends_are_those_of_the_definition(
    cut: tuple[TimeWindow, int], tuples: list[tuple[int, int]], data: st.DataObject
) -> None:
    window, finer = cut
    coarse = panes_of(window)
    panes = Panes(coarse.width // finer if coarse.width % finer == 0 else coarse.width, 0)
    panes = Panes(panes.width, window.origin % panes.width)
    assert panes.serves(window)
    rows = sorted({(group, panes.pane(t)) for group, t in tuples})
    group, pane = np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows], np.int64)
    all_ends = sorted({end_of(window, w) for _, t in tuples for w in wids(window, t)})
    limits = [*all_ends, *(t for _, t in tuples), 0]
    bounds = sorted(data.draw(st.sampled_from(limits)) + data.draw(st.integers(-3, 3)) for _ in range(2))
    after, until = panes.pane(bounds[0]), panes.pane(bounds[1])
    low, high = panes.start(after), panes.start(until)
    expected = {(g, end_of(window, w)) for g, t in tuples for w in wids(window, t) if low < end_of(window, w) <= high}
    found = Rows.sort(group, pane)[0].ends(panes.shape(window), after, until)
    pairs = [(int(g), panes.start(int(e))) for g, e in zip(*found, strict=True)]
    assert len(pairs) == len(set(pairs)), "no window twice"
    assert set(pairs) == expected
    late = late_pairs(group, pane, panes.shape(window), after, until)
    assert {(int(g), panes.start(int(e))) for g, e in zip(*late, strict=True)} == expected


@given(cuts(), st.lists(st.tuples(st.integers(0, 2), TIMES), min_size=1, max_size=12))
def test_runs_hold_exactly_the_panes_of_the_window(cut: tuple[TimeWindow, int], tuples: list[tuple[int, int]]) -> None:
    window, _ = cut
    panes = panes_of(window)
    shape = panes.shape(window)
    drawn = sorted({(group, panes.pane(t)) for group, t in tuples})
    rows, _ = Rows.sort(np.array([r[0] for r in drawn], np.int64), np.array([r[1] for r in drawn], np.int64))
    group, end = rows.ends(shape, -(2**60), 2**60)
    low, high = rows.runs(group, end, shape[0])
    for g, e, first, last in zip(group, end, low, high, strict=True):
        start, stop = extent(window, (panes.start(int(e)) - window.origin) // window.slide - 1)
        inside = [p for k, p in drawn if k == g and start <= panes.start(p) < stop]
        assert [int(p) for p in rows.pane[first:last]] == inside and inside
        assert set(rows.group[first:last]) == {g}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 20)), max_size=10, unique=True), st.integers(1, 9))
def test_a_longer_reach_reports_windows_that_are_empty(drawn: list[tuple[int, int]], reach: int) -> None:
    """`empty='report'`: the groups seen in the last `reach` panes before an end."""
    rows, _ = Rows.sort(np.array([g for g, _ in drawn], np.int64), np.array([p for _, p in drawn], np.int64))
    found = rows.ends((2, 3, 1), -50, 50, reach)
    expected = {(g, e) for g in range(4) for e in range(-49, 51) if (e - 1) % 3 == 0
                for p in [p for k, p in drawn if k == g] if e - reach <= p < e}  # fmt: skip
    assert {(int(g), int(e)) for g, e in zip(*found, strict=True)} == expected


def test_empty_stretches_cost_nothing() -> None:
    """One row in 1970 and one in 2026 under a slide of a microsecond, and a range of ten: twenty windows."""
    window = TimeWindow(10, 1)
    rows, _ = Rows.sort(np.zeros(2, np.int64), np.array([0, 56 * 365 * DAY], np.int64))
    _, ends = rows.ends(panes_of(window).shape(window), -(2**60), 2**60)
    assert len(ends) == 20  # it would not end if every slide between were looked at


@given(
    st.lists(st.integers(-9, 9), max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=20),
)
@example(list(range(33)), [(0, 33), (1, 33), (5, 5)])
def test_fold_combines_runs_in_order(values: list[int], runs: list[tuple[int, int]]) -> None:
    """With an operation that does not commute: the composition of affine maps."""
    a, b = np.array(values, np.int64) % 5, np.array(values, np.int64)
    runs = [(min(r), min(max(r), len(values))) for r in runs if min(r) <= len(values)]
    low, high = np.array([r[0] for r in runs], np.int64), np.array([r[1] for r in runs], np.int64)

    def compose(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        return (left[0] * right[0]) % 1009, (left[1] * right[0] + right[1]) % 1009

    found = fold((a, b), low, high, compose, (1, 0))
    for (first, last), x, y in zip(runs, *found, strict=True):
        total = (1, 0)
        for i in range(first, last):
            total = compose(total, (int(a[i]), int(b[i])))
        assert (int(x) % 1009, int(y) % 1009) == total


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-(2**60), 2**60)), max_size=20, unique=True))
def test_sort_sorts(drawn: list[tuple[int, int]]) -> None:
    group, pane = np.array([g for g, _ in drawn], np.int64), np.array([p for _, p in drawn], np.int64)
    rows, order = Rows.sort(group, pane)
    assert list(zip(rows.group.tolist(), rows.pane.tolist(), strict=True)) == sorted(drawn)
    assert group[order].tolist() == rows.group.tolist()
