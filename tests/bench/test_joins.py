"""The benchmarks of joins at tiny sizes: a chain of five agrees with batch SQL; lines of adaptive orders."""

from __future__ import annotations

import json

import pytest
from bench.joins import main

from bench import mjoin


def test_joins_of_many_streams_are_those_of_batch_sql(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--files", "2", "--rows", "400", "--keys", "300", "--executor", "inline", "--skip-native"]
    assert main(["--cases", "chain5", *sizes]) == 0
    for line in map(json.loads, capsys.readouterr().out.splitlines()):
        assert line["correct"] and line["joined"] > 0, line["problems"]


def test_orders_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        mjoin, "LEARN", 1
    )  # orders are not learnt in so few epochs: its answers and lines are looked at
    mjoin.main(["--keys", "300", "--rows", "600", "--epochs", "2"])
    *orders, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert {o["order"] for o in orders} == {"adaptive", "xyz", "xzy", "yxz", "yzx", "zxy", "zyx"}
    best, worst = (next(o["probes"] for o in orders if o["order"] == name) for name in ("xyz", "zyx"))
    assert best[0] < worst[0] and best[1] > worst[1]
    assert last["answers"] > 0 and "answers differ" not in last["problems"]
