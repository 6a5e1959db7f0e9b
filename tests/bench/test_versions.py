"""The comparison of versions: this one with itself, at a size that only shows that it works."""

from __future__ import annotations

import json

import pytest
from bench.versions import ROOT, main


def test_a_version_equals_itself(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--files", "2", "--rows", "20000", "--rounds", "1", "--cases", "tumbling,rows"]
    assert main([str(ROOT), *sizes]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["case"] for line in lines] == ["tumbling", "rows"]
    for line in lines:
        assert line["correct"] and line["rows"] and line["cpu"] > 0 and len(line["all"]) == 1
    with pytest.raises(SystemExit):
        main([str(ROOT), "--cases", "slidng"])
