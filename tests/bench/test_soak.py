"""A short soak in every run: queries come and go under steady load on Spark, answers equal DuckDB's at the end.

Flatness needs the thirty minutes of `python -m bench.soak`; in less than one it would be chance.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("minutes", ["0.2", pytest.param("1", marks=pytest.mark.deep)])
def test_a_while_of_load(minutes: str) -> None:
    command = [sys.executable, "-m", "bench.soak", "--minutes", minutes, "--rate", "2000", "--queries", "4"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert run.stdout, run.stderr[-2000:]
    last = json.loads(run.stdout.strip().splitlines()[-1])
    assert last["correct"], last
