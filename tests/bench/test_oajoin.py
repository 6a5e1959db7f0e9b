"""The order-agnostic join against its baselines at a tiny size: the same results, held and delayed less."""

from __future__ import annotations

import json

import pytest
from bench.oajoin import main


def test_the_experiments_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "6", "--rate", "2000", "--ranges", "1,2"]) == 0
    *lines, late = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert all(line["correct"] and line["results"] > 1000 for line in lines)
    assert all(line["oa_wait_s"] == 0 < line["opob_wait_s"] <= line["opib_wait_s"] for line in lines)
    assert (late["oa_m1_min"], late["oa_m2_min"], late["sort_m1_min"], late["sort_m2_min"]) == (2, 7, 5, 7)
