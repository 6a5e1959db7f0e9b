"""Timestamps and whole numbers as JSON texts: as Arrow and Python print them, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.support.texts.integer_texts import integer_texts
from millpond.support.texts.timestamp_texts import timestamp_texts
from millpond.support.texts.weaving import woven

PER = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def as_arrow(array: pa.Array) -> list[Any]:
    """What Arrow prints, made JSON."""
    texts = array.cast(pa.timestamp(array.type.unit)).cast(pa.string())
    shown = pc.binary_join_element_wise('"', pc.replace_substring(texts, " ", "T"), 'Z"', "")
    return list(shown.to_pylist())


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(list(PER)),
    st.sampled_from([None, "UTC", "Europe/Berlin"]),
    st.integers(-(10**10), 10**10),
    st.lists(st.none() | st.integers(0, 10**9), max_size=30),
    st.integers(0, 5),
)
def test_as_arrow_prints_them(unit: str, zone: str | None, start: int, steps: list[int | None], cut: int) -> None:
    base = max(-(2**62), min(2**62, start * PER[unit])) if unit != "ns" else start % 10**9 * PER[unit]
    values = [None if step is None else base + step for step in steps]
    array = pa.array(values, pa.timestamp(unit, zone)).slice(cut)
    found = timestamp_texts(array)
    if found is not None:
        found.validate(full=True)
        assert found.to_pylist() == as_arrow(array)
    else:
        seconds = [v // PER[unit] for v in values if v is not None]
        assert min(seconds) < -30_610_224_000 or max(seconds) - min(seconds) > 8_000 * 86_400


def test_null_is_no_day_of_its_own() -> None:
    found = timestamp_texts(pa.array([None, 1_700_000_000], pa.timestamp("s")))
    assert found is not None and found.to_pylist() == [None, '"2023-11-14T22:13:20Z"']


@pytest.mark.parametrize("values", [[-(2**60)], [2**60], [0, 10**17], [-62_135_596_800_000_000]])
def test_rare_instants_are_left_to_others(values: list[int]) -> None:
    assert timestamp_texts(pa.array(values, pa.timestamp("us"))) is None


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=3)), min_size=1, max_size=9), st.integers(0, 3))
def test_weaving(rows: list[tuple[str, str]], cut: int) -> None:
    columns = [pa.array([row[n] for row in rows]).slice(cut) for n in range(2)]
    expected = ", ".join(f"<{a}|{b}>" for a, b in rows[cut:])
    assert woven(columns, [b"<", b"|"], b">", b", ").decode() == expected


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-1100, 1100), max_size=9), st.integers(0, 3))
def test_integers_are_exact_for_every_reader(values: list[int | None], cut: int) -> None:
    found = integer_texts(pa.array(values, pa.int64()).slice(cut))
    assert found is not None and found.null_count == 0
    for text, value in zip(found.to_pylist(), values[cut:], strict=True):
        wide = value is not None and abs(value) > 2**53
        assert json.loads(text) == (str(value) if wide else value)
    assert integer_texts(pa.array([1], pa.uint64())) is None
