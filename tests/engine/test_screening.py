"""Conditions over shrinking sets of rows, and what is seen on the way, against one row at a time with loops."""

import itertools
import time
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.adapt import (
    AGreedy,
    FilterOptions,
    FilterPlan,
    FilterProfiler,
    FilterReoptimiser,
    Independent,
    LocalSwaps,
    Observation,
    OperatorStatistics,
    OrderSettings,
    Profile,
    Sweep,
    local_order,
)
from millpond.adapt.filter_plans import FEW
from millpond.functions import Function, put
from millpond.operators.filters import adaptive_filter as screening
from millpond.operators.filters.adaptive_filter import Screen
from millpond.operators.filters.profiled_sample import sampled
from millpond.operators.filters.profiling import Step, dropped
from millpond.support.stopwatch import Watch
from millpond.synopses.conjunctions import conjunction_of
from millpond.types import FunctionDefinition
from tests.language.conditions import condition

N = 4
CALLS: list[tuple[int, int]] = []


def _filter(number):
    def holds(value, fails):
        CALLS.append((number, 1))
        if fails >> number & 1:
            raise ValueError(f"filter {number} cannot take this")
        return bool(value >> number & 1)

    return holds


for number in range(N):
    reference = f"udf__f{number}__00000000_{number}"
    put(Function(FunctionDefinition(f"f{number}", reference, ("BIGINT", "BIGINT"), "BOOLEAN"), _filter(number)))

#: The conditions around the calls: as it is, compared, over an expression, and one that DuckDB itself evaluates.
WHERE = condition(
    "cheap < 7 AND (udf__f0__00000000_0(v, bad) AND ((udf__f1__00000000_1(v, bad) = TRUE))"
    " AND udf__f2__00000000_2(v + 0, bad) <> FALSE"
    " AND CASE WHEN v >= 0 THEN udf__f3__00000000_3(v, bad) END)"
)
WAYS = {"a_greedy": AGreedy, "sweep": Sweep, "independent": Independent, "local_swaps": LocalSwaps}


def one_at_a_time(rows, plan, drawn):
    """Which rows pass, which fail and where first, and the profile tuples, with short circuits and loops.

    drawn: of the rows that come to a filter, counted from the last one, those that are profiled if it drops them.
    """
    passed, failed, tuples, evaluated = [], [], [], [0] * N
    for place, row in enumerate(rows):
        if row["cheap"] is None or row["cheap"] >= 7:
            continue
        called = row["v"] is not None and row["bad"] is not None  # else there is no call, and no filter holds
        fails = [called and row["bad"] >> number & 1 for number in range(N)]
        holds = [called and bool(row["v"] >> number & 1) for number in range(N)]
        bits = ["?"] * N
        for position, number in enumerate(plan.order):
            evaluated[number] += 1
            if fails[number]:
                if all(fails[other] or holds[other] for other in range(N)):
                    failed.append((place, fails.index(1)))
                break
            bits[number] = "0" if holds[number] else "1"
            if holds[number]:
                continue
            for other in plan.ask[position]:
                bits[other] = "0" if holds[other] else "1"
            tuples.append((position, evaluated[number], "".join(bits)))
            break
        else:
            passed.append(place)
    came = [evaluated[number] for number in plan.order]
    profile = [bits for position, nth, bits in tuples if came[position] - nth in drawn]
    return passed, failed, profile, evaluated


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.integers(0, 15), st.none() | st.integers(0, 9), st.booleans()), max_size=60),
    st.permutations(range(N)),
    st.sampled_from(sorted(WAYS)),
    st.sampled_from([0.3, 1.0]),
    st.data(),
)
def test_over_sets_as_one_row_at_a_time(drawn, order, way, probability, data):
    failing = data.draw(st.booleans())
    rows = [
        {"_id": 17 * n, "v": v, "cheap": cheap, "bad": (n % 16 if failing and bad else 0)}
        for n, (v, cheap, bad) in enumerate(drawn)
    ]
    table = pa.Table.from_pylist(rows, pa.schema([(c, pa.int64()) for c in ("_id", "v", "cheap", "bad")]))
    orderer = WAYS[way](order, OrderSettings(probability))
    ask = tuple(orderer.wanted(position) for position in range(N))
    plan = FilterPlan(tuple(order), probability, ask if not failing else ((),) * N)
    screen = Screen(conjunction_of(WHERE), plan)
    cut = data.draw(st.integers(0, len(rows)))
    parts = [screen.screen(table.slice(0, cut)), screen.screen(table.slice(cut))]
    passed, failed, profile, evaluated = [], [], [], np.zeros(N, int)
    for low, high in ((0, cut), (cut, len(rows))):
        drawn = set(sampled(17 * low, high - low, probability).tolist())
        found = one_at_a_time(rows[low:high], plan, drawn)
        passed += [low + n for n in found[0]]
        failed += [(low + n, number) for n, number in found[1]]
        profile, evaluated = profile + found[2], evaluated + found[3]
    assert [i for p in parts for i in p.rows["_id"].to_pylist()] == [17 * n for n in passed]
    letters = pa.concat_tables([p.failed for p in parts if p.failed is not None] or [table.slice(0, 0)])
    assert letters["_id"].to_pylist() == [17 * n for n, _ in failed]
    if failed:
        said = [reason.partition(" failed")[0][-2:] for reason in letters["_reason"].to_pylist()]
        assert said == [f"f{number}" for _, number in failed]
    report = screen.report()
    assert report["rows"] == evaluated.tolist() and report["kept"] == len(passed)
    assert report["profile"] == "".join(profile)
    seen = FilterProfiler("0123").observation(1, 0, [report])
    assert seen.profile is not None and seen.profile.bits.shape == (len(profile), N)


@pytest.mark.parametrize("letters", [0, 8, 9])
def test_filters_that_fail_on_many_rows_stop_a_query_for_its_letters_alone_in_any_order(monkeypatch, letters):
    """Up to three filters fail on more rows than may be letters, and what the others drop is not one."""
    monkeypatch.setattr(screening, "FAILING_ROWS", 8)
    rng = np.random.default_rng(letters)
    rows = 60
    v, bad = rng.integers(8, 16, rows), rng.choice([2, 3, 6, 7], rows)
    kept = v | bad == 15  # the filters that do not fail let it pass
    v[kept] = 0
    v[rng.choice(rows, letters, replace=False)] = 15
    table = pa.table({"_id": np.arange(rows), "v": v, "cheap": [0] * rows, "bad": bad})
    plan = FilterPlan((0, 1, 2, 3), 0.1, ((),) * N)
    _, failed, _, _ = one_at_a_time(table.to_pylist(), plan, set())
    assert len(failed) == letters
    for order in rng.permutation(list(itertools.permutations(range(N))))[:6].tolist():
        screen = Screen(conjunction_of(WHERE), FilterPlan(tuple(order), 0.1, ((),) * N))
        if letters > 8:
            with pytest.raises(duckdb.Error, match=f"filter {failed[0][1]} cannot take this"):
                screen.screen(table)
            continue
        screened = screen.screen(table)
        found = [] if screened.failed is None else screened.failed.to_pylist()
        said = [(row["_id"], int(row["_reason"].partition(" failed")[0][-1])) for row in found]
        assert (screened.rows.num_rows, said) == (0, failed)


def test_a_task_leaves_an_order_that_is_wrong_for_its_own_rows_and_does_so_again_when_it_is_repeated():
    rng = np.random.default_rng(5)
    pieces, plan = [], FilterPlan((0, 1, 2, 3), 0.1, way="a_greedy", alpha=0.9, times=(1e-6,) * N)
    for number in range(8):
        passes = rng.random((2000, N)) < np.array([0.9, 0.9, 0.9, 0.1] if number < 4 else [0.9, 0.1, 0.9, 0.9])
        v = (passes * (1 << np.arange(N))).sum(axis=1)
        columns = {
            "_id": np.arange(2000) + 2000 * number,
            "v": v,
            "cheap": np.zeros(2000, int),
            "bad": np.where((v == 9) & (np.arange(2000) % 100 == 0), 8, 0),
        }
        pieces.append(pa.table(columns))
    ours, again, kept = Screen(conjunction_of(WHERE), plan), Screen(conjunction_of(WHERE), plan), None
    kept = Screen(conjunction_of(WHERE), FilterPlan(plan.order, 0.1, ((1, 2, 3), (2, 3), (3,), ())))
    orders = []
    for piece in pieces:
        orders.append(ours.local.order)
        one, other, third = ours.screen(piece), again.screen(piece), kept.screen(piece)
        assert one.rows.equals(other.rows) and one.rows.equals(third.rows)
        assert one.failed.equals(other.failed) if one.failed is not None else other.failed is None
        assert one.failed.equals(third.failed) if one.failed is not None else third.failed is None
    assert (orders[0], orders[1][0], ours.local.order[0]) == (plan.order, 3, 1)
    assert again.local.order == ours.local.order
    assert sum(ours.rows_in) < 0.7 * sum(kept.rows_in)
    report = ours.report()
    assert report["turned"] and not kept.report()["turned"] and len(report["profile"]) > 2 * FEW * N
    assert again.report()["profile"] == report["profile"]


def test_a_task_that_sees_others_pass_than_were_expected_profiles_at_once(monkeypatch):
    """A flip with the epoch, of filters that are dear; letters and rows are those of one order for all."""
    monkeypatch.setattr(local_order, "MUCH", 4096)
    rng = np.random.default_rng(8)
    rows = 9000
    flipped = (rng.random((rows, N)) < np.array([0.95, 0.95, 0.95, 0.05])) * (1 << np.arange(N))
    bad = np.where(rng.random(rows) < 0.01, rng.integers(0, 16, rows), 0)
    table = pa.table({"_id": np.arange(rows), "v": flipped.sum(axis=1), "cheap": np.zeros(rows, int), "bad": bad})
    usual = FilterPlan(
        (0, 1, 2, 3), 0.01, way="a_greedy", alpha=0.9, times=(1e-5,) * N,
        expects=((50, 1000), (48, 50), (), (47, 48)), credit=FEW,
    )  # fmt: skip
    calm = replace(usual, expects=((950, 1000), (900, 950), (850, 900), (40, 850)))
    runs = {}
    for name, plan in {
        "flip": usual, "again": usual, "calm": calm, "new": replace(calm, expects=(), new=True),
        "cheap": replace(usual, times=(1e-6,) * N), "broke": replace(usual, credit=0),
    }.items():  # fmt: skip
        screen = Screen(conjunction_of(WHERE), plan)
        runs[name] = screen, screen.screen(table, mark=True)
    one = runs["flip"][1]
    for _, found in runs.values():
        assert found.rows.equals(one.rows) and found.failed.equals(one.failed) and found.marked.equals(one.marked)
    told = {name: screen.report() for name, (screen, _) in runs.items()}
    assert told["flip"]["profile"] == told["again"]["profile"] and told["flip"]["rows"] == told["again"]["rows"]
    assert {name for name, each in told.items() if each["moved"]} == {"flip", "again", "cheap", "broke"}
    assert {name for name, each in told.items() if each["turned"]} == {"flip", "again", "new"}
    assert runs["flip"][0].local.order[0] == 3 and sum(told["flip"]["rows"]) < 0.6 * sum(told["broke"]["rows"])
    assert FEW <= len(told["flip"]["profile"]) // N < 4 * FEW
    # The Re-optimiser takes it over: what it had profiled before is forgotten.
    decider = FilterReoptimiser("x", N, FilterOptions(budget=1.0))
    before = Profile(np.array([[1, 0, 0, 0]] * 1000, np.int8), np.full(N, 1e-5))
    decider.observe(
        Observation(0, 0, tuple(OperatorStatistics(str(n), 1000, 950) for n in range(1, 5)), profile=before)
    )
    assert decider.order == (0, 1, 2, 3) and decider.plan.credit == FEW and not decider.plan.new
    decider.observe(FilterProfiler("1234").observation(1, 0, [told["flip"], told["flip"]]))
    assert decider.order[0] == 3 and len(decider.orderer.window.bits) < 8 * FEW


@pytest.mark.parametrize("failing", [0.0, 0.02, 0.5])
def test_a_task_looks_at_the_first_filter_before_it_asks_for_all_rows_of_a_small_piece(monkeypatch, failing):
    """A flip in a piece that is too small for more looks, with rows that the cheap part drops and some that fail."""
    monkeypatch.setattr(screening, "FAILING_ROWS", 200)
    rng = np.random.default_rng(3)
    rows = 4000
    v = ((rng.random((rows, N)) < np.array([0.95, 0.95, 0.95, 0.05])) * (1 << np.arange(N))).sum(axis=1)
    # Those that fail do so in the first filter, and some in another; nearly all of them the last filter drops.
    bad = np.where(rng.random(rows) < failing, rng.choice([1, 3], rows), 0)
    table = pa.table({"_id": np.arange(rows), "v": v, "cheap": rng.integers(0, 10, rows), "bad": bad})
    dear = FilterPlan(
        (0, 1, 2, 3), 0.01, way="a_greedy", alpha=0.9, times=(1e-4,) * N,
        expects=((50, 1000), (48, 50), (), (47, 48)), credit=FEW,
    )  # fmt: skip
    runs = {}
    for name, plan in {
        "kept": FilterPlan((0, 1, 2, 3)), "flip": dear, "again": dear, "cheap": replace(dear, times=(1e-6,) * N),
        "calm": replace(dear, expects=((950, 1000), (900, 950), (850, 900), (40, 850))),
    }.items():  # fmt: skip
        screen = Screen(conjunction_of(WHERE), plan)
        runs[name] = screen.screen(table, mark=True), screen.report()
    one = runs["kept"][0]
    for found, told in runs.values():
        assert found.rows.equals(one.rows) and found.marked.equals(one.marked)
        assert found.failed.equals(one.failed) if one.failed is not None else found.failed is None
        assert told["taken"] == runs["kept"][1]["taken"] and told["kept"] == runs["kept"][1]["kept"]
    told = {name: report for name, (_, report) in runs.items()}
    assert told["flip"]["rows"] == told["again"]["rows"] and told["flip"]["profile"] == told["again"]["profile"]
    assert told["calm"]["rows"] == told["kept"]["rows"]
    if failing < 0.5:  # else a filter that fails on many rows waits for the others, and nothing is profiled
        assert {name for name, each in told.items() if each["turned"]} == {"flip", "again"}
        assert sum(told["flip"]["rows"]) < 0.7 * sum(told["kept"]["rows"])


def test_every_dropped_row_is_as_likely_to_be_profiled_and_no_more_than_are_wanted():
    """Of filters that drop .5, .5 and .5, at whichever position; of a long piece its end."""
    rows, probability, most = 2000, 0.07, 40
    rng = np.random.default_rng(2)
    times, counts = np.zeros(rows), []
    passes = rng.random((rows, 3)) < 0.5
    left, steps = np.arange(rows), []
    for position in range(3):
        steps.append(Step(left, passes[left, position], left[position:position]))
        left = left[steps[-1].holds]
    gone = np.flatnonzero(~passes.all(axis=1))
    for seed in range(0, 4_000_000, 1000):
        for found in dropped(seed, steps, rows, len(gone), probability, 10_000):
            times[found] += 1
        some = dropped(seed, steps, rows, len(gone), probability, most)
        counts.append(sum(map(len, some)))
        assert np.concatenate(some).min() > 1000
    assert set(np.flatnonzero(times)) == set(gone)
    shares = times[gone] / 4000
    assert abs(shares.mean() - probability) < 0.001 and abs(shares - probability).max() < 6 * np.sqrt(
        0.07 * 0.93 / 4000
    )
    assert abs(np.mean(counts) - most) < 2


def test_a_filter_is_asked_only_what_those_before_it_pass():
    table = pa.table({"_id": np.arange(16), "v": np.arange(16), "cheap": [0] * 16, "bad": [0] * 16})
    CALLS.clear()
    Screen(conjunction_of(WHERE), FilterPlan((2, 0, 1, 3))).screen(table)
    assert [sum(n for f, n in CALLS if f == number) for number in (2, 0, 1, 3)] == [16, 8, 4, 2]


def test_time_is_of_the_processor_until_something_waits():
    watch = Watch()
    begun = time.thread_time()
    while time.thread_time() - begun < 0.01:
        pass
    assert watch.lap() > 0.009
    time.sleep(0.02)
    assert watch.lap() >= 0.02


def test_too_many_failures_are_the_condition_s():
    table = pa.table({"_id": np.arange(1100), "v": [15] * 1100, "cheap": [0] * 1100, "bad": [1] * 1100})
    with pytest.raises(duckdb.Error, match="f0 failed: ValueError: filter 0 cannot take this"):
        Screen(conjunction_of(WHERE)).screen(table)
