"""One process, one pond, several histories: what is kept of one never shows in the answers of another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from millpond.archive.upkeep.backup import backup, restore
from tests.histories import AGAIN, QUERIES, History, gone_on

STEPS = 4


def in_a_fresh_process(folder: Path, seed: int) -> dict[str, Any]:
    """The answers of a pond that goes on in a process that has kept nothing."""
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    command = [sys.executable, "-m", "tests.histories", str(folder), str(seed), str(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_restored_pond_answers_as_in_a_fresh_process(tmp_path: Path) -> None:
    pond, saved = tmp_path / "pond", tmp_path / "saved"
    first = History(pond)
    with first.pond:
        first.begin()
        backup(str(pond), str(saved))
        told = first.go_on(1, 1)  # what it keeps is as old as the next history's silent epoch

    def restored(name: str) -> Path:
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        restore(str(saved), str(tmp_path / name))
        return tmp_path / name

    expected = in_a_fresh_process(restored("fresh"), 2)
    assert all(expected[name] for name in [*QUERIES, *AGAIN, "few"])
    assert not [name for name in expected if expected[name] == told[name]], "the histories do not differ"
    found = gone_on(restored("pond"), 2, STEPS)
    assert not [name for name in expected if found[name] != expected[name]], "another history shows"
    gone_on(restored("pond"), 3, STEPS + 2)
    found = gone_on(restored("other"), 2, STEPS)
    assert not [name for name in expected if found[name] != expected[name]], "another history shows"
