"""The command line and the demo on the real engine, without a JVM."""

from __future__ import annotations

import contextlib
import io
import json
import re
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import millpond
from millpond.cli import demo
from millpond.cli.app import app
from millpond.cli.demo import example_folder, landing_files

ROOT = Path(__file__).resolve().parents[2]
JSON = ("--format", "json")
READINGS = """ts,sensor,mph
2026-01-01 00:00:10,a,10
2026-01-01 00:00:50,b,30
2026-01-01 00:01:05,a,20
2026-01-01 00:00:55,a,40
oops,a,1
"""


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text(READINGS)
    return f"""
        -- a comment; with a semicolon
        CREATE STREAM r (ts TIMESTAMP, sensor TEXT, mph DOUBLE)
          WITH (source='files', path='{tmp_path}/in/*.csv', event_time='ts', lateness='5s');
        CREATE QUERY q WITH (since='start') AS
          SELECT sensor, count(*) AS n, avg(mph) AS mph FROM r [RANGE 1 MINUTE TUMBLING] GROUP BY sensor;
        DRAIN FINAL;
    """


def call(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=text)


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_script_from_files_to_answers(setup: str) -> None:
    answers = "SELECT window_end, sensor, n, mph, revision FROM q ORDER BY window_end, sensor;"
    end = "2026-01-01T00:01:00.000000Z"
    assert lines(call("run", "-", "--format", "json", text=setup + answers)) == [
        {"window_end": end, "sensor": "a", "n": 2, "mph": 25.0, "revision": 0},
        {"window_end": end, "sensor": "b", "n": 1, "mph": 30.0, "revision": 0},
        {"window_end": "2026-01-01T00:02:00.000000Z", "sensor": "a", "n": 1, "mph": 20.0, "revision": 0},
    ]


def test_messages_are_kept_apart_from_rows(setup: str) -> None:
    result = call("sql", setup)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) >= 3


def test_a_pond_that_is_kept_goes_on(setup: str, tmp_path: Path) -> None:
    pond = str(tmp_path / "pond")
    assert call("sql", setup, "--pond", pond).exit_code == 0
    rows = lines(
        call("sql", "SELECT count(*) AS n FROM r; SELECT sum(n) AS n FROM q", "--pond", pond, "--format", "json")
    )
    assert rows == [{"n": 4}, {"n": 4}]
    state = json.loads(call("status", "--pond", pond, "--json").stdout)
    assert state["streams"]["r"]["rows"] == 4
    assert state["streams"]["r"]["dead"] == 1
    assert call("status", "--pond", pond).exit_code == 0


def test_a_wrong_statement_shows_its_place(setup: str) -> None:
    result = call("sql", setup + "SELECT sensro FROM r")
    assert result.exit_code == 2
    assert "did you mean 'sensor'?" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_folder_that_is_no_pond_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    (tmp_path / "x").mkdir()
    result = call("status", "--pond", str(tmp_path / "x"))
    assert result.exit_code == 1
    assert "no pond" in result.stderr
    assert list((tmp_path / "x").iterdir()) == []


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    first_days = landing_files(example_folder(), 1)[:8]
    monkeypatch.setattr(demo, "landing_files", lambda example, months: first_days)
    result = call("demo", "--pond", str(tmp_path / "demo"))
    assert result.exit_code == 0, result.stderr
    counts = r"([\d,]+) rows in .* ([\d,]+) answers, ([\d,]+) late rows, ([\d,]+) revised"
    found = re.search(counts, result.stdout)
    assert found, result.stdout
    rows, answers, late, revised = (int(group.replace(",", "")) for group in found.groups())
    assert rows == sum(pq.read_metadata(file).num_rows for file in first_days)
    assert answers > 3_000
    assert late > 10
    assert revised > 50
    for title in ("backed up most", "The busiest hours", "revised most often", "The past is still there"):
        assert title in result.stdout
    assert (tmp_path / "demo" / "pond" / "pond.json").is_file()


def test_the_first_query_of_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    monkeypatch.chdir(ROOT)
    scripts = re.findall(r"millpond run - <<'SQL'\n(.*?)\nSQL\n", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(scripts) == 1
    rows = lines(call("run", "-", *JSON, text=scripts[0]))
    assert len(rows) == 5
    assert (rows[0]["origin"], rows[0]["delay"]) == ("EWR", 245.9)


def test_the_python_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(programs) == 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(millpond, "open", partial(millpond.open, executor="inline"))
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        names: dict[str, object] = {}
        for program in programs:
            exec(program, names)
    assert shown.getvalue().count("'mph': 12.5") == 2


def test_a_wrong_statement_is_found_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Syntax, names and types of the whole script, as they will be then; with exit status 2 and nothing executed."""
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    declared = "CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts');"
    for script, message in (
        (f"{declared} DRAIN; SELEC 1", "'SELEC' does not start a statement"),
        (f"{declared} DRAIN; SELECT m FROM s", "there is no column 'm' in s"),
        (f"{declared} ALTER STREAM s ADD COLUMN m INTEGER; SELECT k FROM s", "there is no column 'k' in s"),
        (
            f"{declared} CREATE QUERY q AS SELECT count(*) AS c FROM s [RANGE TUMBLING 1 HOUR]; SELECT d FROM q",
            '"d" not found',
        ),
        (f"{declared} CREATE STREAM t AS SELECT ts FROM s; SELECT n FROM t", "there is no column 'n' in t"),
        (f"{declared} CREATE QUERY r AS SELECT n FROM s; SELECT n FROM r", "'r' is a row query"),
        (f"{declared} DROP STREAM s; SELECT n FROM s", "there is no stream, table or query 's'"),
    ):
        done = call("sql", script, "--pond", str(tmp_path / "pond"))
        assert message in done.stderr and "created" not in done.stderr, (script, done.stderr)
        assert done.exit_code in (1, 2) if "row query" in message else done.exit_code == 2
    done = call("sql", "SHOW STREAMS", "--pond", str(tmp_path / "pond"), "--format", "json")
    assert done.exit_code == 0 and done.stdout == ""


def test_what_is_checked_before_is_what_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that come and go in the script itself are no errors."""
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    table = tmp_path / "t.csv"
    table.write_text("n\n1\n")
    done = call(
        "sql",
        "CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts', retention='1 day');"
        "CREATE TABLE IF NOT EXISTS t (n INTEGER) WITH (path='{}');"
        "CREATE QUERY q AS SELECT n, count(*) AS c FROM s [RANGE TUMBLING 1 HOUR] GROUP BY n;"
        "CREATE STREAM d AS SELECT n, count(*) AS c FROM s [RANGE TUMBLING 1 HOUR] GROUP BY n;"
        "CREATE STREAM rows AS SELECT ts, n FROM s WHERE n > 3; CREATE QUERY r AS SELECT n FROM s;"
        "ALTER STREAM s ADD COLUMN x TEXT; SELECT x FROM s; SELECT covered_from, c FROM q JOIN t USING (n);"
        "SELECT op, c FROM d; SELECT n FROM rows; INVOKE r; DROP QUERY r; CREATE QUERY r AS SELECT x FROM s;"
        "DROP STREAM s CASCADE; CREATE STREAM s (ts TIMESTAMP, y INTEGER) WITH (event_time='ts'); SELECT y FROM s;"
        "EXPLAIN SELECT y FROM s; SHOW QUERIES".replace("{}", str(table)),
        "--pond",
        str(tmp_path / "pond"),
    )
    assert done.exit_code == 0, done.stderr
    again = "CREATE QUERY IF NOT EXISTS again AS SELECT y FROM s WHERE y > 3"
    for _ in range(2):  # the second time it is there
        done = call("sql", again, "--pond", str(tmp_path / "pond"))
        assert done.exit_code == 0, done.stderr


def test_registered_kinds_of_windows_are_known_when_a_script_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hourly_kind.py").write_text(
        "from millpond.types import HOUR, TimeWindow\nfrom millpond.windows.kinds import Sliding\n"
        "hours = Sliding(TimeWindow(HOUR, HOUR))\n"
    )
    done = call(
        "sql",
        "CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts');"
        "CREATE QUERY q AS SELECT count(*) AS c FROM s [KIND hours]",
        *("--pond", str(tmp_path / "pond"), "--set", "window_kind.hours=hourly_kind:hours"),
    )
    assert done.exit_code == 0, done.stderr
