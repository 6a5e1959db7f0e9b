"""Backup and restore, as docs/operating.md tells: the files of a stopped pond, and a snapshot of a running one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.support.errors import PondError
from tests.server.conftest import SCRIPT, rows

#: What docs/operating.md says need not be copied.
DERIVED = ("lock", "checkpoint", "pools.xml", "hot")


def all_answers(pond: Any) -> list[Any]:
    """Everything that there is to ask."""
    handles = [pond.query(name) for name in ("q", "mine", 4)]
    answers = [h.result().table.to_pylist() for h in handles]
    return [*answers, pond.sql("SELECT * FROM s").rows(), pond.sql("SELECT * FROM q ALL REVISIONS").rows()]


def fill(pond: Any) -> None:
    """Streams, queries of both kinds, rows in several epochs, some late."""
    pond.sql(SCRIPT)
    pond.sql("CREATE QUERY mine AS SELECT k, v FROM s WHERE v > 7 BEGIN NOW - INTERVAL 40 SECONDS END NOW")
    assert pond.register("SELECT k, sum(v) AS v FROM s GROUP BY k").id == 4
    for start in (0, 30, 60, 20):
        pond.ingest("s", rows(start, start + 30), key=f"k{start}")
        pond.drain()


def test_a_stopped_pond_without_what_is_derived(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline", eager_rows=10) as pond:
        fill(pond)
        expected = all_answers(pond)
        cursors = {name: [str(b.cursor) for b in pond.subscribe(name, timeout=0)] for name in ("q", "mine")}
    assert (tmp_path / "pond" / "hot").is_dir()
    shutil.copytree(tmp_path / "pond", tmp_path / "copy", ignore=shutil.ignore_patterns(*DERIVED))
    shutil.rmtree(tmp_path / "pond")
    with millpond.open(tmp_path / "copy", executor="inline") as pond:
        assert all_answers(pond) == expected
        for name, seen in cursors.items():
            assert len(seen) > 2 and list(pond.subscribe(name, since=seen[-1], timeout=0)) == []
            assert [str(b.cursor) for b in pond.subscribe(name, since=seen[0], timeout=0)] == seen[1:]
        assert pond.register("SELECT v FROM s").id == 5
        pond.ingest("s", rows(20, 50), key="k20")  # taken before the backup
        pond.ingest("s", rows(90, 100))
        pond.drain()
        assert pond.sql("SELECT count(*) FROM s").rows() == [(130,)]


def test_the_files_of_one_instant(tmp_path: Path) -> None:
    # A process that is stopped while it writes leaves what a snapshot of the file system has.
    child = (
        "import sys, millpond\nfrom tests.test_backup import fill\nfrom tests.server.conftest import rows\n"
        "pond = millpond.open(sys.argv[1], executor='inline', eager_rows=10)\nfill(pond)\n"
        "for n in range(90, 100_000, 10):\n"
        "    pond.ingest('s', rows(n, n + 10))\n    print(n + 10, flush=True)\n    pond.step()\n"
    )
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    process = subprocess.Popen(
        [sys.executable, "-c", child, str(tmp_path / "pond")], stdout=subprocess.PIPE, text=True, env=environment
    )
    copies = {}
    try:
        assert process.stdout is not None
        for moment in range(3):
            acknowledged = int([process.stdout.readline() for _ in range(4)][-1])
            threading.Event().wait(0.05 * moment)
            os.kill(process.pid, signal.SIGSTOP)
            copies[shutil.copytree(tmp_path / "pond", tmp_path / f"copy{moment}")] = acknowledged
            os.kill(process.pid, signal.SIGCONT)
    finally:
        process.kill()
        process.wait()
    for copy, acknowledged in copies.items():
        shutil.rmtree(tmp_path / "pond", ignore_errors=True)  # a restored pond needs nothing of where it came from
        with millpond.open(copy, executor="inline") as pond:
            pond.drain()
            [(count, different)] = pond.sql("SELECT count(*) - 30, count(DISTINCT v) FROM s").rows()
            assert count == different >= acknowledged
            assert pond.query("mine").result().table.num_rows > 0


def test_half_a_pond_is_refused(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        fill(pond)
    (tmp_path / "pond" / "pond.json").unlink()
    with pytest.raises(PondError, match="is not a pond"):
        millpond.open(tmp_path / "pond", executor="inline")
