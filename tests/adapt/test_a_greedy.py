"""A-Greedy equals a tuple-at-a-time reference after every step, and keeps its guarantee."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millpond.adapt import AGreedy, OrderSettings, Profile, expected_cost, greedy_order
from millpond.adapt.matrix_view import MatrixView, counted
from tests.adapt.filters import some_bits
from tests.adapt.reference import Reference


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[tuple[list[int], list[int]]]]:
    n = draw(st.integers(2, 5))
    times = st.lists(st.sampled_from([1, 2, 4]), min_size=n, max_size=n)
    return n, draw(st.lists(st.tuples(some_bits(n), times), min_size=1, max_size=25))


@given(runs(), st.integers(1, 8), st.sampled_from([1.0, 0.75, 0.5]))
def test_it_equals_the_reference_after_every_tuple(
    run: tuple[int, list[tuple[list[int], list[int]]]], window: int, alpha: float
) -> None:
    n, tuples = run
    ours = AGreedy(range(n), OrderSettings(window=window, alpha=alpha))
    reference = Reference(list(range(n)), window, Fraction(alpha))
    for bits, times in tuples:
        ours.observe(Profile(np.array([bits], np.int8), np.array(times, float)))
        reference.take(bits, times)
        assert ours.times.tolist() == [float(t) for t in reference.times()]
        assert ours.order == tuple(reference.f)
        assert ours.view.counts.tolist() == reference.v == reference.scratch()
        assert reference.violated() is None
    ours.forget(len(tuples) // 2)
    assert ours.view.counts.tolist() == counted(ours.window.bits, ours.order).tolist()
    assert len(ours.window.bits) == min(len(tuples) // 2, window)


@given(runs(), st.integers(1, 8), st.randoms(use_true_random=False))
def test_a_view_is_the_same_whatever_the_batches(
    run: tuple[int, list[tuple[list[int], list[int]]]], window: int, random: np.random.Generator
) -> None:
    n, tuples = run
    bits = np.array([b for b, _ in tuples], np.int8)
    view = MatrixView(range(n))
    at = 0
    while at < len(bits):
        step = random.randint(1, 4)  # type: ignore[attr-defined]
        view.insert(bits[at : at + step])
        view.delete(bits[max(0, at - window) : max(0, min(at + step, len(bits)) - window)])
        at += step
        assert view.counts.tolist() == counted(bits[max(0, min(at, len(bits)) - window) : at], range(n)).tolist()


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=20),
            st.lists(st.integers(1, 9), min_size=n, max_size=n),
        )
    ),
    st.sampled_from([1.0, 0.9, 0.5]),
)
def test_the_cost_is_at_most_four_times_the_best(case: tuple[list[list[bool]], list[int]], alpha: float) -> None:
    drops, times = np.array(case[0]), np.array(case[1], float)
    best = min(expected_cost(drops, times, o) for o in itertools.permutations(range(len(times))))
    assert expected_cost(drops, times, greedy_order(drops, times)) <= 4 * best + 1e-9
    orderer = AGreedy(range(len(times)), OrderSettings(window=len(drops), alpha=alpha))
    orderer.observe(Profile(drops[drops.any(axis=1)].astype(np.int8), times))
    if drops.any():
        assert expected_cost(drops, times, orderer.order) <= 4 / alpha * best + 1e-9


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), min_size=2, max_size=4))
def test_the_order_of_independent_filters_is_the_best(filters: list[tuple[int, int]]) -> None:
    # Every combination of five outcomes a filter, so that drop rates of k / 5 are exactly independent.
    outcomes = np.array(list(itertools.product(range(5), repeat=len(filters))))
    drops = outcomes < np.array([k for k, _ in filters])
    times = np.array([t for _, t in filters], float)
    best = min(expected_cost(drops, times, o) for o in itertools.permutations(range(len(times))))
    assert expected_cost(drops, times, greedy_order(drops, times)) <= best + 1e-9
