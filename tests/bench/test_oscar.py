"""bench.oscar at a tiny size: every case has its lines, answers are right, and a wrong one is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.oscar.__main__ import main
from bench.oscar.archives import HYBRID, Archive, model


def test_every_case_has_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "20000", "--scanners", "0,1", "--seconds", "0.5"]) == 0
    lines: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    cases: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        cases.setdefault(line["case"], []).append(line)
    assert {c: len(found) for c, found in cases.items() if c != "aim"} == {
        "size": 1, "insert": 5, "scan": 5 * 5 + 2 * 4, "lag": 2, "rate": 25, "beside": 16, "over": 1,
    }  # fmt: skip
    assert cases["size"][0]["rows"] == 20_000 and cases["over"][0] == cases["over"][0] | {"correct": True, "wrong": []}
    assert all(isinstance(line["met"], bool) for line in cases["aim"]) and len(cases["aim"]) >= 12
    assert {line["estimate"] for line in cases["scan"] if line["reduction"] == 0} == {20_000}


def test_a_wrong_count_is_found(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "p", "plain")
    archive.check(1000, 0.0, 1000)
    archive.check(1300, 0.9, 1000)  # 3 standard deviations
    assert archive.faults == []
    archive.check(999, 0.0, 1000)
    archive.check(1600, 0.9, 1000)
    assert len(archive.faults) == 2
    archive.pond.close()


def test_the_model_is_the_digest() -> None:
    """B blocks, copies at 20, 40, 60 and 80 %: what is read at 50 %."""
    shares = [round(model(d, 0.5, s), 9) for d, s in (("replicate", ""), (HYBRID, ""), ("modify", "vacuumed"))]
    assert shares == [0.6, 0.5, 0.5] and model("plain", 0.5) == 1
