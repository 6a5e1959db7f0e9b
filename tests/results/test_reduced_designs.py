"""REDUCE over archives of every design: the same answers, for fewer blocks (A1, A2, A5, A9 of OSCAR, by SQL)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millpond
from millpond.archive.planning.scans import description

SECOND = 1_000_000
DESIGNS = ("plain", "replicate(0.25, 0.5, 0.75)", "modify", "randomize(8)")


ROWS = 99_000


def filled(path: Path, design: str, n: int = ROWS, parts: int = 3) -> millpond.Pond:
    pond = millpond.open(path, executor="inline")
    pond.sql(f"CREATE STREAM s (ts TIMESTAMP, v DOUBLE) WITH (event_time = 'ts', archive = '{design}')")
    draw = np.random.default_rng(5)
    table = pa.table({"ts": pa.array(np.arange(n) * SECOND, pa.timestamp("us")), "v": draw.normal(10, 2, n)})
    for part in range(parts):
        pond.ingest("s", table.slice(part * n // parts, n // parts))
        pond.drain()
    return pond


def told(answer: pa.Table) -> dict[str, Any]:
    found = description(answer)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def ponds(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opened = {d: filled(tmp_path_factory.mktemp("p") / "p", d) for d in DESIGNS}
    yield opened
    for pond in opened.values():
        pond.close()


@pytest.mark.parametrize(
    "reduce", ["sample(0.4)", "sample(0.75)", "age('10 hours', 0.5, '20 hours', 0.9)", "error(0.05)", "load()"]
)
@pytest.mark.parametrize("window", ["", "[RANGE 6 HOURS SLIDE 2 HOURS]", "[ROWS 5000 SLIDE 2500]"])
def test_answers_do_not_depend_on_the_design(ponds: dict[str, Any], reduce: str, window: str) -> None:
    sql = f"SELECT count(*) AS n, sum(v) AS s, avg(v) AS a, min(v) AS lo FROM s REDUCE {reduce} {window}"
    answers = {d: pond.sql(sql).to_arrow().to_pylist() for d, pond in ponds.items()}
    wanted = answers.pop("plain")
    assert wanted
    for design, answer in answers.items():
        assert len(answer) == len(wanted), design
        for row, other in zip(answer, wanted, strict=True):
            for name, value in other.items():
                close = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
                assert row[name] == close, (design, name)


def test_matching_reads_the_closest_finer_copy(ponds: dict[str, Any]) -> None:
    """A1: 40 % is asked, 25 % is stored: three quarters of the rows are read, and a fifth of them dropped."""
    answer = ponds["replicate(0.25, 0.5, 0.75)"].sql("SELECT v FROM s REDUCE sample(0.4)").to_arrow()
    read = told(answer)["read"]
    assert set(read["sections"]) == {"sample-0.25"}
    assert abs(answer.num_rows - 0.6 * ROWS) < 3 * np.sqrt(ROWS * 0.6 * 0.4)
    assert abs(read["read"] - 0.75 * ROWS) < 3 * np.sqrt(ROWS * 0.75 * 0.25)
    assert 0.7 < read["bytes"] / read["full_bytes"] < 0.9  # ids with gaps take a little more space
    whole = told(ponds["replicate(0.25, 0.5, 0.75)"].sql("SELECT v FROM s REDUCE sample(0.1)").to_arrow())
    assert set(whole["read"]["sections"]) == {""}


def test_runs_of_blocks_are_read_in_part(ponds: dict[str, Any]) -> None:
    """A2: of runs of 8 blocks 75 % dropped reads two, in order of time."""
    answer = ponds["randomize(8)"].sql("SELECT ts FROM s REDUCE sample(0.75)").to_arrow()
    read = told(answer)["read"]
    assert read["groups"] * 4 == read["full_groups"] and read["rows"] == read["read"] == answer.num_rows
    times = answer["ts"].to_pylist()
    assert times == sorted(times)


def test_newer_sections_are_read_finer(ponds: dict[str, Any]) -> None:
    """A9: by the copies that are chosen."""
    pond = ponds["replicate(0.25, 0.5, 0.75)"]
    answer = pond.sql("SELECT count(*) AS n FROM s REDUCE age('10 hours', 0.5, '20 hours', 0.9)").to_arrow()
    assert set(told(answer)["read"]["sections"]) == {"", "sample-0.5", "sample-0.75"}
    assert [s["drop"] for s in told(answer)["steps"]] == [0.9, 0.5, 0.0]


def test_lazy_copies_follow_what_is_asked(tmp_path: Path) -> None:
    """A5, by SQL: after a scan upkeep makes the copy, which later scans read; a finer scan reads the archive."""
    with filled(tmp_path / "p", "modify") as pond:
        half = pond.sql("SELECT count(*) AS n FROM s REDUCE sample(0.5)").to_arrow()
        assert set(told(half)["read"]["sections"]) == {""}
        pond.sql("EXPLAIN SELECT count(*) FROM s REDUCE sample(0.9)")
        pond.sql("SELECT count(*) AS n FROM s REDUCE error(0.5)")
        pond.maintain()
        pond.maintain()
        again = pond.sql("SELECT count(*) AS n FROM s REDUCE sample(0.5)").to_arrow()
        assert again.equals(half) and set(told(again)["read"]["sections"]) == {"modify-sample"}
        assert told(again)["read"]["read"] == told(half)["read"]["rows"]
        quarter = told(pond.sql("SELECT count(*) AS n FROM s REDUCE sample(0.75)").to_arrow())["read"]
        assert set(quarter["sections"]) == {"modify-sample"} and quarter["rows"] < quarter["read"]
        finer = told(pond.sql("SELECT count(*) AS n FROM s REDUCE sample(0.25)").to_arrow())["read"]
        assert set(finer["sections"]) == {""}


def test_explain_analyze_counts_against_a_full_scan(ponds: dict[str, Any]) -> None:
    lines = ponds["replicate(0.25, 0.5, 0.75)"].sql("EXPLAIN ANALYZE SELECT sum(v) FROM s REDUCE sample(0.5)").rows()
    text = "\n".join(line for (line,) in lines)
    assert "runs read of sample-0.5: 3" in text and "not exact" in text
    groups = ponds["randomize(8)"].sql("EXPLAIN ANALYZE SELECT sum(v) FROM s REDUCE sample(0.5)").rows()
    assert any("row groups read: 12 of 24 of a full scan" in line for (line,) in groups)
    planned = ponds["randomize(8)"].sql("EXPLAIN SELECT sum(v) FROM s REDUCE sample(0.5)").rows()
    assert any("3 runs of the archive, 12 blocks of randomized runs" in line for (line,) in planned)


def test_back_fill_is_the_same_from_every_design(ponds: dict[str, Any]) -> None:
    sql = "SELECT count(*) AS n, avg(v) AS a FROM s REDUCE sample(0.6) [RANGE TUMBLING 3 HOURS]"
    found = []
    for pond in ponds.values():
        pond.sql(f"CREATE QUERY IF NOT EXISTS q WITH (since = 'start') AS {sql}")
        pond.drain()
        found.append(pond.sql("SELECT * FROM q").to_arrow().to_pylist())
    assert len(found[0]) == 9
    for other in found[1:]:
        for row, wanted in zip(other, found[0], strict=True):
            assert row["n"] == wanted["n"] and row["a"] == pytest.approx(wanted["a"], rel=1e-9)
            assert row["exact"] is False
