"""What the benchmarks share: one process per system, its peak memory, and the line that is printed.

A *runner* is a module that is started as `python -m bench.<module> '<job as JSON>'` and prints one JSON object a line
on standard output: `{"phase": "measured"}` when what counts is over (memory is no longer sampled: fetching answers
for the comparison is not part of the measurement), and at the end `{"result": {…}}`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent


class MemorySampler(threading.Thread):
    """Samples the memory of a process and all its descendants: resident set sizes, summed.

    Pages that processes share (forked Python workers, mapped files) count once for each of them, so the figure is an
    upper bound, for every system alike.

        >>> sampler = MemorySampler(os.getpid(), interval=0.01); sampler.start()
        >>> time.sleep(0.05); sampler.stop() > 1
        True
    """

    def __init__(self, pid: int, interval: float = 0.1) -> None:
        super().__init__(daemon=True)
        self._pid, self._interval, self._over = pid, interval, threading.Event()
        self.peak = 0

    def run(self) -> None:
        while not self._over.is_set():
            self.peak = max(self.peak, tree_memory(self._pid))
            self._over.wait(self._interval)

    def stop(self) -> float:
        """End sampling; the peak in megabytes (10^6 bytes)."""
        self._over.set()
        return round(self.peak / 1e6, 1)


def tree_memory(pid: int) -> int:
    """Resident bytes of a process and its descendants, now; 0 when it is gone."""
    total = 0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    for process in family:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


def tree_cpu(pid: int) -> float:
    """Seconds of processor time that a process and its descendants have used: those that are there, and that were."""
    total = 0.0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0.0
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


@dataclass(frozen=True)
class Measured:
    """What a runner gave: its result and the peak memory of its process tree in megabytes."""

    result: dict[str, Any]
    peak_mb: float


class RunnerFailed(RuntimeError):
    """A runner ended without a result; its standard error has been shown."""


def run_isolated(module: str, job: dict[str, Any], timeout: float = 1800.0) -> Measured:
    """Run one system in its own process group and wait for its result.

    Arguments: module, e.g. `bench.subject`; job, JSON-ready; timeout in seconds.
    Raises: RunnerFailed when the process ends without a result or takes too long; the group is killed then.
    """
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), str(ROOT / "src"), *filter(None, [environment.get("PYTHONPATH")])]
    )
    environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    process = subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(job)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    sampler = MemorySampler(process.pid)
    sampler.start()
    watchdog = threading.Timer(timeout, _kill_group, [process.pid])
    watchdog.start()
    result: dict[str, Any] | None = None
    try:
        assert process.stdout is not None
        for line in process.stdout:
            message = _message(line)
            if message is None:
                log(line.rstrip())
            elif message.get("phase") == "measured":
                sampler.stop()
            elif "result" in message:
                result = message["result"]
        process.wait()
    finally:
        watchdog.cancel()
        _kill_group(process.pid)
    if result is None:
        raise RunnerFailed(f"{module} ended with status {process.returncode} and without a result")
    return Measured(result, sampler.stop())


def _message(line: str) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and ("phase" in message or "result" in message) else None


def _kill_group(pid: int) -> None:
    """End what is left of the runner's own process group (a JVM may outlive its driver)."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes names separated by commas; one that there is not is refused with those there
    are.

    >>> names_of(["tumbling", "sliding"])("sliding,"), names_of(["tumbling", "sliding"])("tumblin")
    Traceback (most recent call last):
        ...
    argparse.ArgumentTypeError: there is no 'tumblin'; there are tumbling, sliding
    """
    there = list(known)

    def parsed(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in there:
                raise argparse.ArgumentTypeError(f"there is no {name!r}; there are {', '.join(there)}")
        return names

    return parsed


def whole_numbers(text: str) -> list[int]:
    """The type of an option that takes whole numbers separated by commas.

    >>> whole_numbers("1, 20,"), whole_numbers("")
    ([1, 20], [])
    """
    try:
        found = [int(number) for number in text.split(",") if number.strip()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not whole numbers, separated by commas") from None
    if any(number < 0 for number in found):
        raise argparse.ArgumentTypeError(f"{text!r} has a number below 0")
    return found


def report(message: dict[str, Any]) -> None:
    """Hand a message from a runner to `run_isolated`."""
    print(json.dumps(message), flush=True)


def emit(line: dict[str, Any]) -> None:
    """Print one case: the keys of every benchmark first, extras behind them."""
    keys = ("bench", "case", "ratio_native", "ratio_limit", "rows_per_s", "peak_mb", "correct")
    ordered = {key: line.get(key) for key in keys}
    print(json.dumps({**ordered, **{k: v for k, v in line.items() if k not in ordered}}), flush=True)


def log(text: str) -> None:
    """Say something on standard error."""
    print(text, file=sys.stderr, flush=True)


def ratio(one: float | None, other: float | None) -> float | None:
    """one / other to three significant digits, or None where one of them is missing."""
    return float(f"{one / other:.3g}") if one and other else None


def steady_rate(marks: list[tuple[float, int]]) -> float:
    """Rows per second from the end of the first epoch to the end of the last.

    Arguments: marks, (time, rows taken so far) at the end of each epoch, in order.
    Raises: ValueError with fewer than two epochs: there is nothing beyond the warm-up.

        >>> steady_rate([(1.0, 100), (2.0, 300), (3.0, 500)])
        200.0
    """
    if len(marks) < 2:
        raise ValueError("one epoch took everything: more or smaller epochs are needed to leave out the warm-up")
    (t0, n0), (t1, n1) = marks[0], marks[-1]
    return (n1 - n0) / max(t1 - t0, 1e-9)


def place_files(paths: list[Path], folder: Path) -> None:
    """Make files appear in a folder, whole and at once each, without copying them."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        target = folder / path.name
        try:
            os.link(path, target)
        except OSError:  # another file system
            shutil.copy2(path, target.with_suffix(".part"))
            target.with_suffix(".part").rename(target)


@contextmanager
def scratch(prefix: str = "millpond-bench-") -> Iterator[Path]:
    """A temporary folder that is removed afterwards (`MILLPOND_BENCH_DIR` chooses where).

    Being told to stop (SIGTERM) leaves neither the folder nor a JVM behind: it becomes an exception here.
    """
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if chosen := os.environ.get("MILLPOND_BENCH_DIR"):
        os.makedirs(chosen, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=chosen or None))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)
        signal.signal(signal.SIGTERM, previous)


class Clock:
    """Seconds since the start, for log lines."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    def __str__(self) -> str:
        return f"{time.monotonic() - self._start:7.1f} s"


class Budget:
    """Time that a run may take, and what was left out for lack of it.

    until: seconds of the clock; infinite: all the time there is.

    >>> budget = Budget(Clock(), 100.0)
    >>> budget.room(30, "this"), budget.room(130, "that"), budget.left_out
    (True, False, ['that'])
    """

    def __init__(self, clock: Clock, until: float = float("inf")) -> None:
        self.clock, self.until = clock, until
        self.left_out: list[str] = []

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self.until - self.clock.seconds)

    @property
    def timeout(self) -> float:
        """Seconds after which a runner is stopped: a little more than is left, since estimates are rough."""
        return min(1800.0, self.left + 90.0)

    def room(self, seconds: float, what: str) -> bool:
        """Whether something fits that takes about so many seconds; if not, it is noted as left out."""
        if seconds <= self.left:
            return True
        self.left_out.append(what)
        log(f"{self.clock} left out for lack of time: {what}")
        return False
