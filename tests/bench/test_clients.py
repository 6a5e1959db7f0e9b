"""A short run of `bench.clients`, with the server killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_few_clients_and_a_kill() -> None:
    options = "--clients 8 --minutes 0.2 --pause 0.1 --sample 1 --kill --executor inline"
    command = [sys.executable, "-m", "bench.clients", *options.split()]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout, run.stderr[-2000:]
    lines = {line["case"]: line for line in map(json.loads, run.stdout.splitlines())}
    assert run.returncode == 0 and lines["end"]["correct"], lines["end"]
    assert lines["end"]["restart_s"] and lines["end"]["rows"] == lines["end"]["followed"] > 0
    assert all(lines[name]["count"] for name in ("register", "invoke", "ingest", "follow", "drop"))
