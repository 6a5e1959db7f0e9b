"""The generator of the experiments with filters, and what is counted over it, against the exact expectations."""

import numpy as np
import pytest
from bench.filters_budget import measured
from bench.filters_runs import generate, run, run_engine
from bench.filters_spark import SETTINGS, evaluated, holds

from millpond.adapt.greedy import expected_cost, greedy_order


@pytest.mark.parametrize(
    ("n", "gamma", "selectivity", "greedy"),
    [(8, 2, 0.5, 2.059), (8, 2, 0.3, 1.437), (8, 2, 0.8, 4.308), (8, 1, 0.5, 1.992), (8, 8, 0.5, 3.296)],
)
def test_expected_evaluations_of_the_greedy_order(n, gamma, selectivity, greedy):
    drops = generate(np.random.default_rng(1), 200_000, [selectivity] * n, gamma)
    costs = np.ones(n)
    order = greedy_order(drops, costs)
    assert expected_cost(drops, costs, order) == pytest.approx(greedy, rel=0.015)
    assert (drops[:, 0] == drops[:, 1]).mean() == pytest.approx(
        0.8 if gamma > 1 else 1 - 2 * selectivity * (1 - selectivity), abs=0.01
    )
    counted = run([drops], costs, order)
    assert counted.tuples == pytest.approx(expected_cost(drops, costs, order))


def test_profiling_adds_what_the_model_says():
    """p (n - E) evaluations more per tuple, for unit costs."""
    drops = generate(np.random.default_rng(2), 100_000, [0.5] * 8, 2)
    found = run([drops], np.ones(8), "a_greedy", 0.05, settled=20_000)
    assert found.profiling == pytest.approx(0.05 * (8 - found.tuples), rel=0.05)


def test_the_engine_follows_a_flip_sooner_than_the_window_turns_over():
    drops = generate(np.random.default_rng(3), 40_000, [0.2, 0.4, 0.6, 0.8], 1)
    parts, start = [drops, drops[:, ::-1]], range(4)
    alone, engine = (made(parts, np.ones(4), "a_greedy", 0.01, 3, start) for made in (run, run_engine))
    assert engine.order[0] == 3
    first = [[order[0] for order in counted.orders[20:]] for counted in (engine, alone)]  # since the flip
    assert engine.tuples < alone.tuples
    assert set(first[0][2:]) == {3} and 3 not in first[1][:5]


def test_the_budget_is_measured():
    (line,) = measured([(600, 60)])
    assert line["seen"]["epochs_until_followed"] is not None and 0 < line["seen"]["share"] < 0.5


@pytest.mark.parametrize(("name", "least"), [("cheap", 5.5), ("dear", 7.5)])
def test_static_orders_of_the_comparison(name, least):
    """The worst order asks so many times as often as one that follows the flip could."""
    n = SETTINGS[name].filters
    job = {"rows": 16_000, "files": 16, "filters": n}
    best, given, worst = (evaluated(job, order) for order in ("best", "given", "worst"))
    assert 16_000 < best < given < worst < 16_000 * n
    followed = 1 + 0.03 * sum(0.98**k for k in range(n - 1))
    assert worst / 16_000 / followed > least


@pytest.mark.parametrize("work", ["mix", "digest"])
def test_filters_of_the_comparison_look_at_their_bit(work):
    numbers = np.arange(6000) * 7919
    for number in (0, 11):
        assert (holds(number, work, 1)(numbers) == (numbers >> number & 1 == 1)).all()
