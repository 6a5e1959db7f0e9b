"""The commands serve and token: addresses, tokens, signals, kill and restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.server import Tokens, make_token
from millpond.server.access.auth import hash_of
from millpond.server.serve import is_loopback
from millpond.support.errors import PondError
from tests.server.conftest import SCRIPT, rows

SOURCE = str(Path(millpond.__file__).parent.parent)


def started(path: Path, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """`millpond serve` and its URL."""
    command = [sys.executable, "-m", "millpond", "serve", "--pond", str(path), "--port", "0", "--executor", "inline"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    process = subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    line = next((line for line in process.stderr if "serves" in line), "")  # behind lines of its log
    assert line, "it did not start"
    return process, line.split()[-1]


def test_its_log_as_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "millpond", "serve", "--pond", str(tmp_path / "pond"), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": SOURCE, "MILLPOND_EXECUTOR": "inline", "MILLPOND_LOG_FORMAT": "json"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:  # every one is JSON
        lines.append(json.loads(line))
        if lines[-1]["event"] == "serving":
            with millpond.connect(lines[-1]["url"]) as pond:
                pond.sql("SHOW STREAMS")
            process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert [line["event"] for line in lines] == ["pond opened", "serving", "pond closed"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    process, url = started(tmp_path / "pond")
    with millpond.connect(url) as pond:
        pond.sql(SCRIPT)
        pond.ingest("s", rows(0, 25))
        pond.drain()
        subscription = pond.subscribe("q")
        next(subscription)  # an open subscription does not hold it up
        process.send_signal(number)
        assert process.wait(120) == 0
        subscription.close()
    with millpond.open(str(tmp_path / "pond"), executor="inline") as opened:
        assert opened.sql("SELECT count(*) FROM s").rows() == [(25,)]


def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    process, url = started(tmp_path / "pond")
    with millpond.connect(url) as pond:
        pond.sql(SCRIPT)
        for start in range(0, 50, 10):
            pond.ingest("s", rows(start, start + 10), key=f"k{start}")
        process.kill()
        process.wait()
    process, url = started(tmp_path / "pond")
    try:
        with millpond.connect(url) as pond:
            pond.ingest("s", rows(40, 50), key="k40")  # a retry across the crash
            pond.drain()
            assert pond.sql("SELECT count(*), sum(v) FROM s").rows() == [(50, sum(range(50)))]
            assert pond.query("q").result().epoch >= 1
    finally:
        process.terminate()
        process.wait(120)


def test_it_ends_with_its_engine(tmp_path: Path) -> None:
    program = """
import sys, threading, errno
import millpond
from millpond.cli.app import app
opened = millpond.open

def failing(*arguments, **more):
    pond = opened(*arguments, **more)
    error = OSError(errno.ENOSPC, "No space left on device")
    threading.Timer(1.0, lambda: pond._core.epochs.fail(error)).start()
    return pond

millpond.open = failing
app(["serve", "--pond", sys.argv[1], "--port", "0", "--executor", "inline"])
"""
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", program, str(tmp_path / "pond")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "error: the engine has stopped: [Errno 28] No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_tokens_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-m", "millpond", "token", "--owner", "alice", "--role", "write", "--file", str(file)]
    made = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    secret = made.stdout.strip()
    assert secret not in file.read_text() and secret not in made.stderr and file.stat().st_mode & 0o777 == 0o600
    process, url = started(tmp_path / "pond", "--token-file", str(file))
    try:
        with pytest.raises(PondError, match="token"):
            millpond.connect(url)
        with millpond.connect(url, secret) as pond:
            assert pond.sql("SHOW STREAMS").rows() == []
    finally:
        process.terminate()
        assert process.wait(120) == 0


def test_it_does_not_start_without_tokens_where_others_reach_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "millpond", "serve", "--pond", str(tmp_path / "pond"), "--host", "0.0.0.0"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([*command, "--executor", "inline"], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "it needs tokens" in done.stderr and not (tmp_path / "pond").exists()
    done = subprocess.run([*command, "--limit", "nothing=1"], capture_output=True, text=True, env=environment)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "holds no token"),
        (["# nothing", ""], "holds no token"),
        (["read alice"], "line 1: expected"),
        (["root alice " + "x" * 30], "line 1: the role"),
        (["read al/ice " + "x" * 30], "line 1: an owner"),
        (["", "read alice short"], "line 2: a token has at least"),
        (["read alice sha256:123"], "line 1: a token has at least"),
    ],
)
def test_wrong_token_files(lines: list[str], text: str) -> None:
    with pytest.raises(PondError, match=text) as caught:
        Tokens(lines)
    assert "short" not in str(caught.value) and "xxx" not in str(caught.value)


def test_token_files_are_private(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"admin a {hash_of('x' * 20)}\n")
    file.chmod(0o644)
    with pytest.raises(PondError, match="chmod 600"):
        Tokens.read(file)
    file.chmod(0o600)
    assert Tokens.read(file).find("Bearer " + "x" * 20).role == "admin"
    with pytest.raises(PondError, match="cannot be read"):
        Tokens.read(tmp_path / "none")


def test_tokens_are_long_and_their_lines_good() -> None:
    found: set[Any] = set()
    for role in ("read", "write", "admin"):
        secret, line = make_token(role, "bob")
        assert len(secret) > 40 and secret not in line
        assert Tokens([line]).find(f"bearer {secret}").role == role
        found.add(secret)
    assert len(found) == 3
    for role, owner in (("root", "bob"), ("read", "b b"), ("read", "b\nadmin x")):
        with pytest.raises(PondError):
            make_token(role, owner)


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "")))
