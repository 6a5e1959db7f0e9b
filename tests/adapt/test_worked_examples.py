"""The worked examples of chapter 4 of Babu's thesis, with their values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from millpond.adapt import (
    AGreedy,
    Independent,
    LocalSwaps,
    MatrixView,
    OrderSettings,
    Profile,
    expected_cost,
    greedy_order,
)
from tests.adapt.filters import INPUT, TABLES, bits_of, probes, step

ONES = np.ones(4)
WINDOW = np.array([bits_of(TABLES, s) for s in (2, 4, 7, 2, 5, 4)], np.int8)
F1, F2, F3, F4 = range(4)


@pytest.mark.parametrize(
    ("order", "count"), [((F1, F2, F3, F4), 20), ((F3, F2, F4, F1), 18), ((F3, F1, F2, F4), 16), ((F3, F1, F4, F2), 16)]
)
def test_hash_probes_of_example_4_2_1(order: tuple[int, ...], count: int) -> None:
    assert probes(TABLES, INPUT, order) == count


def test_sixteen_probes_are_the_best_and_twenty_two_the_worst() -> None:
    counts = [probes(TABLES, INPUT, o) for o in itertools.permutations(range(4))]
    assert (min(counts), max(counts)) == (16, 22)


def test_profile_window_of_example_4_3_1() -> None:
    assert ["".join(map(str, b)) for b in WINDOW] == ["0010", "0111", "1000", "0010", "1101", "0111"]


def test_matrix_view_of_example_4_3_2() -> None:
    view = MatrixView((F3, F1, F2, F4))
    for bits in WINDOW:
        view.insert(bits[None])
    assert view.counts.tolist() == [[4, 2, 3, 3], [0, 2, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert view.violation(ONES, 1.0) is None
    again = MatrixView((F3, F1, F2, F4))
    again.insert(WINDOW)
    assert again.counts.tolist() == view.counts.tolist()


@pytest.mark.parametrize("alpha", [1.0, 0.9])
def test_violation_of_example_4_3_3(alpha: float) -> None:
    orderer = AGreedy((F3, F1, F2, F4), OrderSettings(window=6, alpha=alpha))
    assert orderer.observe(Profile(WINDOW)) is None
    assert not step(orderer, TABLES, 3)
    assert orderer.view.counts[:2].tolist() == [[4, 3, 3, 4], [0, 2, 1, 1]]
    assert step(orderer, TABLES, 6)
    assert orderer.order == (F4, F3, F1, F2)
    assert orderer.view.counts.tolist() == [[4, 3, 3, 3], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_what_the_view_says_before_the_violation_is_corrected() -> None:
    view = MatrixView((F3, F1, F2, F4))
    view.insert(np.array([bits_of(TABLES, s) for s in (7, 2, 5, 4, 3, 6)], np.int8))
    assert view.counts.tolist() == [[3, 3, 3, 4], [0, 2, 2, 2], [0, 0, 1, 1], [0, 0, 0, 0]]
    assert view.violation(ONES, 1.0) == 0


def test_the_full_run_changes_its_order_once_and_again_at_the_six() -> None:
    orderer = AGreedy((F1, F2, F3, F4), OrderSettings(window=6))
    changed = [step(orderer, TABLES, s) for s in INPUT]
    assert [i for i, c in enumerate(changed) if c] == [1]
    assert orderer.order == (F3, F1, F2, F4)
    assert [step(orderer, TABLES, s) for s in (3, 6)] == [False, True]
    assert orderer.order == (F4, F3, F1, F2)


def _joint(d: dict[int, set[int]]) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    return np.array([[s in d[f] for f in range(3)] for s in range(100)])


@pytest.mark.parametrize("times", [np.ones(3), np.array([1.0, 1.01, 1.02])])
def test_three_filters(times: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    # F3 drops more than F1: it goes first.
    assert greedy_order(_joint({0: set(range(10)), 1: set(), 2: set(range(30))}), times)[0] == 2
    # d2 > d3 > d1, independent: F2, F3, F1.
    independent = {
        0: {s for s in range(100) if s % 10 < 1},
        1: set(range(60)),
        2: {s for s in range(100) if s % 10 > 6},
    }
    assert greedy_order(_joint(independent), times) == (1, 2, 0)
    # F3 drops almost nothing that F2 let pass: F2, F1, F3.
    inside = {**independent, 2: set(range(31))}
    assert greedy_order(_joint(inside), times) == (1, 0, 2)
    # d2 and d3 collapse: F1, F2, F3.
    assert greedy_order(_joint({0: set(range(10)), 1: {50, 51}, 2: {60}}), times) == (0, 1, 2)


def _evaluations(drops: np.ndarray[tuple[int, int], np.dtype[np.bool_]], order: tuple[int, ...]) -> float:
    return expected_cost(drops, np.ones(drops.shape[1]), order)


@pytest.mark.parametrize("n", [3, 4, 8])
def test_independent_is_up_to_n_times_worse(n: int) -> None:
    tables = [*[set(range(1, 50)) for _ in range(n - 1)], set(range(50, 101))]
    drops = np.array([[s not in t for t in tables] for s in range(1, 101)])
    settings = OrderSettings(window=200, alpha=1.0)
    for start in (tuple(range(n)), (n - 1, *range(n - 1))):
        greedy, independent = AGreedy(start, settings), Independent(start, settings)
        for s in [*range(1, 101)] * 3:
            step(greedy, tables, s)
            step(independent, tables, s)
        assert _evaluations(drops, greedy.order) == pytest.approx(1.49)
        assert _evaluations(drops, independent.order) == pytest.approx(0.49 * n + 0.51)


@pytest.mark.parametrize("n", [4, 5, 10])
def test_local_swaps_rest_where_a_greedy_moves(n: int) -> None:
    width = 100 // n
    everything = set(range(1, 101))
    slices = [set(range(i * width + 1, (i + 1) * width + 1)) for i in range(n)]
    before = [everything - s for s in slices]
    after = [*before[:-1], slices[n - 2]]
    settings = OrderSettings(window=200)
    local, greedy = LocalSwaps(tuple(range(n)), settings), AGreedy(tuple(range(n)), settings)
    for s in [*range(1, 101)] * 2:
        assert not step(local, before, s)
        step(greedy, before, s)
    assert greedy.order == tuple(range(n))
    for s in [*range(1, 101)] * 4:
        assert not step(local, after, s)
        step(greedy, after, s)
    assert greedy.order[:2] == (n - 1, n - 2)
    drops = np.array([[s not in t for t in after] for s in range(1, 101)])
    assert _evaluations(drops, local.order) == pytest.approx((n + 1) / 2)
    assert _evaluations(drops, greedy.order) == pytest.approx(1 + 1 / n)
