"""The benchmarks of row queries at tiny sizes and with the inline executor; Spark's own runs are left to them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.common import Budget, Clock
from bench.psoup import composite, rate, workload
from bench.psoup.__main__ import MINUTES, main, parse
from bench.psoup.baselines import narrowest


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """What a command prints on standard output, each line parsed."""
    status = main([*arguments, "--tiny", "--executor", "inline"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0, [line for line in found if line["correct"] is not True]
    assert all(line["correct"] is True and line["bench"].startswith("psoup.") for line in found)
    return found


@pytest.mark.parametrize("count", [128, 4_096, 131_072])
def test_selective_queries_match_a_row_ten_times(count: int) -> None:
    chosen = workload.conditions(workload.MIXES["selective"], count)
    assert workload.expected_rate(chosen, 256) == pytest.approx(10, rel=0.05)
    assert all(0 <= low <= high < 256 for c in chosen for _, low, high in c)
    assert all(len({name for name, _, _ in c}) == len(c) <= 4 for c in chosen)


def test_broad_queries_match_an_eighth() -> None:
    chosen = workload.conditions(workload.MIXES["broad"], 20_000)
    assert workload.expected_rate(chosen, 256) / 20_000 == pytest.approx(0.125, rel=0.05)
    assert {len(c) for c in chosen} == {1, 2, 3, 4}


def test_constants_are_often_round() -> None:
    made = workload.constants(np.random.default_rng(1), 100_000, 256)
    assert float((made % 32 == 0).mean()) == pytest.approx(0.2 + 0.8 / 32, abs=0.01)


def test_wide_constants_differ() -> None:
    chosen = workload.conditions(workload.MIXES["wide"], 10_000)
    assert workload.expected_rate(chosen, 1 << 24) == pytest.approx(10, rel=0.01)
    assert len({low for c in chosen for _, low, _ in c}) > 8_000


def test_rows_are_the_same_again() -> None:
    assert workload.rows(100, 500).equals(workload.rows(100, 500))
    assert not workload.rows(100, 500)["a"].equals(workload.rows(100, 600)["a"])


def test_narrowest_factor_is_looked_up() -> None:
    for condition in workload.conditions(workload.MIXES["broad"], 50):
        assert all(high - low >= narrowest(condition)[2] - narrowest(condition)[1] for _, low, high in condition)


@pytest.mark.parametrize("shape", composite.WORKLOADS, ids=lambda shape: shape[0])
def test_composites_find_what_nested_loops_find(shape: tuple[str, str, str]) -> None:
    line = composite.measure(*shape, 32, 5_000)
    assert line["correct"] and line["pairs"] > 0


def test_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["nonsense"])
    assert "nonsense" in capsys.readouterr().err


def test_all_is_bounded_and_names_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["all"]).minutes == MINUTES and parse(["all", "--minutes", "3"]).minutes == 3
    assert parse(["rate"]).minutes is None
    options = parse(["rate", "--mixes", "broad", "--kernel", "7,8", "--stream", "12", "--minutes", "1"])
    budget = Budget(Clock(), 0.0)
    assert rate.run(options, Path("nowhere"), budget)
    assert budget.left_out == ["rate: stream-broad-4096", "rate: kernel-broad-256", "rate: kernel-wide-256",
                               "rate: kernel-broad-128"]  # fmt: skip
    assert not capsys.readouterr().out


@pytest.mark.slow
def test_rate(capsys: pytest.CaptureFixture[str]) -> None:
    found = {line["case"]: line for line in lines(capsys, "rate", "--native-filters", "0")}
    assert set(found) == {f"{way}-{mix}-128" for way in ("kernel", "stream") for mix in ("selective", "broad")}
    for line in found.values():
        assert line["checked"] > 0 and line["wrong"] == 0 and line["rows_per_s"] > 0
        assert line["match_rate"] > 9
    assert sum(found["kernel-broad-128"]["index"]["forms"].values()) == 128


@pytest.mark.slow
def test_invoke(capsys: pytest.CaptureFixture[str]) -> None:
    found = {line["case"]: line for line in lines(capsys, "invoke", "--clients", "4")}
    assert {"interval-4-512", "equality-1-128", "join-equality-1-128"} <= set(found)
    assert found["http-4-clients"]["failed"] == 0 == found["http-4-clients-anew"]["failed"]
    assert all(math.isfinite(found["interval-1-512"][f"{form}_ms"]) for form in ("partial", "complete", "none"))


@pytest.mark.slow
def test_register_and_composite(capsys: pytest.CaptureFixture[str]) -> None:
    found = {line["case"]: line for line in lines(capsys, "register", "composite")}
    assert {"registered-beside-0", "registered-beside-2000", "epoch-2000", "ineq-ineq-16"} <= set(found)
    assert found["registered-beside-2000"]["single_per_s"] > 0
