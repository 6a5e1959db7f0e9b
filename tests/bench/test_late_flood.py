"""A flood of old rows at a small size: one scan, and the answers are those of all rows."""

from __future__ import annotations

import json

import pytest

from bench import late_flood


def test_a_flood_costs_one_scan_and_every_row_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert late_flood.main(["--rows", "4000", "--old", "1000", "--epochs", "3"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["correct"] and found["scans"] == 1
