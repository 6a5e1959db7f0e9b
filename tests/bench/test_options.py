"""What the benchmarks' commands refuse, before they begin to measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bench.oscar.__main__ import main as oscar
from bench.psoup.__main__ import parse as psoup

from bench import adaptwid, disorder, filters, joins, oajoin, smoothing, windows

REFUSED: list[tuple[Callable[[list[str]], Any], list[str], str]] = [
    (filters.main, ["--figures", "4.11,4.99"], "there is no '4.99'; there are 4.11, 4.12"),
    (filters.main, ["--only", "time", "--figures", "4.11"], "--only time counts none"),
    (adaptwid.main, ["--data", "DS9"], "there is no 'DS9'; there are DS1, DS2"),
    (disorder.main, ["--cases", "none"], "there is no 'none'; there are "),
    (joins.main, ["--cases", "star4"], "there is no 'star4'; there are twoway"),
    (windows.main, ["--cases", "tumblin"], "there is no 'tumblin'; there are tumbling"),
    (windows.main, ["--stores", "redis"], "there is no 'redis'; there are hdfs, rocksdb"),
    (oajoin.main, ["--ranges", "1,x"], "'1,x' is not whole numbers"),
    (smoothing.main, ["--groups", "1k"], "'1k' is not whole numbers"),
    (oscar, ["--scanners=-1"], "'-1' has a number below 0"),
    (psoup, ["rate", "--mixes", "narrow"], "there is no 'narrow'; there are "),
    (psoup, ["rate", "--stream", "2^12"], "'2^12' is not whole numbers"),
]


@pytest.mark.parametrize(("command", "arguments", "told"), REFUSED, ids=[" ".join(a) for _, a, _ in REFUSED])
def test_what_there_is_not_is_refused_with_what_there_is(
    command: Callable[[list[str]], Any], arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(arguments)
    assert told in capsys.readouterr().err


def test_figures_alone_are_counted() -> None:
    assert filters.parse(["--figures", "4.12, flip"]).figures == ["4.12", "flip"]
    assert filters.parse(["--figures", "flip"]).only == "counted"
    assert filters.parse([]).only is None and "4.24" in filters.parse([]).figures
