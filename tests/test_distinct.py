"""Distinct numbers and membership equal NumPy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millpond.support.distinct import distinct, is_among

numbers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4), max_size=20)


@given(numbers, numbers)
def test_they_equal_numpy(values: list[int], wanted: list[int]) -> None:
    some, others = np.array(values, np.int64), np.array(wanted, np.int64)
    assert distinct(some).tolist() == np.unique(some).tolist()
    assert is_among(some, others).tolist() == np.isin(some, others).tolist()
