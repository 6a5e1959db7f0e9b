"""The command line: where rows and messages go, and how it ends. The engine is a fake here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import millpond
from millpond.cli.app import app
from tests.cli.fakes import FakePond

ROOT = Path(__file__).resolve().parents[2]
runner = CliRunner()


@pytest.fixture
def ponds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakePond]]:
    opened: list[FakePond] = []

    def open_(path: Path, **settings: Any) -> FakePond:
        opened.append(FakePond(Path(path), settings))
        return opened[-1]

    monkeypatch.setattr(millpond, "open", open_, raising=False)
    yield opened
    assert all(pond.closed for pond in opened)


def program(*arguments: str, trace: Path | None = None) -> subprocess.Popen[str]:
    """The command line on a fake pond, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONUNBUFFERED": "1"}
    if trace:
        environment["FAKE_POND_TRACE"] = str(trace)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cli.fakes", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )


def test_rows_go_to_standard_output_and_messages_to_standard_error(ponds: list[FakePond], tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text("message; rows; message;")
    result = runner.invoke(app, ["run", str(script), "--pond", str(tmp_path / "p"), "--format", "json"])
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()] == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert result.stderr == "done\ndone\n"
    assert ponds[0].path == tmp_path / "p"


def test_sql_takes_statements_from_the_call(ponds: list[FakePond]) -> None:
    result = runner.invoke(app, ["sql", "rows rows", "--format", "csv"])
    assert result.stdout == "a,b\n1,x\n2,\n\na,b\n1,x\n2,\n"


@pytest.mark.parametrize("statements", ["SHOW STREAMS", "SELECT * FROM s; DRAIN", "EXPLAIN q"])
def test_a_pond_that_is_not_there_is_not_made_by_who_only_asks(tmp_path: Path, statements: str) -> None:
    result = runner.invoke(app, ["sql", statements, "--pond", str(tmp_path / "tpyo"), "--executor", "inline"])
    assert result.exit_code == 1 and "there is no pond in" in result.stderr and not (tmp_path / "tpyo").exists()
    create = ["sql", "CREATE STREAM s (ts TIMESTAMP)", "--pond", str(tmp_path / "p"), "--executor", "inline"]
    assert runner.invoke(app, create).exit_code == 0 and (tmp_path / "p" / "pond.json").is_file()


def test_parameters_reach_the_pond(ponds: list[FakePond]) -> None:
    call = ["sql", "rows", "--param", "k=it's", "--param", "n=5", "--param", 'l=["a"]', "--param", "day=2026-03-01"]
    assert runner.invoke(app, call).exit_code == 0
    assert ponds[0].parameters == {"k": "it's", "n": 5, "l": ["a"], "day": "2026-03-01"}
    assert runner.invoke(app, ["sql", "rows", "--param", "k"]).exit_code == 2


def test_a_script_from_standard_input(ponds: list[FakePond]) -> None:
    result = runner.invoke(app, ["run", "-", "--format", "csv"], input="rows")
    assert result.stdout == "a,b\n1,x\n2,\n"


def test_a_temporary_pond_is_removed(ponds: list[FakePond]) -> None:
    assert runner.invoke(app, ["sql", "message"]).exit_code == 0
    assert not ponds[0].path.exists()


def test_settings_and_executor_reach_the_pond(ponds: list[FakePond], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    assert runner.invoke(app, ["sql", "message", "--set", "shards=4", "--set", "master=local[2]"]).exit_code == 0
    assert ponds[0].settings == {"executor": "inline", "shards": "4", "master": "local[2]"}


@pytest.mark.parametrize("name", ["executor", "path", "clock", "window_kinds"])
@pytest.mark.parametrize("command", [["run", "-"], ["sql", "message"], ["serve", "--pond", "p"]])
def test_what_is_no_setting_is_not_set(ponds: list[FakePond], command: list[str], name: str) -> None:
    result = runner.invoke(app, [*command, "--set", f"{name}=inline"])
    assert result.exit_code == 2
    assert f"'{name}' is not set with --set" in " ".join(result.stderr.replace("│", " ").split())
    assert not ponds


def test_a_wrong_statement_ends_with_2_and_shows_the_place(ponds: list[FakePond]) -> None:
    result = runner.invoke(app, ["sql", "rows; wrong;"])
    assert result.exit_code == 2
    assert "line 1, column 7: no such thing" in result.stderr
    assert "^^^^^" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_failure_ends_with_1_without_a_trace(ponds: list[FakePond]) -> None:
    result = runner.invoke(app, ["sql", "fail"])
    assert (result.exit_code, result.stderr) == (1, "error: epoch 7 failed: disk full\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "not-there.sql"],
        ["run"],
        ["run", "-", "--format", "xml"],
        ["sql", "rows", "--set", "nonsense"],
        ["status", "--pond", "not-there"],
        ["frobnicate"],
    ],
)
def test_a_wrong_call_ends_with_2(ponds: list[FakePond], arguments: list[str]) -> None:
    assert runner.invoke(app, arguments).exit_code == 2


def test_text_that_is_not_utf_8_is_refused(ponds: list[FakePond], tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_bytes(b"SELECT '\xff'")
    result = runner.invoke(app, ["run", str(tmp_path / "a.sql")])
    assert result.exit_code == 2
    assert "UTF-8" in result.stderr


def test_status(ponds: list[FakePond], tmp_path: Path) -> None:
    (tmp_path / "pond.json").touch()
    shown = runner.invoke(app, ["status", "--pond", str(tmp_path)])
    assert shown.exit_code == 0
    assert "1,234" in shown.stdout
    assert "2013-03-01 10:00:00" in shown.stdout
    plain = runner.invoke(app, ["status", "--pond", str(tmp_path), "--json"])
    assert json.loads(plain.stdout)["queries"] == {"q": {"rows": 9, "revisions": 1}}


def test_doctor() -> None:
    lines = runner.invoke(app, ["doctor", "--json"]).stdout.splitlines()
    assert {"name", "status", "found", "mend"} == set(json.loads(lines[0]))
    assert "Java" in runner.invoke(app, ["doctor"]).stdout


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_closes_the_pond(tmp_path: Path, number: int, status: int) -> None:
    process = program("sql", "sleep", trace=tmp_path / "closed")
    assert process.stdout is not None
    assert process.stdout.readline() == "sleeping\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == status
    assert "Traceback" not in errors
    pond = Path((tmp_path / "closed").read_text())
    assert not pond.exists()


def test_a_broken_pipe_is_silent(tmp_path: Path) -> None:
    process = program("sql", "many", "--format", "json", trace=tmp_path / "closed")
    assert process.stdout is not None
    assert process.stdout.readline() == '{"a":0}\n'
    process.stdout.close()
    assert process.wait(timeout=120) == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert (tmp_path / "closed").exists()


def test_a_bug_keeps_its_trace() -> None:
    process = program("sql", "bug")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "ZeroDivisionError" in errors
