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


def run(reoptimiser, drops, epochs, rows, fixed=300e-6, per_row=1e-6, first=1):
    """Epochs of `rows` rows in which profiling has a fixed cost: (epoch from 1 on, profiled tuples, seconds, order)."""
    rng, seen = np.random.default_rng(rows), []
    for epoch in range(first, first + epochs):
        plan, left, operators = reoptimiser.plan, rows, [None] * len(drops)
        for i in plan.order:
            passed = int(rng.binomial(left, 1 - drops[i]))
            operators[i] = OperatorStatistics(str(i + 1), left, passed, left * per_row)
            left = passed
        tuples = int(rng.binomial(rows - left, plan.probability))
        bits = np.array([[0] * len(drops)] * tuples, np.int8).reshape(tuples, len(drops))
        while not (whole := bits.any(axis=1)).all():
            bits[~whole] = rng.random((int((~whole).sum()), len(drops))) < np.array(drops)
        overhead = fixed + tuples * len(drops) * per_row if plan.probability else 0.0
        took = sum(o.seconds for o in operators)
        reoptimiser.observe(Observation(epoch, 0, tuple(operators), took, overhead, Profile(bits)))
        seen.append((tuples, took, overhead, reoptimiser.order))
    return seen


@pytest.mark.parametrize(("rows", "within"), [(600, 4), (100, 8), (20_000, 2)])
def test_a_flip_is_followed_and_profiling_keeps_to_its_budget_whatever_an_epoch_holds(rows, within):
    """At the defaults: p = .01, a window of 1000, 5 % of a time that in small epochs is less than one look costs."""
    flat, flipped = (0.03, 0.3, 0.95), (0.95, 0.3, 0.03)
    reoptimiser = FilterReoptimiser("s", 3)
    seen = run(reoptimiser, flat, 400, rows)
    assert seen[max(within, 3)][3][0] == 2 and reoptimiser.order == (2, 1, 0)
    seen += (after := run(reoptimiser, flipped, 400, rows, first=401))
    assert next(n for n, (*_, order) in enumerate(after, 1) if order[0] == 0) <= within
    assert reoptimiser.order == (0, 1, 2)
    seen += run(reoptimiser, flipped, 400, rows, first=801)
    took, spent = sum(s for _, s, _, _ in seen), sum(s for _, _, s, _ in seen)
    portions = [t for t, _, spent, _ in seen if spent]
    assert spent <= 0.05 * (took + spent) + 5 * max(s for _, _, s, _ in seen)
    assert np.median(portions) >= min(60, rows * 0.8)  # what is asked for is worth asking
    assert reoptimiser.share <= 0.06
    profiled = sum(portions) / (1200 * rows)
    assert profiled <= 0.0125 if rows >= 600 else profiled <= 0.05


def test_conditions_that_never_rest_do_not_break_the_budget():
    reoptimiser, seen = FilterReoptimiser("s", 3), []
    for change in range(150):
        seen += run(reoptimiser, REGIMES[change % 2], 4, 600, first=1 + 4 * change)
    took, spent = sum(s for _, s, _, _ in seen), sum(s for _, _, s, _ in seen)
    assert 0 < spent <= 0.05 * (took + spent) + 5 * max(s for _, _, s, _ in seen)


def test_profiling_rests_when_nothing_changes():
    reoptimiser = FilterReoptimiser("s", 3)
    for epoch in range(1, 60):
        reoptimiser.observe(observed(epoch, reoptimiser, REGIMES[0]))
    assert reoptimiser.rate == 0.0025
    reoptimiser.observe(observed(60, reoptimiser, REGIMES[1]))
    assert reoptimiser.rate == 0.01
    never = FilterReoptimiser("s", 3, FilterOptions(budget=0.0))
    assert never.plan.probability == 0.0 and not never.plan.measure


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


def test_nothing_is_profiled_where_nobody_wants_it() -> None:
    """Not even on credit, when others pass than before."""
    operators = (OperatorStatistics("1", 1000, 50), OperatorStatistics("2", 50, 45))
    for asked in ({"probability": 0.0}, {"budget": 0.0}):
        decider = FilterReoptimiser("x", 2, FilterOptions(**asked))
        for passed in (operators, (OperatorStatistics("1", 1000, 950), OperatorStatistics("2", 950, 45))):
            decider.observe(Observation(0, 0, passed, 1.0, 0.0, Profile(np.empty((0, 2), np.int8))))
            assert (decider.plan.probability, decider.plan.credit, decider.plan.measure) == (0.0, 0, ())
