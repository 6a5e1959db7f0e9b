"""Lives of a pond in the crash tests: a folder with sources, and processes that run a scenario there and are killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import IO, Any

import psutil

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("crash_child.py")
KILLED = -signal.SIGKILL

_BASE = "2026-01-01 00:{:02d}:{:09.6f}"


def environment() -> dict[str, str]:
    """The environment of a child: it finds the package as this process does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def write_sources(work: Path) -> None:
    """Source files and batches: disorder within the lateness, late rows, a row that runs ahead, a malformed row."""
    for name in ("src", "waiting", "batches"):
        (work / name).mkdir(parents=True)
    rng = random.Random(7)
    for number, name in enumerate("abcdef"):
        rows, batch = [], []
        for i in range(60):
            seconds = 20 * number + i / 3 + rng.uniform(-4, 4)
            rows.append((max(0.0, seconds), rng.choice("xyzw"), rng.choice([0.1, 0.7, 1e15, -1e15, rng.random()]), i))
            lag = rng.choice([0.0, 1.0, 15.0])
            batch.append(
                {"ts": _time(max(0.0, seconds - lag)), "k": rng.choice("pq"), "v": rng.choice([0.1, 0.3, 1e10])}
            )
        # One pane and group in every epoch, with sums that depend on the order in which they are rounded.
        rows.append((2.0, "w", (1e16, 0.5, 0.5, 1.0, 1.0, 1.0)[number], 900))
        if name in "def":  # late: they revise windows that are closed
            rows += [(float(3 + 7 * j), "x", 0.25, 1000 + j) for j in range(5)]
        lines = [f"{_time(t)},{k},{v!r},{n}" for t, k, v, n in rows]
        if name in "be":
            lines.insert(30, f"{_time(59 * 60)},x,1.0,77".replace("2026-01-01", "2026-01-02"))
            lines.insert(40, "not a time,x,1.0,78")
        path = work / "waiting" / f"{name}.csv"
        path.write_text("ts,k,v,n\n" + "\n".join(lines) + "\n", encoding="utf-8")
        os.utime(path, (1_767_225_600 + number, 1_767_225_600 + number))
        (work / "batches" / f"{name}.json").write_text(json.dumps(batch), encoding="utf-8")


def _time(seconds: float) -> str:
    return _BASE.format(int(seconds // 60), seconds % 60)


class Server:
    """A process that has imported everything and forks a life whenever it is asked to. child: the script it runs."""

    def __init__(self, child: Path = CHILD) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(child), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )

    def run(self, work: Path, die: str | None = None, *arguments: str) -> int:
        """Live until the end, or until killed at `die`; the exit status."""
        reader, writer = self._pipes()
        writer.write(shlex.join([str(work), *(["--die", die] if die else []), *arguments]) + "\n")
        writer.flush()
        answer = reader.readline()
        assert answer, "the server died"
        return int(answer)

    def close(self) -> None:
        """Stop it."""
        _, writer = self._pipes()
        writer.close()
        self._process.wait(300)

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdout is not None and self._process.stdin is not None
        return self._process.stdout, self._process.stdin


def outcome(work: Path) -> dict[str, Any]:
    """What the last life saw at its end."""
    found: dict[str, Any] = json.loads((work / "outcome.json").read_text(encoding="utf-8"))
    return found


def written(work: Path) -> dict[str, list[str]]:
    """The checksums of each file that epochs wrote, in the order in which lives wrote it."""
    found: dict[str, list[str]] = defaultdict(list)
    log = work / "written"
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        name, digest = line.rsplit(" ", 1)
        found[name].append(digest)
    return found


def manifests(work: Path) -> dict[int, Any]:
    """The manifests by epoch, without what chance names: the opening, its checksum, landing files and their times."""
    found = {}
    for path in sorted((work / "pond" / "manifests").glob("*.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        del manifest["opening"], manifest["crc"]
        for split in manifest["splits"]:
            for item in [*split["items"], *split["before"]]:
                if item["kind"] == "landing":
                    item["path"] = item["mtime_ns"] = None
        found[manifest["epoch"]] = manifest
    return found


def fresh(work: Path) -> Path:
    """An empty life in folder `work`: always the same path, since manifests and dead letters name it."""
    shutil.rmtree(work, ignore_errors=True)
    write_sources(work)
    return work


def alone(work: Path, die: str | None, *arguments: str) -> int:
    """Live in a process of its own that is started for it; whatever it leaves behind (a JVM, workers) is ended too."""
    command = [sys.executable, str(CHILD), str(work), *(["--die", die] if die else []), *arguments]
    process = subprocess.Popen(command, env=environment(), start_new_session=True)
    try:
        return process.wait(300)
    finally:
        end_session(process.pid)


def end_session(session: int) -> None:
    """Kill what is left of a session that a test started, and wait until it is gone."""
    for _ in range(200):
        left = [p.pid for p in psutil.process_iter() if _session(p.pid) == session and p.status() != "zombie"]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1
