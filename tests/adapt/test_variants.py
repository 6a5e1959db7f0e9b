"""Sweep, Independent and LocalSwaps keep their own invariants, and ask only what they may."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.adapt import UNKNOWN, AGreedy, Independent, LocalSwaps, Orderer, OrderSettings, Profile, Sweep
from tests.adapt.filters import some_bits, step


def test_what_each_way_asks_of_a_profiled_row() -> None:
    order = (3, 0, 2, 1)
    assert AGreedy(order).wanted(1) == (2, 1)
    assert Independent(order).wanted(0) == (0, 2, 1)
    assert LocalSwaps(order).wanted(1) == (2,)
    assert LocalSwaps(order).wanted(3) == ()
    sweep = Sweep(order)
    assert (sweep.wanted(0), sweep.wanted(1)) == ((0,), ())
    sweep.stage = 3
    assert (sweep.wanted(2), sweep.wanted(3)) == ((1,), ())


def test_defaults_are_those_of_table_4_1() -> None:
    assert AGreedy((0,)).settings == OrderSettings(0.01, 1000, 0.9)
    assert Sweep((0,)).settings == OrderSettings(0.01, 500, 0.9)
    assert Independent((0,)).settings == OrderSettings(0.005, 1000, 0.9)
    assert LocalSwaps((0,)).settings == OrderSettings(0.01, 1000, 0.9)


TABLES = [set(range(s, 100)) for s in (5, 20, 50, 80)]  # each drops more than the one before


@pytest.mark.parametrize("kind", [AGreedy, Sweep, Independent, LocalSwaps])
def test_all_ways_end_at_the_order_of_filters_that_contain_each_other(kind: type[Orderer]) -> None:
    orderer = kind((0, 1, 2, 3), OrderSettings(window=100))
    rows = np.random.default_rng(1).permutation(np.arange(100).repeat(30))
    for row in rows.tolist():
        step(orderer, TABLES, row)
    assert orderer.order[0] == 3
    if kind is Independent:
        assert orderer.order == (3, 2, 1, 0)


def test_a_stage_of_sweep_without_need_ends_after_its_quota() -> None:
    sweep = Sweep((0, 1, 2), OrderSettings(window=3))
    quiet = Profile(np.array([[1, 0, UNKNOWN]], np.int8))
    assert [sweep.observe(quiet) for _ in range(3)] == [None] * 3
    assert (sweep.stage, len(sweep.window.bits)) == (2, 0)


def test_a_stage_of_sweep_moves_one_filter_to_its_greedy_place() -> None:
    sweep = Sweep((0, 1, 2), OrderSettings(window=100))
    sweep.stage = 2
    four = [[0, 0, 1], [0, 0, 1], [1, UNKNOWN, 1], [0, 1, 0]]
    change = sweep.observe(Profile(np.array(four * 10, np.int8)))
    assert change is not None and change.order == (2, 0, 1) and change.position == 0
    assert (sweep.stage, len(sweep.window.bits)) == (1, 0)


def test_a_stage_of_sweep_does_not_move_a_filter_for_its_first_tuples() -> None:
    sweep, better = Sweep((0, 1)), Profile(np.array([[0, 1]] * 20, np.int8))
    assert [sweep.observe(better) for _ in range(2)] == [None] * 2
    change = sweep.observe(better)
    assert change is not None and change.order == (1, 0)


@pytest.mark.parametrize(("dropped", "moves"), [(2, False), (150, True)])
def test_sweep_does_not_move_a_dear_filter_for_a_tuple_or_two(dropped: int, moves: bool) -> None:
    """Of those that come to the second position it drops all; the filter there, a hundred times cheaper, drops none."""
    sweep = Sweep((0, 1, 2), OrderSettings(), np.array([1.0, 1.0, 100.0]))
    sweep.stage = 2
    change = sweep.observe(Profile(np.array([[1, UNKNOWN, 0]] * 200 + [[0, 0, 1]] * dropped, np.int8)))
    assert (change is not None) == moves and (sweep.order == (0, 2, 1)) == moves


@given(st.integers(2, 5).flatmap(lambda n: st.lists(some_bits(n), min_size=1, max_size=40)))
def test_local_swaps_equal_their_definition_on_full_knowledge(bits: list[list[int]]) -> None:
    known = np.array(bits, np.int8)
    n = known.shape[1]
    orderer = LocalSwaps(range(n), OrderSettings(window=len(bits), alpha=1.0))
    orderer.observe(Profile(known))
    order = list(orderer.order)
    alive = np.ones(len(known), bool)
    for here, after in itertools.pairwise(order):
        assert (known[alive, here] == 1).sum() >= (known[alive, after] == 1).sum()
        alive &= known[:, here] == 0


@given(st.integers(2, 5).flatmap(lambda n: st.lists(some_bits(n), min_size=1, max_size=40)))
def test_independent_sorts_by_own_drops(bits: list[list[int]]) -> None:
    known = np.array(bits, np.int8)
    orderer = Independent(range(known.shape[1]), OrderSettings(window=len(bits), alpha=1.0))
    orderer.observe(Profile(known))
    counts = known.sum(axis=0)[list(orderer.order)].tolist()
    assert counts == sorted(counts, reverse=True)


def test_what_filters_take_counts() -> None:
    dear_first = np.array([[1, 0], [1, 0], [0, 1]], np.int8)
    orderer = AGreedy((0, 1), OrderSettings(window=10))
    assert orderer.observe(Profile(dear_first, np.array([10.0, 1.0]))) is not None
    assert orderer.order == (1, 0)
