"""The main scenario on a standalone Spark master with two workers, which the test starts and stops."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from millpond.engine.spark.jvm import QUICK
from tests.engine.lives import end_session, environment
from tests.engine.scenario import comparable, run

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CHILD = Path(__file__).with_name("cluster_child.py")
PATIENCE = 300


class Cluster:
    """A master and workers on the loopback address, each a process in a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.logs: list[Path] = []

    def start(self, *arguments: str) -> Path:
        """Start a class of Spark's; its log."""
        home = Path(pyspark.__file__).parent
        log = self.folder / f"{len(self.processes)}.log"
        variables = {
            **environment(),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOG_DIR": str(self.folder),
            "SPARK_WORKER_DIR": str(self.folder / "work"),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK),
        }
        with open(log, "wb") as file:
            command = [str(home / "bin" / "spark-class"), *arguments]
            self.processes.append(
                subprocess.Popen(
                    command, stdout=file, stderr=file, env=variables, cwd=self.folder, start_new_session=True
                )
            )
        self.logs.append(log)
        return log

    def await_line(self, log: Path, pattern: str) -> str:
        """Wait until a line of a log matches; the first group."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found.group(1)
            assert all(p.poll() is None for p in self.processes), self.tail()
            time.sleep(0.1)
        raise AssertionError(f"no line matches {pattern!r}\n{self.tail()}")

    def tail(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-2000:]}" for p in self.logs)

    def stop(self) -> None:
        """End every process that was started, with what it started."""
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
            end_session(process.pid)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, str]]:
    folder = tmp_path / "spark"
    folder.mkdir()
    running = Cluster(folder)
    try:
        package = "org.apache.spark.deploy"
        log = running.start(f"{package}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = running.await_line(log, r"Starting Spark master at (spark://\S+)")
        workers = [
            running.start(
                f"{package}.worker.Worker",
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(folder / f"work{number}"),
                master,
            )
            for number in range(2)
        ]
        for worker in workers:
            running.await_line(worker, r"(Successfully registered with master)")
        yield running, master
    finally:
        running.stop()


def test_the_main_scenario(cluster: tuple[Cluster, str], inline_pond: Callable[..., Any], tmp_path: Path) -> None:
    running, master = cluster
    expected = comparable(run(inline_pond(), tmp_path / "inline"))
    folder = tmp_path / "cluster"
    folder.mkdir()
    output = folder / "output"
    with open(output, "wb") as file:
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(folder), master],
            env={**environment(), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        status = child.wait(300)
    finally:
        if child.poll() is None:
            os.kill(child.pid, 9)
            child.wait(10)
        end_session(child.pid)
    assert status == 0, output.read_text(errors="replace")[-4000:]
    found = comparable(pickle.loads((folder / "answers.pickle").read_bytes()))
    for name, table in expected.items():
        assert found[name] == table, name
    executors = "\n".join(log.read_text(errors="replace") for log in running.logs[1:])
    assert executors.count("Asked to launch executor") >= 2, "both workers took part"
