"""What the engine tells its log: what an operator wants to know, a line each, and nothing for every row."""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import millpond
from millpond.cli.app import app
from millpond.engine.control import loop, notices
from millpond.engine.control.loop import SparkLoop, _Jobs
from millpond.support.errors import EngineError, PondError
from millpond.support.event_log import Event
from millpond.testing import VirtualClock


class Heard:
    """The events that were told so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.DEBUG, "millpond")

    def __call__(self, event: str) -> list[dict[str, Any]]:
        """The fields of an event, each time it was told."""
        said = [r.msg for r in self._caplog.records if isinstance(r.msg, Event) and r.msg.event == event]
        return [s.fields for s in said]

    def levels(self, event: str) -> set[str]:
        """At which levels an event was told."""
        found = [r for r in self._caplog.records if isinstance(r.msg, Event) and r.msg.event == event]
        return {r.levelname for r in found}


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Heard:
    """What the test makes the engine tell."""
    return Heard(caplog)


def row(second: int, v: object = 1) -> dict[str, Any]:
    return {"ts": f"2026-01-01 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}", "v": v}


def test_opening_and_closing(tmp_path: Path, heard: Heard) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts')")
        path = pond.path
    assert heard("pond opened") == [
        {"path": path, "executor": "inline", "epoch": 0, "streams": 0, "queries": 0, "row_queries": 0}
    ]
    assert heard("pond closed") == [{"path": path, "epoch": 0}]


def test_back_fills(tmp_path: Path, heard: Heard) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts')")
        pond.ingest("s", [row(n) for n in range(30)])
        pond.drain()
        pond.sql("CREATE QUERY q WITH (since='start') AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS]")
        pond.drain()
    assert (
        [e["queries"] for e in heard("back-fill started")]
        == [["q"]]
        == [e["queries"] for e in heard("back-fill finished")]
    )
    assert heard("back-fill finished")[0]["seconds"] >= 0


def test_a_query_that_fails_is_quarantined(tmp_path: Path, heard: Heard) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts')")
        pond.sql("CREATE QUERY q AS SELECT sum(v) * 9223372036854775807 AS v FROM s [RANGE TUMBLING 10 SECONDS]")
        number = "CAST(string_agg(v::VARCHAR, 'x') AS INTEGER) AS v"
        pond.sql(f"CREATE QUERY bad AS SELECT {number} FROM s [RANGE TUMBLING 10 SECONDS]")
        pond.ingest("s", [row(n) for n in range(30)])
        pond.drain()
    said = heard("query quarantined")
    assert [e["query"] for e in said] == ["bad"] and "Could not convert" in said[0]["reason"]
    assert heard.levels("query quarantined") == {"ERROR"}
    assert len(heard("a part of the work failed")) <= 2


def test_dead_letters_are_told_seldom_and_added_up(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        folder = tmp_path / "in"
        folder.mkdir()
        pond.sql(f"CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (path='{folder}/*.csv', event_time='ts')")
        for n in range(3):
            (folder / f"{n}.csv").write_text("ts,v\n" + "".join(f"never,{i}\n" for i in range(50)))
            pond.drain()
        assert [(e["stream"], e["rows"]) for e in heard("rows became dead letters")] == [("s", 50)]
        seldom = pond._core.telemetry.notices._dead
        monkeypatch.setattr(seldom, "_seconds", 0)
        (folder / "9.csv").write_text("ts,v\nnever,1\n")
        pond.drain()
    assert [e["rows"] for e in heard("rows became dead letters")] == [50, 101]


def test_files_that_are_not_taken(tmp_path: Path, heard: Heard) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("ts,v\n2026-01-01 00:00:00,1\n")
    (folder / "b.xyz").write_text("what is this\n")
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(f"CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (path='{folder}', event_time='ts')")
        pond.drain()
        (folder / "a.csv").write_text("ts,v\n2026-01-01 00:00:00,1\n2026-01-01 00:00:01,2\n")
        for _ in range(3):
            pond.drain()
    assert heard("files have no known format") == [{"stream": "s", "files": 1, "such_as": str(folder / "b.xyz")}]
    assert heard("files changed after they were taken") == [{"stream": "s", "files": 1, "first": str(folder / "a.csv")}]


def test_slow_epochs(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "SLOW", 0)
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts')")
        for n in range(3):
            pond.ingest("s", [row(n)])
            pond.step()
    [slow] = heard("slow epoch")
    assert slow["epoch"] == 1 and slow["target"] == 2.0 and slow["rows"] == 1 and slow["longest"]
    assert [e["epoch"] for e in heard("epoch published")] == [1, 2, 3] and heard.levels("epoch published") == {"DEBUG"}


def test_upkeep(tmp_path: Path, heard: Heard) -> None:
    clock = VirtualClock()
    with millpond.open(tmp_path / "pond", executor="inline", clock=clock) as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts', retention='1 hour')")
        for n in range(8):
            pond.ingest("s", [row(n)])
            pond.step()
        pond.maintain()
        pond.ingest("s", [row(20_000)])
        pond.step()
        pond.maintain()
    assert heard("archive compacted") == [{"stream": "s", "files": 8, "into": 1, "rows": 8}]
    assert heard("rows expired") == [{"stream": "s", "files": 1, "rows": 8, "until": "2026-01-01T00:00:07.000001Z"}]


def test_a_fence_that_is_lost(tmp_path: Path, heard: Heard) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts')")
        pond.ingest("s", [row(1)])
        Path(pond.path, "fence.json").write_text('"another"')
        with pytest.raises(PondError, match="another process"):
            pond.step()
        assert heard("fence lost") == [{"path": pond.path}]


def epochs_that_fail(error: Exception, times: int, monkeypatch: pytest.MonkeyPatch, path: Path) -> SparkLoop:
    """What runs epochs with Spark, without it, where so many of its attempts fail."""
    attempts: list[int] = []

    def run(core: Any, epoch: int) -> None:
        attempts.append(epoch)
        if len(attempts) <= times:
            raise error

    monkeypatch.setattr(loop, "run_epoch", run)
    found = SparkLoop.__new__(SparkLoop)
    failures: list[Exception] = []
    found.core = SimpleNamespace(path=str(path), epochs=SimpleNamespace(fail=failures.append))  # type: ignore[assignment]
    found._stop = threading.Event()
    return found


def test_an_epoch_that_fails_and_is_tried_again(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = epochs_that_fail(EngineError("epoch 7 failed: it\nrains"), 2, monkeypatch, tmp_path)
    epochs._run(7)
    assert heard("epoch failed") == [
        {"error": "epoch 7 failed: it rains", "epoch": 7, "attempt": attempt} for attempt in (1, 2)
    ]
    epochs = epochs_that_fail(EngineError("it rains"), 9, monkeypatch, tmp_path)
    with pytest.raises(EngineError) as stopped:
        epochs._run(8)
    epochs._fail(stopped.value)
    assert heard("engine stopped") == [{"path": str(tmp_path), "error": "it rains"}]


def test_a_full_disk_is_said_in_one_line(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    epochs_that_fail(full, 1, monkeypatch, tmp_path)._run(7)
    [said] = heard("the disk is full")
    free = said.pop("free_bytes")
    assert free >= 0 and said == {"path": str(tmp_path), "during": "epoch failed", "epoch": 7, "attempt": 1}
    assert not heard("epoch failed") and heard.levels("the disk is full") == {"ERROR"}


def test_jobs_that_fail(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "TRIES", 3)
    monkeypatch.setattr(loop, "UPKEEP", 0)
    jobs, given_up = _Jobs(str(tmp_path), lambda: False), []

    def work() -> None:
        raise ValueError("no")

    for _ in range(3):
        jobs.run("back-fill of q", work, given_up.append)
    assert [(e["job"], e["attempt"]) for e in heard("job failed")] == [("back-fill of q", n) for n in (1, 2, 3)]
    assert heard("job given up") == [{"job": "back-fill of q", "attempts": 3, "error": "no"}] and given_up == ["no"]
    jobs.run("upkeep", work)
    jobs.run("upkeep", lambda: None)
    jobs.run("upkeep", lambda: None)
    assert heard("job succeeded") == [{"job": "upkeep", "attempt": 2}]


def test_nothing_is_said_for_every_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "millpond")
    counts = []
    for rows in (10, 1000):
        caplog.clear()
        with millpond.open(tmp_path / f"pond{rows}", executor="inline") as pond:
            pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts')")
            pond.sql("CREATE QUERY q AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS]")
            pond.ingest("s", [row(n) for n in range(rows)])
            pond.drain()
        counts.append(len(caplog.records))
    assert counts[0] == counts[1]


def test_the_command_line_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, level = list(logging.getLogger().handlers), logging.getLogger("millpond").level
    script = tmp_path / "script.sql"
    script.write_text("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts'); SELECT nothing FROM s;")
    try:
        found = CliRunner().invoke(
            app,
            ["run", str(script), "--pond", str(tmp_path / "pond"), "--executor", "inline", "--log-format", "json"],
            env={"MILLPOND_LOG_LEVEL": "info"},
        )
    finally:
        logging.getLogger().handlers[:] = before
        logging.getLogger("millpond").setLevel(level)
    assert found.exit_code == 2
    lines = [json.loads(line) for line in found.stderr.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines] == ["pond opened", "pond closed", "failed"]
    assert {"time", "level", "logger", "event"} <= set(lines[0]) and lines[0]["path"] == os.fspath(tmp_path / "pond")
    assert "nothing" in lines[-1]["error"] and lines[-1]["level"] == "error"
