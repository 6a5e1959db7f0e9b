"""AdaptWID against brute force: random disorder, many switches; the digest's numbers (T18)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from bench.adaptive import (
    Accumulator,
    AdaptiveState,
    Plan,
    Tuples,
    batch,
    goes_eager,
    limits,
    num_tuples,
    start,
    state_bytes,
    step,
)
from hypothesis import given
from hypothesis import strategies as st

from millpond.types import TimeWindow

ACCUMULATORS = (
    Accumulator("n", "add"),
    Accumulator("total", "add", 0),
    Accumulator("least", "minimum", 0),
    Accumulator("most", "maximum", 0),
)


def naive(window: TimeWindow, rows: list[tuple[int, int, int]]) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    """Every window of every group, by its extent."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for group, time, value in rows:
        for wid in range((time - window.origin) // window.slide, (time - window.origin + window.range) // window.slide):
            low = window.origin + (wid + 1) * window.slide - window.range
            assert low <= time < low + window.range
            found[wid, group].append(value)
    return {k: (len(v), sum(v), min(v), max(v)) for k, v in found.items()}


@st.composite
def runs(draw: st.DrawFn) -> tuple[TimeWindow, list[tuple[Tuples, int]], list[tuple[int, int, int]]]:
    """A window, batches with valid punctuations behind them, and all tuples."""
    window = TimeWindow(draw(st.integers(1, 12)), draw(st.integers(1, 6)), draw(st.integers(-3, 3)))
    rows: list[tuple[int, int, int]] = []
    steps, bound = [], draw(st.integers(-20, 0))
    for _ in range(draw(st.integers(1, 25))):
        new = draw(
            st.lists(st.tuples(st.integers(0, 3), st.integers(bound, bound + 20), st.integers(-9, 9)), max_size=12)
        )
        rows += new
        bound += draw(st.integers(0, 8))
        columns = list(zip(*new, strict=True)) or [(), (), ()]
        steps.append((batch(columns[0], columns[1], np.asarray(columns[2], np.int32)), bound))
    return window, steps, rows


def run(
    plan: Plan, steps: list[tuple[Tuples, int]]
) -> tuple[dict[tuple[int, int], tuple[int, ...]], AdaptiveState, int]:
    state, answers, switches = start(plan), {}, 0
    for tuples, bound in [*steps, (None, 10**6)]:
        state, closed, changed = step(plan, state, tuples, bound)
        switches += len(changed.to_eager) + len(changed.to_lazy)
        for at in range(len(closed.wid)):
            key = (int(closed.wid[at]), int(closed.group[at]))
            assert key not in answers
            answers[key] = tuple(int(v[at]) for v in closed.values)
    return answers, state, switches


@given(runs(), st.integers(1, 30), st.floats(0, 1))
def test_every_mode_is_exact(
    drawn: tuple[TimeWindow, list[tuple[Tuples, int]], list[tuple[int, int, int]]], aggr: int, gap: float
) -> None:
    window, steps, rows = drawn
    expected = naive(window, rows)
    for mode in ("eager", "lazy", "adaptive"):
        answers, state, _ = run(Plan(window, ACCUMULATORS, ("int32",), mode, gap, aggr, 10), steps)
        assert answers == expected, mode
        assert not len(state.buffer) and not len(state.partials) and not len(state.opened[0])


def test_exact_over_hundreds_of_switches() -> None:
    rng = np.random.default_rng(4)
    switches = 0
    for _ in range(40):
        window = TimeWindow(int(rng.integers(2, 15)), int(rng.integers(1, 5)))
        bound, steps, rows = 0, [], []
        for number in range(60):
            n = int(rng.integers(0, 12)) if number // 7 % 2 else int(rng.integers(0, 3))
            new = batch(rng.integers(0, 5, n), bound + rng.integers(0, 12, n), rng.integers(-9, 9, n).astype(np.int32))
            rows += list(zip(new.group.tolist(), new.time.tolist(), new.columns[0].tolist(), strict=True))
            bound += int(rng.integers(0, 4))
            steps.append((new, bound))
        answers, _, changed = run(Plan(window, ACCUMULATORS, ("int32",), "adaptive", 0.8, 12, 10), steps)
        assert answers == naive(window, rows)
        switches += changed
    assert switches > 500


def test_late_tuples_make_windows_that_an_eager_group_lacks() -> None:
    plan = Plan(TimeWindow(10, 5), (Accumulator("n", "add"),), mode="eager")
    state, _, _ = step(plan, start(plan), batch([1], [12]), 0)
    state, _, _ = step(plan, state, batch([1], [3]))  # its windows are 0 and 1, those of 12 were 2 and 3
    _, closed, _ = step(plan, state, punctuation=20)
    assert dict(zip(closed.wid.tolist(), closed.values[0].tolist(), strict=True)) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_too_late_tuples_change_nothing() -> None:
    plan = Plan(TimeWindow(10, 5), (Accumulator("n", "add"),))
    state, _, _ = step(plan, start(plan), batch([1], [12]), 20)
    after, closed, _ = step(plan, state, batch([1, 1], [3, 7]), 20)  # all windows of 3 and 7 end by 20
    assert not len(closed.wid) and state_bytes(plan, after) == state_bytes(plan, state)


@pytest.mark.parametrize(("span", "slide", "partials"), [(300, 60, 5), (60, 5, 12)])
def test_worked_example_t18(span: int, slide: int, partials: int) -> None:
    """Ordered input, a group with one tuple per RANGE: eager keeps RANGE/SLIDE partials, lazy one tuple."""
    held = {}
    for mode in ("eager", "lazy"):
        plan = Plan(TimeWindow(span, slide), (Accumulator("n", "add"),), mode=mode)
        state, most = start(plan), (0, 0)
        for time in range(0, 20 * span, span):
            state, _, _ = step(plan, state, punctuation=time)
            state, _, _ = step(plan, state, batch([1], [time]))
            most = max(most, (len(state.partials), len(state.buffer)))
        held[mode] = most
    assert held == {"eager": (partials, 0), "lazy": (0, 1)}


def test_groups_are_where_their_volume_puts_them() -> None:
    plan = Plan(TimeWindow(300, 60), (Accumulator("n", "add"),), aggr=40, tup=20)  # eager above 2 * wed / slide = 10
    many, one = np.ones(30, np.int64), np.array([2])
    state, _, changed = step(plan, start(plan), batch(np.concatenate([many, one]), np.arange(31)))
    assert changed.to_eager.tolist() == [1]
    assert state.counts() == {"eager": 1, "lazy": 1, "transition": 0}
    state, _, changed = step(plan, state, batch([1], [300]), 300)  # one tuple is left active
    assert changed.to_lazy.tolist() == [1]
    state, _, _ = step(plan, state, batch([1], [305]))
    assert state.counts() == {"eager": 0, "lazy": 0, "transition": 1} and len(state.buffer) == 1
    _, closed, _ = step(plan, state, punctuation=700)
    assert closed.values[0].tolist() == [2] * 5  # windows 5 to 9 hold both tuples, whichever form they had


def test_the_extent_of_a_window_is_measured() -> None:
    plan = Plan(TimeWindow(10, 10), (Accumulator("n", "add"),))
    state, _, _ = step(plan, start(plan), batch([1], [2]), 0)
    state, _, _ = step(plan, state, batch([1, 1], [3, 25]), 5)
    assert state.wed == 10
    state, _, _ = step(plan, state, punctuation=10)  # window 0: from its first tuple to the high watermark 25
    assert state.wed == 23
    state, _, _ = step(plan, state, batch([1], [31]), 30)
    assert state.wed == 10  # window 2 began and ended ahead of its time: never less than a SLIDE


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0, 9)), min_size=1, max_size=4),
    st.floats(10, 100), st.floats(1, 10), st.integers(1, 99), st.integers(1, 99),
)  # fmt: skip
def test_condition_is_the_cheaper_form(
    sources: list[tuple[float, float]], wed: float, slide: float, aggr: int, tup: int
) -> None:
    volumes = [v for v, _ in sources]
    offsets = [0.0, *(o for _, o in sources[1:])]
    lagging = sum(v * o for v, o in zip(volumes, offsets, strict=True))
    eager, lazy = aggr * wed / slide, tup * num_tuples(volumes, wed, offsets)
    if abs(eager - lazy) > 1e-6 * max(eager, lazy):
        assert goes_eager(sum(volumes) * wed, wed, slide, aggr, tup, lagging) == (lazy > eager)
        plan = Plan(TimeWindow(1, 1), (), aggr=aggr, tup=tup)
        upper, lower = limits(plan, 7)
        assert upper == pytest.approx(aggr * 7 / tup) and lower < upper
