"""The benchmark of flush policies: right answers and a line for each policy, and trends that can fail."""

from __future__ import annotations

import json

import pytest

from bench import smoothing


def test_every_policy_gives_all_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "EPOCHS", 3)
    smoothing.main(["--groups", "600", "--windows", "1"])  # too few for bursts: the trends say nothing
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["case"] for line in lines] == ["600 groups, at once", "600 groups, lazy", "600 groups, slow", "trends"]
    assert all(line["correct"] and line["peak_s"] >= line["median_s"] for line in lines[:3])
    assert lines[0]["largest_share"] == 1.0 >= lines[2]["largest_share"]


def test_a_wrong_trend_is_told() -> None:
    figures = ((4.0, 100, 1.0), (2.0, 150, 1.0), (1.5, 90, 0.4))
    names = ("ratio", "kept_up_rows_per_s", "largest_share")
    lines = [{"closing": 4.0, **dict(zip(names, each, strict=True))} for each in figures]
    found = smoothing.trends(9, lines)
    assert found["answers_are_spread"] and found["bursts_are_smaller"]
    assert found["more_is_kept_up"] is False and not found["correct"]
    lines[0]["closing"] = 1.2  # no burst, nothing to flatten
    found = smoothing.trends(9, lines)
    assert found["correct"] and found["bursts_are_smaller"] is None and found["more_is_kept_up"] is None
    lines[2]["largest_share"] = 0.6
    assert not smoothing.trends(9, lines)["correct"]
