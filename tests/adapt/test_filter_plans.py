"""The Re-optimiser of filters and the plan log's four uses (Babu 2005, chapters 3 and 7)."""

import itertools

import numpy as np
import pytest

from millpond.adapt import FilterOptions, FilterReoptimiser, LogEntry, Observation, OperatorStatistics, PlanLog, Profile
from millpond.adapt.filter_plans import statistics_of
from millpond.adapt.greedy import expected_cost


def observed(epoch, reoptimiser, drops, overhead=0.0, rows=20_000):
    """What an epoch sees under the plan in use, of rows of which filter i drops a share drops[i], independently."""
    order, left, operators = reoptimiser.plan.order, rows, [None] * len(drops)
    for i in order:
        operators[i] = OperatorStatistics(str(i + 1), left, round(left * (1 - drops[i])), left * 1e-6)
        left = operators[i].rows_out
    rng = np.random.default_rng(epoch)
    bits = (rng.random((1000, len(drops))) < np.array(drops)).astype(np.int8)
    profile = Profile(bits[bits.any(axis=1)], np.full(len(drops), 1e-6))
    return Observation(epoch, epoch * 1_000_000, tuple(operators), sum(o.seconds for o in operators), overhead, profile)


REGIMES = [(0.8, 0.2, 0.5), (0.1, 0.9, 0.5)]
BEST = [(0, 2, 1), (1, 2, 0)]


def test_recurring_conditions_get_the_plan_that_they_had():
    reoptimiser = FilterReoptimiser("s", 3)
    invocations, epoch = [], 0
    for cycle in range(20):
        regime = cycle % 2
        for _ in range(5):
            epoch += 1
            reoptimiser.observe(observed(epoch, reoptimiser, REGIMES[regime]))
            if _ == 0:
                invocations.append(reoptimiser.invocations)
        assert reoptimiser.order == BEST[regime]
    # From the third change on the first epoch of a regime is enough: the plan is taken from the log, not worked out.
    before = [observed for observed in invocations]
    assert all(b - a == 4 for a, b in itertools.pairwise(before[3:]))


def test_what_never_changes_a_plan_is_not_important_and_the_best_static_plan_costs_more_than_adapting():
    reoptimiser = FilterReoptimiser("s", 3)
    for epoch in range(1, 61):
        reoptimiser.observe(observed(epoch, reoptimiser, REGIMES[epoch // 20 % 2]))
    log = reoptimiser.log
    assert "pass 3" not in log.important() and {"pass 1", "pass 2"} <= log.important()
    order, static, adaptive = log.best_static()
    lines = [e for e in log.entries if e.patterns and e.rows]
    per_line = [min(e.cost(o) for o in itertools.permutations(range(3))) for e in lines]
    assert static >= sum(e.rows * c for e, c in zip(lines, per_line, strict=True)) / sum(e.rows for e in lines)
    rows = sum(e.rows for e in lines)
    each = [sum(e.rows * e.cost(o) for e in lines) / rows for o in itertools.permutations(range(3))]
    assert static == pytest.approx(min(each))
    assert adaptive <= static * 1.2 and len(order) == 3


def test_a_line_s_cost_is_that_of_its_profile_tuples():
    entry = LogEntry(0, 1, "s", (0, 1), (0, 1), 10, {}, (1.0, 2.0), {"10": 3, "01": 1, "11": 1}, 1.0)
    drops = np.array([[1, 0]] * 3 + [[0, 1], [1, 1]], bool)
    assert entry.cost((1, 0)) == expected_cost(drops, np.array([1.0, 2.0]), (1, 0))


def test_a_plan_that_swings_is_damped():
    reoptimiser = FilterReoptimiser("s", 2, FilterOptions(alpha=1.0))
    for epoch in range(1, 40):
        better = (0.5, 0.46) if epoch % 2 else (0.46, 0.5)
        reoptimiser.observe(observed(epoch, reoptimiser, better))
    changes = [e.epoch for e in reoptimiser.log.entries if e.plan != e.under]
    # It swings, is damped, and may try again when nothing has changed for a while.
    assert changes[0] < 5 and not [e for e in changes if 10 < e < 30]
    assert reoptimiser.orderer.settings.alpha < 1.0


def test_profiling_keeps_to_its_budget_and_rests_when_nothing_changes():
    reoptimiser = FilterReoptimiser("s", 3, FilterOptions(probability=0.2, budget=0.05))
    for epoch in range(1, 15):
        cost = 0.02 * reoptimiser.probability / 0.2
        reoptimiser.observe(observed(epoch, reoptimiser, REGIMES[0], overhead=cost))
    assert reoptimiser.share <= 0.055
    assert 0.0 < reoptimiser.probability < 0.2
    reoptimiser = FilterReoptimiser("s", 3)
    for epoch in range(1, 60):
        reoptimiser.observe(observed(epoch, reoptimiser, REGIMES[0]))
    assert reoptimiser.plan.probability == 0.0025
    reoptimiser.observe(observed(60, reoptimiser, REGIMES[1]))
    assert reoptimiser.plan.probability == 0.01


def test_costs_that_were_told_and_orders_that_were_in_use():
    assert FilterReoptimiser("s", 3, costs=[5.0, None, 1.0]).order == (2, 1, 0)  # not told: as the others usually are
    assert FilterReoptimiser("s", 3, FilterOptions("auto"), [1.0, 1.0, 50.0]).way == "sweep"
    assert FilterReoptimiser("s", 3, order=(1, 2, 0)).plan.order == (1, 2, 0)
    off = FilterReoptimiser("s", 2, FilterOptions("off"), order=(0, 1))
    assert off.observe(observed(1, off, (0.1, 0.9))) is None
    assert (off.plan.order, off.plan.probability) == ((0, 1), 0.0)


def test_statistics_are_of_filters_that_rows_came_to():
    seen = Observation(1, 0, (OperatorStatistics("1", 100, 25), OperatorStatistics("2", 0, 0)))
    assert statistics_of(seen, (0, 1)) == {"pass 1": 0.25}
    assert PlanLog().best_static() is None
