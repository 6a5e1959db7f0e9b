"""X5 at a small size: right answers, and adaptive state is the smallest where it should be."""

from __future__ import annotations

import json

import pytest

from bench import adaptwid


def test_trends_hold_on_little_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert adaptwid.main(["--seconds", "4", "--rate", "2000", "--data", "DS2,DS5"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["case"] for line in lines] == ["Q6-7 one source"] * 2 + ["Q6-8 three sources"] * 2 + ["engine"] * 2 + [
        "trends"
    ]
    assert all(line["correct"] for line in lines)


def test_a_wrong_trend_is_told() -> None:
    line = {
        "case": adaptwid.QUERIES[1].name,
        "adaptive_bytes": 9,
        "eager_bytes": 8,
        "lazy_bytes": 10,
        "gain_eager": 0.9,
    }
    found = adaptwid.trends([line])
    assert not found["correct"] and not found["adaptive_below_eager"]
    assert found["adaptive_below_lazy_on_three_sources"]
