"""Conditions over shrinking sets of rows, and what is seen on the way, against one row at a time with loops."""

import time

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.adapt import AGreedy, FilterPlan, FilterProfiler, Independent, LocalSwaps, OrderSettings, Sweep
from millpond.engine.screening import Screen, Watch, sampled
from millpond.functions import Function, put
from millpond.synopses.conjunctions import conjunction_of, split
from millpond.types import FunctionDefinition

N = 4
CALLS: list[tuple[int, int]] = []


def _filter(number):
    def holds(value, fails):
        CALLS.append((number, 1))
        if fails == number:
            raise ValueError(f"filter {number} cannot take this")
        return bool(value >> number & 1)

    return holds


for number in range(N):
    reference = f"udf__f{number}__00000000_{number}"
    put(Function(FunctionDefinition(f"f{number}", reference, ("BIGINT", "BIGINT"), "BOOLEAN"), _filter(number)))

#: The conditions around the calls: as it is, compared, over an expression, and one that DuckDB itself evaluates.
WHERE = (
    '("cheap" < 7) AND (udf__f0__00000000_0("v", "bad") AND ((udf__f1__00000000_1("v", "bad") = TRUE)'
    ' AND udf__f2__00000000_2("v" + 0, "bad") <> FALSE)'
    ' AND CASE WHEN "v" >= 0 THEN udf__f3__00000000_3("v", "bad") END)'
)
WAYS = {"a_greedy": AGreedy, "sweep": Sweep, "independent": Independent, "local_swaps": LocalSwaps}


def one_at_a_time(rows, plan, chosen):
    """Which rows pass, which fail, and the profile tuples, with short circuits and loops."""
    passed, failed, profile, evaluated = [], [], [], [0] * N
    for place, row in enumerate(rows):
        if row["cheap"] is None or row["cheap"] >= 7:
            continue
        bits = ["?"] * N
        for position, number in enumerate(plan.order):
            evaluated[number] += 1
            if row["v"] is not None and row["bad"] is not None and row["bad"] == number:
                failed.append(place)
                break
            holds = row["v"] is not None and row["bad"] is not None and bool(row["v"] >> number & 1)
            bits[number] = "0" if holds else "1"
            if holds:
                continue
            if chosen[place]:
                for other in plan.ask[position]:
                    known = row["v"] is not None and row["bad"] is not None
                    bits[other] = "0" if known and row["v"] >> other & 1 else "1"
                profile.append("".join(bits))
            break
        else:
            passed.append(place)
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
        {"_id": 17 * n, "v": v, "cheap": cheap, "bad": (n % 7 if failing and bad else 99)}
        for n, (v, cheap, bad) in enumerate(drawn)
    ]
    table = pa.Table.from_pylist(rows, pa.schema([(c, pa.int64()) for c in ("_id", "v", "cheap", "bad")]))
    orderer = WAYS[way](order, OrderSettings(probability))
    ask = tuple(orderer.wanted(position) for position in range(N))
    plan = FilterPlan(tuple(order), probability, ask if not failing else ((),) * N)
    screen = Screen(conjunction_of(WHERE), plan)
    cut = data.draw(st.integers(0, len(rows)))
    parts = [screen.screen(table.slice(0, cut)), screen.screen(table.slice(cut))]
    pieces = [(low, high) for low, high in ((0, cut), (cut, len(rows))) if high > low]
    chosen = {low + int(i) for low, high in pieces for i in sampled(17 * low, high - low, probability)}
    passed, failed, profile, evaluated = one_at_a_time(rows, plan, [n in chosen for n in range(len(rows))])
    assert [i for p in parts for i in p.rows["_id"].to_pylist()] == [17 * n for n in passed]
    letters = pa.concat_tables([p.failed for p in parts if p.failed is not None] or [table.slice(0, 0)])
    assert letters["_id"].to_pylist() == [17 * n for n in failed]
    report = screen.report()
    assert report["rows"] == evaluated
    assert report["profile"] == profile
    seen = FilterProfiler("0123").observation(1, 0, [report])
    assert seen.profile is not None and seen.profile.bits.shape == (len(profile), N)


def test_a_filter_is_asked_only_what_those_before_it_pass():
    table = pa.table({"_id": np.arange(16), "v": np.arange(16), "cheap": [0] * 16, "bad": [99] * 16})
    CALLS.clear()
    Screen(conjunction_of(WHERE), FilterPlan((2, 0, 1, 3))).screen(table)
    assert [sum(n for f, n in CALLS if f == number) for number in (2, 0, 1, 3)] == [16, 8, 4, 2]


def test_time_is_of_the_processor_until_something_waits():
    watch = Watch()
    begun = time.process_time()
    while time.process_time() - begun < 0.01:
        pass
    assert watch.seconds > 0.009
    watch = Watch()
    time.sleep(0.02)
    assert watch.seconds >= 0.02


def test_too_many_failures_are_the_condition_s():
    table = pa.table({"_id": np.arange(1100), "v": [1] * 1100, "cheap": [0] * 1100, "bad": [0] * 1100})
    with pytest.raises(duckdb.Error, match="f0 failed: ValueError: filter 0 cannot take this"):
        Screen(conjunction_of(WHERE)).screen(table)


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ('"a" = 1 OR udf__f0__00000000_0("v", "bad")', ['"a" = 1 OR udf__f0__00000000_0("v", "bad")']),
        ('NOT ("a AND b" = \' AND \') AND ("c")', ["NOT (\"a AND b\" = ' AND ')", '"c"']),
        ('("a" AND "b") AND ("c" AND ("d"))', ['"a"', '"b"', '"c"', '"d"']),
        ('("a") OR ("b") AND ("c")', ['("a") OR ("b") AND ("c")']),
    ],
)
def test_conditions_are_cut_where_they_are_conjunctions(where, parts):
    assert split(where) == parts
