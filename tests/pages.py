"""Runs the examples of a page of the documentation.

Blocks of one page share a folder, a Python scope and a shell. `python` blocks are executed; `sql` blocks that a `text`
block follows run on the scope's `pond`; `sh` blocks with `millpond` or `curl` run in the shell, and `millpond serve`
in its background. A `text` block right behind is what they print, where `…` stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from millpond.cli.output import Format, Writer

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n(?:\n?^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_PORT = "7474"


@dataclass(frozen=True)
class Block:
    """An example: its language, its text, the line it starts at, and what it prints (None: anything)."""

    kind: str
    text: str
    line: int
    printed: str | None
    span: tuple[int, int]


def blocks(page: str) -> list[Block]:
    """The examples of a page that can be run."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [
        Block(m[1], m[2], text[: m.start()].count("\n") + 2, m[3], m.span(3))
        for m in _BLOCK.finditer(text)
        if m[1] in ("python", "sql", "sh")
    ]
    commands = re.compile(r"^(millpond|curl|tar|mkdir|export MILLPOND)", re.MULTILINE)
    return [
        b
        for b in found
        if b.kind == "python"
        or (b.kind == "sql" and b.printed is not None)
        or (b.kind == "sh" and page != "README.md" and commands.search(b.text))
    ]


class Shell:
    """A shell that lives as long as a page, with the command `millpond` and a free port in place of 7474."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which("curl"):
            pytest.skip("the examples use curl")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        commands = folder / ".commands"
        commands.mkdir()
        (commands / "millpond").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m millpond "$@"\n')
        (commands / "millpond").chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MILLPOND_")}
        environment |= {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "MILLPOND_EXECUTOR": "inline",
            "no_proxy": "*",
        }
        self._folder = folder
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, text: str) -> str:
        """Run a block; what it prints. A block that is `millpond serve …` goes on running; its first line is given."""
        assert self._shell.stdin is not None and self._shell.stdout is not None
        if text.startswith("millpond serve"):
            return self._serve(text)
        self._shell.stdin.write(f"{text.replace(_PORT, self.port)}\nprintf '\\n%s %s\\n' --done $?\n")
        self._shell.stdin.flush()
        printed = ""
        for line in self._shell.stdout:
            if line.startswith("--done"):
                assert line == "--done 0\n", printed
                return printed.removesuffix("\n").replace(self.port, _PORT)
            printed += line
        raise AssertionError(f"the shell ended: {printed}")

    def _serve(self, text: str) -> str:
        assert self._shell.stdin is not None
        log = self._folder / ".server"
        log.unlink(missing_ok=True)
        command = text.strip().replace(_PORT, self.port)
        if _PORT not in text:
            command += f" --port {self.port}"
        self._shell.stdin.write(f"{command} 2>.server >/dev/null &\n")
        self._shell.stdin.flush()
        deadline = time.monotonic() + 300
        while not (said := [line for line in _lines(log) if "serves" in line]):  # behind lines of its log
            assert time.monotonic() < deadline, f"the server did not start: {_lines(log)}"
            time.sleep(0.05)
        return said[0].replace(self.port, _PORT)

    def close(self) -> None:
        """End the shell and what runs in its background."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._shell.wait(120)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)


def _lines(file: Path) -> list[str]:
    lines = file.read_text().splitlines(keepends=True) if file.is_file() else []
    return [line for line in lines if line.endswith("\n")]


def run_page(page: str, folder: Path) -> None:
    """Run the examples of a page in a folder.

    Raises: AssertionError with the line of the first that fails or prints something else.
    """
    found = blocks(page)
    assert found, f"{page} has no examples"
    scope: dict[str, Any] = {}
    prints: list[str] = []
    with contextlib.ExitStack() as stack:
        shell: Shell | None = None
        for block in found:
            if block.kind == "sh" and shell is None:
                shell = Shell(folder)
                stack.callback(shell.close)
            prints.append(_run(block, page, scope, shell))
            if block.printed is not None and not os.environ.get("MILLPOND_WRITE_DOCS"):
                assert _agree(block.printed, prints[-1]), (
                    f"{page}, line {block.line}, prints\n{prints[-1]}in place of\n{block.printed}"
                )
    if os.environ.get("MILLPOND_WRITE_DOCS"):
        _write(page, found, prints)


def _run(block: Block, page: str, scope: dict[str, Any], shell: Shell | None) -> str:
    if block.kind == "sh":
        assert shell is not None
        return shell.run(block.text)
    printed = io.StringIO()
    if block.kind == "sql":
        writer = Writer(Format.table, printed, io.StringIO())
        for result in scope["pond"].run(block.text):
            if result.table is not None:
                writer.write(result.table)
            if result.message:
                printed.write(f"{result.message}\n")
    else:
        text = block.text if shell is None else block.text.replace(_PORT, shell.port)
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (block.line - 1) + text, page, "exec"), scope)
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())


def _agree(expected: str, printed: str) -> bool:
    lines = [".*?".join(re.escape(part) for part in line.rstrip().split("…")) for line in expected.splitlines()]
    given = [line.rstrip() for line in printed.splitlines()]
    return re.fullmatch("\n".join(lines), "\n".join(given), re.DOTALL) is not None


def _write(page: str, found: list[Block], prints: list[str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for block, printed in reversed(list(zip(found, prints, strict=True))):
        if block.printed is not None and not _agree(block.printed, printed):
            ended = printed if printed.endswith("\n") or not printed else printed + "\n"
            text = text[: block.span[0]] + ended + text[block.span[1] :]
    (ROOT / page).write_text(text, encoding="utf-8")
