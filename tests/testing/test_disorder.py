"""Generators of disorder: what each promises, whatever the numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millpond.testing import band, block_sorted, lull, punctuations, skewed


@given(st.integers(1, 3_000), st.integers(1, 10**6), st.integers(0, 10**5), st.integers(0, 9))
def test_band(count: int, span: int, most: int, seed: int) -> None:
    times = band(count, span, most, seed)
    assert len(times) == count and (times >= 0).all() and (times < span).all()
    assert (np.maximum.accumulate(times) - times <= most).all()
    assert np.array_equal(times, band(count, span, most, seed))


def test_band_uses_its_width() -> None:
    times = band(20_000, 600_000_000, 3_200_000)
    lag = np.maximum.accumulate(times) - times
    assert 2_800_000 < lag.max() <= 3_200_000
    assert 0.1 < (lag > 0).mean() < 0.6


@given(st.integers(0, 500), st.integers(1, 5_000), st.integers(1, 1_000), st.integers(0, 9))
def test_blocks(count: int, span: int, block: int, seed: int) -> None:
    times = block_sorted(count, span, block, seed)
    assert len(times) == count and (np.diff(times // block) >= 0).all()


@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 40))
def test_punctuations_are_true_and_the_earliest(drawn: list[int], step: int) -> None:
    times = np.array(drawn, np.int64)
    at, bound = punctuations(times, step)
    told = dict(zip(at.tolist(), bound.tolist(), strict=True))
    known = -1
    for index in range(1, len(drawn) + 1):
        possible = min(drawn[index:]) // step * step if index < len(drawn) else (max(drawn) // step + 1) * step
        worth = possible > max(known, min(drawn) if known < 0 else known)
        assert (index in told) == worth
        if index in told:
            assert told[index] == possible
            known = possible


def test_skewed_sources_and_lulls() -> None:
    fast, slow = np.arange(0, 100, 10), lull(np.arange(0, 100, 10), 30, 40)
    times, source = skewed([fast, slow], [0, np.array([25, 5, 0, 40, 40, 40])])
    assert sorted(times.tolist()) == sorted([*fast.tolist(), *slow.tolist()])
    assert times[source == 0].tolist() == fast.tolist() and times[source == 1].tolist() == slow.tolist()
    assert slow.tolist() == [0, 10, 20, 70, 80, 90]
