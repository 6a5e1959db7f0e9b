"""`millpond archive check | backup | restore`: faults that were made are found; a backup of a running pond opens."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import millpond
from millpond.archive.design import layout
from millpond.archive.planning.reduction_functions import _loaded
from millpond.archive.upkeep import compaction
from millpond.archive.upkeep.backup import backup, restore
from millpond.archive.upkeep.checking import check_archives
from millpond.cli.app import app
from millpond.support.errors import PondError
from tests.archive.ponds import opened, rows, scan, take


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, merges of two files."""
    monkeypatch.setattr(layout, "BLOCK_ROWS", 50)
    monkeypatch.setattr(compaction, "FAN_IN", 2)


def faults(pond: Path) -> list[str]:
    """All that is found."""
    return [f"{c.copy}: {f}" for c in check_archives(str(pond)) for f in c.faults]


def files(pond: Path, copy: str = "") -> list[Path]:
    """The files of a table."""
    return sorted((pond / ("copies" if copy else "streams") / "s-1" / copy).glob("*.parquet"))


@pytest.mark.parametrize("design", ["plain", "replicate(0.5, 0.9)", "randomize(4)"])
def test_what_is_right_has_no_faults(tmp_path: Path, design: str) -> None:
    with opened(tmp_path / "p", design) as pond:
        for epoch in range(5):
            take(pond, epoch * 1000, 1000, np.random.default_rng(epoch))
            assert faults(tmp_path / "p") == []
        pond.maintain()
        take(pond, 5000, 10)
        found = list(check_archives(str(tmp_path / "p")))
        assert [c.faults for c in found] == [[]] * (3 if "," in design else 1)
        assert found[0].rows == 5010 and found[0].files == len(pond._core.streams[1].archive.segments)
    shown = CliRunner().invoke(app, ["archive", "check", "--pond", str(tmp_path / "p")])
    assert shown.exit_code == 0 and "s: " in shown.output and "5,010 rows" in shown.output
    shown = CliRunner().invoke(app, ["archive", "check", "--pond", str(tmp_path / "p"), "x"])
    assert shown.exit_code == 1 and "there is no stream or table 'x'" in shown.output


def broken(path: Path, change: Any) -> None:
    """Write a file anew with other rows."""
    table = change(pq.read_table(path, partitioning=None))
    pq.write_table(table, path)


def test_every_kind_of_fault_is_found(tmp_path: Path) -> None:
    with opened(tmp_path / "good", "replicate(0.5)") as pond:
        for epoch in range(2):
            take(pond, epoch * 1000, 1000)
        pond.maintain()  # one file, in order
        take(pond, 2000, 1000)

    def case(name: str) -> Path:
        shutil.copytree(tmp_path / "good", tmp_path / name)
        return tmp_path / name

    merged = next(p.name for p in files(tmp_path / "good") if p.name.startswith("c"))

    pond_ = case("missing")
    (pond_ / "streams" / "s-1" / merged).unlink()
    assert faults(pond_) == [f": {merged}: the file is missing"]

    pond_ = case("torn")
    os.truncate(pond_ / "streams" / "s-1" / merged, 500)
    assert any("cannot be read" in f for f in faults(pond_))

    pond_ = case("fewer")
    broken(pond_ / "streams" / "s-1" / merged, lambda t: t.slice(0, 1500))
    found = faults(pond_)
    assert any("it has 1500 rows, not 2000" in f for f in found) and any("other event times" in f for f in found)
    assert any(f.startswith("sample-0.5") and "other rows than the fraction 0.5" in f for f in found)

    pond_ = case("disorder")
    broken(pond_ / "streams" / "s-1" / merged, lambda t: t.take(pa.array(np.arange(2000)[::-1])))
    assert any("not in the stream's order" in f for f in faults(pond_))

    pond_ = case("twice")
    broken(pond_ / "streams" / "s-1" / merged, lambda t: pa.concat_tables([t.slice(0, 1), t.slice(0, 1999)]))
    assert any("in it twice" in f for f in faults(pond_))

    pond_ = case("epochs")
    at = pq.read_schema(pond_ / "streams" / "s-1" / merged).get_field_index("_epoch")
    broken(pond_ / "streams" / "s-1" / merged, lambda t: t.set_column(at, "_epoch", pa.array(np.full(2000, 9))))
    assert any("rows of other epochs" in f for f in faults(pond_))

    pond_ = case("coarse")
    copy = next(p for p in files(pond_, "sample-0.5") if p.name.startswith("c"))
    broken(copy, lambda t: t.slice(0, t.num_rows - 1))
    shown = CliRunner().invoke(app, ["archive", "check", "--pond", str(pond_)])
    assert shown.exit_code == 1 and "sample-0.5: 2 files" in shown.output and "faults" in shown.output


QUERIES = """
    CREATE QUERY q AS SELECT k, count(*) AS c, sum(a) AS t FROM s [RANGE TUMBLING 1 SECONDS] GROUP BY k;
    CREATE QUERY mine AS SELECT a FROM s WHERE a % 100 = 7 BEGIN NOW - INTERVAL 1 HOUR END NOW;
    CREATE STREAM odd AS SELECT ts, a FROM s WHERE a % 2 = 1
"""


def test_a_backup_of_a_pond_that_rests(tmp_path: Path) -> None:
    with opened(tmp_path / "p", "replicate(0.5)", "1s") as pond:
        pond.sql(QUERIES)
        pond.register_reduction("half", lambda run: 0.5)
        for epoch in range(4):
            take(pond, epoch * 1000, 1000)
        pond.maintain()
    runner = CliRunner()
    made = runner.invoke(app, ["archive", "backup", "--pond", str(tmp_path / "p"), str(tmp_path / "b")])
    assert made.exit_code == 0 and "as of epoch" in made.output
    with opened(tmp_path / "p") as pond:
        take(pond, 4000, 500)
        expected = answers(pond)
    again = backup(str(tmp_path / "p"), str(tmp_path / "b"))
    assert 0 < again.new < again.bytes / 2  # only what is new
    shutil.rmtree(tmp_path / "p")
    made = runner.invoke(app, ["archive", "restore", str(tmp_path / "b"), "--pond", str(tmp_path / "r")])
    assert made.exit_code == 0, made.output
    assert faults(tmp_path / "r") == []
    with opened(tmp_path / "r") as pond:
        assert answers(pond) == expected
        _loaded._kept.clear()  # as in another process
        asked = "SELECT count(*) AS n FROM s REDUCE {}"
        assert pond.sql(asked.format("half()")).rows() == pond.sql(asked.format("sample(0.5)")).rows()
        take(pond, 4500, 500)
        assert pond.sql("SELECT count(*) FROM s").rows() == [(5000,)]
        assert pond.sql("SELECT count(*) FROM odd").rows() == [(2500,)]
        assert len(scan(pond, 0.5)[0]) == len({a for a in scan(pond, 0.5)[0]["a"].to_pylist()})


def answers(pond: Any) -> list[Any]:
    """Everything that there is to ask."""
    asked = (
        "SELECT * FROM q ORDER BY ALL",
        "SELECT a FROM s ORDER BY a",
        "SELECT a FROM odd ORDER BY a",
        "INVOKE mine",
    )
    return [pond.sql(text).rows() for text in asked]


def test_a_backup_of_a_pond_that_runs(tmp_path: Path) -> None:
    stop = threading.Event()
    with opened(tmp_path / "p", "replicate(0.5)", "1s") as pond:
        pond.sql(QUERIES)

        def feed() -> None:
            at = 0
            while not stop.is_set():
                pond.ingest("s", rows(at, 100))
                at += 100
                pond.step()
                pond.maintain()

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            for turn in range(3):
                stop.wait(0.5)
                done = backup(str(tmp_path / "p"), str(tmp_path / "b"))
                epoch = restore(str(tmp_path / "b"), str(tmp_path / f"r{turn}"))
                assert epoch == done.epoch
        finally:
            stop.set()
            thread.join()
    for turn in range(3):
        path = tmp_path / f"r{turn}"
        assert faults(path) == []
        with millpond.open(path, executor="inline") as pond:
            pond.drain()
            found = [a for (a,) in pond.sql("SELECT a FROM s ORDER BY a").rows()]
            assert found == list(range(len(found))) and len(found) % 100 == 0
            assert [a for (a,) in pond.sql("SELECT a FROM odd ORDER BY a").rows()] == found[1::2]
            take(pond, len(found), 5000)
            total = sum(c for (c,) in pond.sql("SELECT sum(c) FROM q").rows())
            closed = pond.sql("SELECT max(window_end) FROM q").rows()[0][0]
            assert (
                total
                == len([a for a in range(len(found) + 5000)])
                - pond.sql(f"SELECT count(*) FROM s WHERE ts >= TIMESTAMP '{closed}'").rows()[0][0]
            )


def test_what_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "p"):
        pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    for call, message in (
        (lambda: backup(str(tmp_path / "none"), str(tmp_path / "b")), "there is no pond"),
        (lambda: backup(str(tmp_path / "p"), str(tmp_path / "other")), "no backup; name another folder"),
        (lambda: backup(str(tmp_path / "p"), str(tmp_path / "p" / "b")), "in the pond itself"),
        (lambda: restore(str(tmp_path / "other"), str(tmp_path / "r")), "is no backup"),
    ):
        with pytest.raises(PondError, match=message):
            call()
    backup(str(tmp_path / "p"), str(tmp_path / "b"))
    with pytest.raises(PondError, match="is not empty"):
        restore(str(tmp_path / "b"), str(tmp_path / "other"))


def test_versions_of_tables_that_epochs_name_are_checked(tmp_path: Path) -> None:
    source, home = tmp_path / "t.csv", tmp_path / "p"
    with millpond.open(home, executor="inline", shards=1) as pond:
        source.write_text("k,v\n1,2\n")
        pond.sql(f"""CREATE STREAM s (ts TIMESTAMP, k INTEGER) WITH (event_time='ts');
            CREATE TABLE t (k INTEGER, v INTEGER) WITH (path='{source}');
            CREATE QUERY q AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 1 HOUR] JOIN t USING (k)""")
        for minute in (1, 2):
            pond.ingest("s", [{"ts": f"2026-01-01 00:0{minute}:00", "k": 1}])
            pond.drain()
            source.write_text("k,v\n1,2\n2,3\n")
        pond.drain()
    found = list(check_archives(str(home), ["T"]))
    assert [(c.kind, c.stream, c.files, c.rows, c.faults) for c in found] == [("table", "t", 2, 3, [])]
    first, second = sorted((home / "tables" / "t-2").glob("*.arrow"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:100])
    assert [f.split(": ")[:2] for f in next(check_archives(str(home), ["t"])).faults] == [
        ["version 1", "the file is missing"],
        ["version 2", "it cannot be read"],
    ]
    shown = CliRunner().invoke(app, ["archive", "check", "--pond", str(home)])
    assert shown.exit_code == 1 and "table t: 2 files" in shown.output and "2 faults" in shown.output
