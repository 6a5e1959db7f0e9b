"""`millpond top` and EXPLAIN ANALYZE show the same numbers, of a folder and over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

import millpond
from millpond.cli.app import app
from millpond.cli.top import draw, look
from tests.quick import quick_folder


def fill(path: Path) -> None:
    with millpond.open(path, executor="inline") as pond:
        pond.sql("""
            CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts');
            CREATE STREAM big AS SELECT ts, v FROM s WHERE v > 1;
            CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS];
            CREATE QUERY i AS SELECT ISTREAM(v) FROM big [RANGE 10 SECONDS]
        """)
        for second in (0, 10, 20):
            times = [f"2026-01-01 00:00:{second:02d}"] * 3
            pond.ingest("s", {"ts": times, "v": [1, 2, 3]})
            pond.step()
        pond.drain()
        seen = look(pond)
        operators = {o["operator"]: o for o in seen["operators"]}
        assert (operators["big"]["rows_in"], operators["big"]["rows_out"]) == (9, 6)
        assert operators["big"]["selectivity"] == pytest.approx(2 / 3, abs=1e-6)
        queries = {q["query"]: q for q in seen["queries"]}
        assert queries["q"]["rows_out"] == 2
        assert queries["i"]["rows_out"] == 4  # all but those of the last instant, which may go on
        assert seen["pond"]["rows"] == 15 and seen["pond"]["waiting_rows"] == 0
        plan = "\n".join(line for (line,) in pond.sql("EXPLAIN ANALYZE q").rows())
        assert "answers: 2 rows" in plan and "9 rows in, 3 out (selectivity 0.3333)" in plan
        assert "6 rows in, 6 out" in "\n".join(line for (line,) in pond.sql("EXPLAIN ANALYZE i").rows())


def test_top_of_a_folder() -> None:
    with quick_folder() as folder:
        fill(folder / "pond")
        command = ["top", "--pond", str(folder / "pond"), "--once"]
        found = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
        assert found.exit_code == 0, found.stderr
        for part in ("epoch ", "streams", "queries", "state", "waiting 0 rows (fifo)", "big", "panes"):
            assert part in found.stdout
        seen = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
        assert seen["pond"]["looked_at"] == 0  # nothing has run since it was opened
        assert {s["stream"]: s["rows"] for s in seen["streams"]} == {"s": 9, "big": 6}
        assert draw(seen).renderables
        missing = CliRunner().invoke(app, ["top", "--pond", str(folder / "none"), "--once"])
        assert missing.exit_code != 0 and "there is no pond" in missing.stderr
        assert CliRunner().invoke(app, ["top", "--once"], env={"MILLPOND_URL": ""}).exit_code != 0


def test_top_again_and_again_into_a_pipe() -> None:
    """Where nothing can be drawn over, each look is printed below the one before, as soon as it is there."""
    with quick_folder() as folder:
        fill(folder / "pond")
        command = [sys.executable, "-m", "millpond", "top", "--pond", str(folder / "pond"), "--interval", "0.1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            looks = [line for line in islice(running.stdout, 60) if line.startswith("millpond top")]
            running.terminate()
        assert len(looks) >= 2
