"""Intervals and narrowing against definitions worked out apart."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.archive.design.narrowing import ALMOST, MOST_SCANS, Narrowing
from millpond.archive.design.reductions import (
    END,
    START,
    Run,
    Step,
    age_steps,
    joined,
    reduced_stretches,
    run_steps,
    untouched,
    within,
)
from millpond.synopses.aggregates.estimates import (
    Z,
    count_interval_sql,
    fraction_for,
    quantile,
    quantile_sql,
)
from millpond.types import Reduction
from tests.oracle.sampling import student

#: Student's quantiles, two-sided 95 %, from tables.
TABLE = {5: 2.571, 10: 2.228, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980}


@pytest.mark.parametrize(("degrees", "value"), TABLE.items())
def test_quantiles_are_those_of_tables(degrees: int, value: float) -> None:
    assert quantile(degrees + 1) == pytest.approx(value, abs=6e-3)


@given(rows=st.integers(0, 10_000))
def test_sql_and_python_and_oracle_agree(rows: int) -> None:
    ((found,),) = duckdb.sql(f"SELECT {quantile_sql(str(rows))}").fetchall()
    assert found == pytest.approx(quantile(rows), rel=1e-12)
    assert student(rows) == pytest.approx(quantile(rows), rel=1e-12)


@given(rows=st.integers(1, 10**6), kept=st.floats(0.001, 0.999))
def test_the_count_interval_holds_what_could_have_been(rows: int, kept: float) -> None:
    w = 1 / kept
    text = (f"{rows * w!r}", f"{rows * w * (w - 1)!r}")
    sql = [count_interval_sql(*text, low=end) for end in (True, False)]
    ((low, high),) = duckdb.sql(f"SELECT {sql[0]}, {sql[1]}").fetchall()
    # With few rows kept, fewer may have been there than were read: the interval knows chance, not what was counted.
    assert 0 <= low <= rows * w <= high
    for end in (low, high):  # at the ends what was seen is Z deviations away
        assert abs(end - rows * w) == pytest.approx(Z * np.sqrt(end * (w - 1)), rel=1e-6)


@given(error=st.floats(0.001, 0.5), fraction=st.floats(0.01, 0.9), spread=st.floats(0.01, 100))
def test_the_fraction_asked_for_is_enough(error: float, fraction: float, spread: float) -> None:
    """With the half width spread * sqrt((1 - p) / p) of an estimate of 1."""
    half = spread * np.sqrt((1 - fraction) / fraction)
    needed = fraction_for(error, float(half), 1.0, fraction)
    assert spread * np.sqrt((1 - needed) / needed) == pytest.approx(error, rel=1e-6)


@given(rows=st.integers(0, 10**9), answers=st.lists(st.floats(0, 1), min_size=MOST_SCANS, max_size=MOST_SCANS))
def test_narrowing_ends_and_reads_more_each_time(rows: int, answers: list[float]) -> None:
    narrowing = Narrowing(0.01, rows)
    seen = [narrowing.fraction]
    for needed in answers:
        if narrowing.done(needed):
            break
        seen.append(narrowing.fraction)
    else:
        raise AssertionError("it did not end")
    assert seen == sorted(seen) and len(set(seen)) == len(seen) and len(seen) <= MOST_SCANS
    assert all(f <= ALMOST or f == 1 for f in seen)


steps = st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True).flatmap(
    lambda edges: st.lists(st.sampled_from([0.0, 0.5, 0.9]), min_size=len(edges) + 1, max_size=len(edges) + 1).map(
        lambda drops: joined(
            Step(a, b, d) for a, b, d in zip([START, *sorted(edges)], [*sorted(edges), END], drops, strict=True)
        )
    )
)


@given(steps=steps, low=st.integers(-60, 60), length=st.integers(1, 60))
def test_cutting_and_joining_keep_every_instant(steps: tuple[Step, ...], low: int, length: int) -> None:
    def drop(found: tuple[Step, ...], time: int) -> float:
        (one,) = [s.drop for s in found if s.low <= time < s.high]
        return one

    cut = within(steps, low, low + length)
    assert all(drop(cut, t) == drop(steps, t) for t in range(low, low + length))
    stretches = reduced_stretches(steps)
    for t in range(-60, 60):
        assert any(a <= t < b for a, b in stretches) == (drop(steps, t) > 0)
    exact = untouched(np.array([low]), np.array([low + length]), stretches)[0]
    assert exact == all(drop(steps, t) == 0 for t in range(low, low + length))


def test_ages_count_back_from_now() -> None:
    """A9: newer sections are read at a finer level."""
    found = age_steps(Reduction("age", (0.5, 0.9), (10, 70)), 100)
    assert [(s.low, s.drop) for s in found] == [(START, 0.9), (30, 0.5), (90, 0.0)]
    assert [s.drop for s in found] == sorted((s.drop for s in found), reverse=True)


def test_runs_are_asked_in_order_with_a_memory() -> None:
    seen: list[tuple[int, bool]] = []

    def function(run: Run, base: float) -> float:
        count = run.memory["calls"] = run.memory.get("calls", 0) + 1
        seen.append((run.low, run.previous() is not None))
        return base * count

    runs = [Run(0, 10, 5, 30), Run(10, 20, 5, 30), Run(20, 30, 5, 30)]
    asked: list[tuple[int, float]] = []

    def previous(step: Step) -> pa.Table:
        asked.append((step.low, step.drop))
        return pa.table({})

    found = run_steps(function, "f", (0.25,), runs, previous)
    assert [s.drop for s in found] == [0.25, 0.5, 0.75]
    assert seen == [(0, False), (10, True), (20, True)] and asked == [(0, 0.25), (10, 0.5)]
