"""Spans of time and timestamps as text."""

from __future__ import annotations

import doctest
import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.types import DAY, HOUR, MINUTE, SECOND
from millpond.types.durations import UNITS, interval_text, parse_duration, parse_timestamp

MODULES = (
    "types.durations", "support.spelling", "support.sql", "language.inference.duck",
    "language.inference.column_types", "language.script",
    "types.options.value_kinds", "types.options.stream_values", "types.options.declared", "types.archive_design",
)  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    failed, tried = doctest.testmod(importlib.import_module(f"millpond.{module}"))
    assert tried and not failed


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("5s", 5 * SECOND),
        ("90 s", 90 * SECOND),
        ("1 hour 30 minutes", 90 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("2 days, 1 hour and 5 min", 2 * DAY + HOUR + 5 * MINUTE),
        ("1.5 ms", 1500),
        ("-5 s", -5 * SECOND),
        ("00:01:00.5", 60_500_000),
        ("1 week", 7 * DAY),
    ],
)
def test_durations(text, microseconds):
    assert parse_duration(text) == microseconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 x", "1 month", "1 s x", "0.5 us", "9e9 s", "9" * 30 + " weeks", "5s;"]
)
def test_no_durations(text):
    with pytest.raises(ValueError):
        parse_duration(text)


@given(st.integers(-(10**6), 10**6), st.sampled_from(sorted(UNITS)))
def test_every_unit(amount, unit):
    assert parse_duration(f"{amount} {unit}") == amount * UNITS[unit]
    assert parse_duration(interval_text(f"{amount}{unit}")) == amount * UNITS[unit]


def test_timestamps():
    assert parse_timestamp("2024-01-01") == 1704067200 * SECOND
    assert parse_timestamp("2024-01-01T02:00:00.000001+02:00") == 1704067200 * SECOND + 1
    assert parse_timestamp("2024-01-01 00:00:00Z") == 1704067200 * SECOND
    with pytest.raises(ValueError, match="is not a timestamp"):
        parse_timestamp("yesterday")
