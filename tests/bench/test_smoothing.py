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


def test_a_wrong_trend_is_told() -> None:
    lines = [{"ratio": ratio, "kept_up_rows_per_s": rate} for ratio, rate in ((4.0, 100), (2.0, 150), (1.5, 90))]
    found = smoothing.trends(9, lines)
    assert found["bursts_are_smaller"] and not found["more_is_kept_up"] and not found["correct"]
