"""docs/adding-an-operator.md builds its operator: its blocks alone, put into a copy of the source, keep the laws."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT

PAGE = "docs/adding-an-operator.md"

#: A block that is a file, or a change of one: its language, its path, its text.
_BLOCK = re.compile(r"^```(python|diff) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Folders that a newcomer has, less what running them has left there.
_GIVEN = ("src", "tests", "docs")


def built(folder: Path) -> tuple[dict[str, str], list[tuple[str, list[str]]]]:
    """A copy of the source with what the page says; its new files by path, and the lines that it adds to others."""
    for name in _GIVEN:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    made, added = {}, []
    for kind, path, text in _BLOCK.findall((ROOT / PAGE).read_text(encoding="utf-8")):
        file = folder / path
        if kind == "python":
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            made[path] = text
            continue
        lines = text.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" ", " +"))
        assert file.read_text().count(before) == 1, f"{path} has no place for\n{after}"
        file.write_text(file.read_text().replace(before, after))
        added.append((path, [line for line in lines if line[0] == "+"]))
    return made, added


def run(folder: Path, *command: str) -> None:
    """Run a command of Python in the copy. Raises: AssertionError with what it printed when it fails."""
    environment = os.environ | {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_operator_of_the_page_keeps_the_laws(tmp_path: Path) -> None:
    made, added = built(tmp_path)
    assert all(path.startswith("src/millpond/operators/last_row/") for path in made)
    assert sum(len(text.splitlines()) for text in made.values()) < 150
    # The registry gets an import and a line, and so does the suite of laws; nothing else is changed.
    assert {path for path, _ in added} == {"src/millpond/operators/registry.py", "tests/operators/kinds.py"}
    assert len(added) == 4
    assert all(len(lines) == 1 for _, lines in added)
    run(tmp_path, "-m", "ruff", "check", *made, "src/millpond/operators/registry.py", "tests/operators/kinds.py")
    run(tmp_path, "-m", "ruff", "format", "--check", *made, "tests/operators/kinds.py")
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:xdist", "tests/operators", "-k", "LastRow or entry")
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:xdist", "tests/test_architecture.py")
    run(tmp_path, "-c", f"from pathlib import Path; from tests.pages import run_page; run_page({PAGE!r}, Path.cwd())")
