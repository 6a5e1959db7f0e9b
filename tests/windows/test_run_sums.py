"""Sums and minima of runs are those of the runs, to the last bit."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millpond.windows.run_sums import run_float_sums, run_minima, run_sums

RUNS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20)
FLOATS = st.one_of(
    st.floats(-1e6, 1e6), st.integers(-5, 5).map(float), st.sampled_from([1e16, -1e16, 1e-9, 0.1, -0.1, -0.0])
)


def _runs(drawn: list[tuple[int, int]], size: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = [sorted((min(a, size), min(b, size))) for a, b in drawn]
    return np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64)


@given(st.lists(FLOATS, max_size=20), RUNS)
def test_sums_of_doubles(values: list[float], drawn: list[tuple[int, int]]) -> None:
    low, high = _runs(drawn, len(values))
    got = run_float_sums(np.array(values, np.float64), low, high)
    if got is None:  # too far apart
        sizes = [abs(v) for v in values if v]
        assert math.frexp(max(sizes))[1] - math.frexp(min(sizes))[1] + 53 > 150
        return
    for total, a, b in zip(got, low, high, strict=True):
        assert math.isclose(total, math.fsum(values[a:b]), rel_tol=4e-16)


def test_sums_that_cannot_be_exact_are_left_to_others() -> None:
    one = np.array([0]), np.array([2])
    assert run_float_sums(np.array([1.0, math.inf]), *one) is None
    assert run_float_sums(np.array([1.0, math.nan]), *one) is None
    assert run_float_sums(np.array([1e300, 1e-300]), *one) is None


@given(st.lists(st.integers(-(2**62), 2**62), max_size=20), RUNS)
def test_sums_and_minima_of_integers(values: list[int], drawn: list[tuple[int, int]]) -> None:
    low, high = _runs(drawn, len(values))
    array = np.array(values, np.int64)
    wrapped = [(sum(values[a:b]) + 2**63) % 2**64 - 2**63 for a, b in zip(low, high, strict=True)]
    assert run_sums(array, low, high).tolist() == wrapped
    least = [min(values[a:b], default=2**63 - 1) for a, b in zip(low, high, strict=True)]
    assert run_minima(array, low, high, 2**63 - 1).tolist() == least
