"""The benchmark of fixed costs runs, and its ponds answer rightly."""

from __future__ import annotations

import json

import pytest
from bench.fixed_costs import KINDS, main


def test_every_operation_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--lives", "1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(line["correct"] and line["cpu_ms"] >= 0 for line in lines)
    operations = {kind: {n for k, n in (line["case"].split(": ") for line in lines) if k == kind} for kind in KINDS}
    assert all(found >= {"open", "epoch", "close", "open again", "CREATE STREAM"} for found in operations.values())
