"""X2 and X3 at a small size: punctuation through the engine is exact, and the trends of slack hold."""

from __future__ import annotations

import json

import pytest

from bench import disorder


def test_trends_hold_on_little_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert disorder.main(["--rows", "12000"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["case"] for line in lines if line["kind"] == "trends"] == ["X2", "X3"]
    assert all(line["correct"] for line in lines)


def test_slack_as_in_the_small_example() -> None:
    """Times 1, 12, 8, 25 with windows of 10 every 5: 8 is late for [0, 10) once 12 is released."""
    import numpy as np

    window, count, none = disorder.TimeWindow(10, 5), disorder.case_x3(100).aggregate, np.empty(0)
    small = disorder.Case("X3", window, count, (), (), np.array([1, 12, 8, 25]), np.ones(4), none, none, 1.0)
    assert small.ends.tolist() == [5, 10, 15, 20, 25, 30, 35]
    assert disorder.truth(small).tolist() == [1, 2, 2, 1, 0, 1, 1]
    consistent, came, _ = disorder.with_slack(small, 0, generous=False)
    assert consistent.tolist() == [1, 1, 1, 1, 0, 1, 1] and came[:3].tolist() == [2, 2, 4]
    generous, _, _ = disorder.with_slack(small, 0, generous=True)
    assert generous.tolist() == [1, 1, 2, 1, 0, 1, 1]
    assert disorder.with_slack(small, 4, generous=False)[0].tolist() == [1, 2, 2, 1, 0, 1, 1]
