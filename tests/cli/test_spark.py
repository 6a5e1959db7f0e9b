"""The command line on Spark, as a process of its own: answers, exit statuses, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millpond import connect

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
CREATE STREAM landings (departed TIMESTAMP, origin TEXT, dep_delay INTEGER)
  WITH (source='files', path='{landings}/landings-2013-03-0*.parquet', event_time='departed', lateness='4 hours');
CREATE QUERY q WITH (since='start') AS SELECT count(*) AS n FROM landings [RANGE 60 MINUTES SLIDE 40 MINUTES];
DRAIN FINAL;
SELECT sum(n) AS n, count(*) AS windows FROM q;
"""

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


def millpond(*arguments: str) -> subprocess.Popen[str]:
    """The command, in a process group of its own as a terminal would start it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", "TMPDIR": os.getcwd()}
    environment.pop("MILLPOND_EXECUTOR", None)
    return subprocess.Popen(
        [sys.executable, "-m", "millpond", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def test_a_script_runs_and_leaves_no_temporary_pond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process = millpond("run", "-", "--format", "json")
    rows, messages = process.communicate(
        SCRIPT.format(landings=ROOT / "examples" / "flights" / "landings"), timeout=540
    )
    assert process.returncode == 0, messages
    assert "stream landings created" in messages
    assert "drained" in messages
    # Nothing of Spark's own: no warnings of the JVM, no word about logging.
    # That an epoch was slow is said on a busy machine.
    lines = messages.splitlines()
    said = [line for line in lines if not line.startswith("Spark is starting") and "slow epoch" not in line]
    assert len(said) == 3 and said[1].startswith("query q created"), messages
    assert json.loads(rows)["windows"] > 250
    assert list(tmp_path.glob("millpond-*")) == []


def test_a_wrong_statement_does_not_wait_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole script is looked over first: nothing is done, not even what stands before the mistake."""
    monkeypatch.chdir(tmp_path)
    process = millpond("run", "-")
    script = SCRIPT.format(landings=ROOT / "examples" / "flights" / "landings")
    rows, messages = process.communicate(script + "SELECT windws FROM q", timeout=540)
    assert process.returncode == 2 and rows == ""
    assert "windws" in messages and "created" not in messages


def test_ctrl_c_stops_cleanly_and_the_pond_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process = millpond("demo", "--pond", "demo", "--months", "1")
    assert process.stdout is not None
    for line in process.stdout:
        if " late " in line and " 0 rows " not in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=300)
    assert process.returncode == 130, messages
    assert messages.rstrip().endswith("stopped")
    again = millpond("sql", "SELECT count(*) AS n FROM landings", "--pond", "demo/pond", "--format", "json")
    rows, messages = again.communicate(timeout=540)
    assert again.returncode == 0, messages
    assert json.loads(rows)["n"] > 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 0)])
def test_a_signal_to_the_group_lets_the_pond_end_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    """A service manager signals every process of a service: Spark's JVM must not go before the pond is closed."""
    monkeypatch.chdir(tmp_path)
    process = millpond("serve", "--pond", "pond", "--port", "0")
    assert process.stderr is not None
    line = next(line for line in process.stderr if "serves" in line)
    with connect(line.split()[-1]) as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts')")
        pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 SECOND]")
        pond.ingest("s", [{"ts": "2026-01-01 00:00:00", "v": 1}])
        pond.drain()
        pond.ingest("s", [{"ts": "2026-01-01 00:00:05", "v": 1}])  # an epoch may be under way
    os.killpg(process.pid, number)
    messages = process.communicate(timeout=300)[1]
    assert process.returncode == status, messages
    said = "\n".join(line for line in messages.splitlines() if "slow epoch" not in line)  # as on a busy machine
    assert not re.search("Traceback|Py4J|Exception|ERROR|WARN", said), messages
