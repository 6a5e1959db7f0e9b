"""Marks and the operators on them: worked examples (T16, T17, T21) and properties."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millpond.progress import NEVER, StreamProgress, absorb, lull_mark, summarise
from millpond.progress.delays import MEMORY, WARM, count, delays_of, edge, estimate, remember
from millpond.progress.marks import (
    Below,
    Bounds,
    Constant,
    Describe,
    Mark,
    Meld,
    group_wise,
    linear,
    project,
    roll_up,
)
from millpond.types import StreamOptions

MIDNIGHT = 0
S = 1_000_000


def test_t16_meld() -> None:
    meld, _ = Meld.of(2, nothing=NEVER).take(0, linear(20))
    meld, out = meld.take(1, linear(19))
    assert [m.bound() for m in out] == [19]
    given_out = []
    for bound in (20, 21, 22):
        meld, out = meld.take(1, linear(bound))
        given_out += [m.bound() for m in out]
    assert given_out == [20]  # exactly one; a naive union prints 20 three times
    meld, out = meld.take(0, linear(21))
    assert [m.bound() for m in out] == [21]


def test_a_silent_input_does_not_hold_a_union_up() -> None:
    meld, out = Meld.of(2, nothing=NEVER).take(0, linear(20))
    assert out == ()
    meld, out = meld.sleep(1)
    assert [m.bound() for m in out] == [20]
    meld, out = meld.take(1, linear(5))  # it speaks again: what was announced stays
    assert out == ()
    meld, out = meld.take(0, linear(30))
    assert out == ()
    meld, out = meld.take(1, linear(25))
    assert [m.bound() for m in out] == [25]


def test_t16_meld_per_group() -> None:
    meld, out = Meld.of(2, nothing=NEVER).take(0, group_wise({"k": "a"}, 50))
    assert out == ()
    meld, out = meld.take(1, linear(30))
    assert out == (group_wise({"k": "a"}, 30),)
    meld, out = meld.take(0, linear(10))
    assert out == (linear(10),)


def test_t17_select_punctuation() -> None:
    """The stream of Fig 2-1: p3 ends the day for all; p1 all of one address; p2 one address until midnight."""
    rows = [
        {"srcIP": "202.3.12.4", "ts": MIDNIGHT - 37 * S},
        {"srcIP": "10.0.0.7", "ts": MIDNIGHT - 120 * S},
        {"srcIP": "10.0.0.7", "ts": MIDNIGHT - 7 * S},
        {"srcIP": "202.3.12.4", "ts": MIDNIGHT - 5 * S},
    ]
    after = [{"srcIP": "10.0.0.7", "ts": MIDNIGHT + 23 * S}, {"srcIP": "10.0.0.7", "ts": MIDNIGHT + 53 * S}]
    p3 = linear(MIDNIGHT)
    assert all(p3.matches(r) for r in rows) and not any(p3.matches(r) for r in after)
    assert all(p3.covers({"srcIP": r["srcIP"]}, MIDNIGHT) for r in rows)
    assert not p3.covers({}, MIDNIGHT + 60 * S)
    p1 = Mark({"srcIP": Constant("202.3.12.4")})
    assert p1.covers({"srcIP": "202.3.12.4"}, MIDNIGHT + 10**12)
    assert not p1.covers({"srcIP": "10.0.0.7"}, MIDNIGHT) and not p1.covers({}, MIDNIGHT)
    p2 = group_wise({"srcIP": "202.3.12.4"}, MIDNIGHT)
    assert p2.covers({"srcIP": "202.3.12.4"}, MIDNIGHT) and not p2.covers({"srcIP": "202.3.12.4"}, MIDNIGHT + 1)
    assert p2.matches(rows[0]) and not p2.matches(rows[1]) and not p2.matches({"srcIP": "202.3.12.4", "ts": MIDNIGHT})


def test_t21_timer_in_a_lull() -> None:
    assert lull_mark(data_time=100, system_time=130, lull=10) == 120
    options = StreamOptions(time="ts", timer=1, lull=10)
    state = absorb(StreamProgress(), options, [summarise(np.array([100]), options, "", None)], clock=100)
    assert state.bound == 100
    assert absorb(state, options, (), clock=110).bound == 100  # not behind by more than the threshold yet
    late = absorb(state, options, (), clock=130)
    assert late.bound == 120
    assert absorb(late, options, (), clock=131).bound == 121


def test_timer_holds_what_comes_between_its_ticks() -> None:
    options = StreamOptions(time="ts", timer=10)
    state = absorb(StreamProgress(), options, [summarise(np.array([100]), options, "", None)], clock=0)
    state = absorb(state, options, [summarise(np.array([200]), options, "", None)], clock=9)
    assert (state.bound, state.high) == (100, 200)
    assert absorb(state, options, (), clock=10).bound == 200


def test_steps() -> None:
    options = StreamOptions(time="ts", step=60)
    state, bounds = StreamProgress(), []
    for t in (59, 60, 119, 125, 130, 300):
        state = absorb(state, options, [summarise(np.array([t]), options, "", None)], clock=0)
        bounds.append(state.bound)
    assert bounds == [0, 60, 60, 120, 120, 300]


def test_estimated_lateness() -> None:
    options = StreamOptions(time="ts", lateness_share=0.5)
    state = absorb(StreamProgress(), options, [summarise(np.arange(WARM - 1), options, "", None)], clock=0)
    assert state.bound == NEVER  # too little has been seen to promise anything
    state = absorb(state, options, [summarise(np.array([1000]), options, "", None, high=WARM - 2)], clock=0)
    assert state.bound == 1000
    everything = StreamOptions(time="ts", lateness_share=1.0)
    times = np.concatenate([np.arange(0, 1000), np.array([600])])
    state = absorb(StreamProgress(), everything, [summarise(times, everything, "", None)], clock=0)
    assert 999 - 399 * 1.1 - 2 <= state.bound <= 600


def test_old_delays_fade() -> None:
    counts = remember({}, count(np.array([10**6])))
    for _ in range(3):
        counts = remember(counts, ((0, MEMORY),))
    assert estimate(counts, 1.0) == 0


@given(st.lists(st.integers(0, 10_000), min_size=WARM, max_size=2 * WARM), st.floats(0.01, 1.0))
def test_an_estimate_is_a_quantile_rounded_up_by_a_tenth(times: list[int], share: float) -> None:
    before, delays = -1, []
    for t in times:
        delays.append(max(0, before - t))
        before = max(before, t)
    assert delays_of(np.array(times), -1).tolist() == delays
    found = estimate(remember({}, count(np.array(delays))), share)
    exact = sorted(delays)[max(0, int(np.ceil(share * len(delays) - 1e-9)) - 1)]
    assert found is not None
    assert exact <= found <= exact * 1.1 + 2


def test_projection() -> None:
    mark = group_wise({"srcIP": "a"}, 60)
    assert project(mark, {"ts": "t", "srcIP": "ip"}) == Mark({"t": Below(60), "ip": Constant("a")})
    assert project(mark, {"ts": "ts", "len": "len"}) is None  # the group is not told apart any more
    assert project(linear(60), {"len": "len"}) is None  # the output has no progressing attribute


marks = st.one_of(
    st.integers(0, 50).map(linear),
    st.tuples(st.sampled_from("ab"), st.integers(0, 50)).map(lambda p: group_wise({"k": p[0]}, p[1])),
)


@given(st.lists(st.tuples(st.integers(0, 2), st.one_of(marks, st.none())), max_size=30))
def test_meld_is_the_minimum_over_those_awake(events: list[tuple[int, Mark | None]]) -> None:
    """Whatever was announced was then the minimum; nothing twice; nothing goes back."""
    meld = Meld.of(3, nothing=-1)
    seen: list[Bounds] = [Bounds(-1)] * 3
    idle: set[int] = set()
    best: dict[str | None, int] = {None: -1, "a": -1, "b": -1}
    for source, mark in events:
        if mark is None:
            idle.add(source)
            meld, out = meld.sleep(source)
        else:
            idle.discard(source)
            seen[source] = seen[source].take(mark)
            meld, out = meld.take(source, mark)
        awake = [b for i, b in enumerate(seen) if i not in idle]
        for m in out:
            group = dict(m.group()).get("k")
            bound = m.bound()
            assert bound is not None and bound > best[group]  # type: ignore[index]  # names of the strategy
            best[group] = bound  # type: ignore[index]  # as above
        if awake:
            best[None] = max(best[None], min(b.linear for b in awake))
            for g in ("a", "b"):
                wanted = min(b.of((("k", g),)) for b in awake)
                best[g] = max(best[g], best[None], wanted)
                assert meld.announced.of((("k", g),)) == best[g]
            assert meld.announced.linear == best[None]


@given(st.lists(marks, max_size=20), st.integers(1, 20), st.integers(0, 5), st.booleans())
def test_describe_tells_a_consumer_all_it_needs_and_nothing_twice(
    said: list[Mark], step: int, origin: int, grouped: bool
) -> None:
    """A consumer whose windows end at origin + k·step closes the same windows with and without Describe."""
    describe = Describe(step, origin, frozenset({"k"}) if grouped else frozenset(), Bounds(-100))
    fine, coarse = Bounds(-100), Bounds(-100)
    for mark in said:
        if grouped or not mark.group():
            fine = fine.take(mark)
        describe, out = describe.take(mark)
        for m in out:
            after = coarse.take(m)
            assert after != coarse
            coarse = after
        for g in ("a", "b"):
            group = (("k", g),) if grouped else ()
            assert roll_up(coarse.of(group), step, origin) == roll_up(fine.of(group), step, origin)


@given(st.permutations([linear(9), linear(4), group_wise({"k": 1}, 7), group_wise({"k": 1}, 12)]))
def test_marks_may_come_in_any_order(said: list[Mark]) -> None:
    bounds = Bounds(0)
    for mark in said:
        bounds = bounds.take(mark)
    assert bounds == Bounds(9, {(("k", 1),): 12})


def test_groups_are_bounded() -> None:
    bounds = Bounds(0, limit=1).take(group_wise({"k": 1}, 5)).take(group_wise({"k": 2}, 6))
    assert bounds.of((("k", 2),)) == 0  # not kept: later, never wrong
    assert bounds.take(linear(5)).take(group_wise({"k": 2}, 6)).of((("k", 2),)) == 6


def test_edges() -> None:
    for bucket in range(1, 400):
        inside = [d for d in range(edge(bucket - 1), edge(bucket)) if count(np.array([d]))[0][0] == bucket][:3]
        assert all(d <= edge(bucket) for d in inside)
        if edge(bucket) > 5000:
            break
