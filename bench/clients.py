"""Many clients at once register, invoke, ingest, follow and drop on a server; nothing may fail, leak or be lost.

    python -m bench.clients --clients 200 --minutes 10 [--kill]

Starts `millpond serve` on a new pond. With `--kill` it is killed with SIGKILL in the middle and started again. At the
end every acknowledged row must be there once, every acknowledged registration must be there, and every subscription,
which goes on from its cursor each time, must have delivered every row once. One JSON object a line on standard output:
one per operation with its latencies in milliseconds, and one at the end. Exit status 1 on any failure.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.common import ROOT, emit, log, scratch, tree_memory

STREAM = "load"
SCHEMA = (
    f"CREATE STREAM {STREAM} (ts TIMESTAMP, client INTEGER, n BIGINT, v INTEGER) WITH (event_time='ts', lateness='1h')"
)
BASE = 1_767_225_600_000_000  # 2026-01-01
#: How often each operation is chosen.
WEIGHTS = {"register": 20, "invoke": 40, "ingest": 20, "follow": 10, "drop": 10}
#: How much the last third of the memory samples may exceed the middle third, in runs that are long enough to tell.
GROWTH, ALLOWANCE_MB, LONG_MINUTES = 1.15, 150.0, 5.0
#: Seconds for which failures of connections are expected after the server was killed.
PATIENCE = 180.0


class Server:
    """`millpond serve` as a process of its own, on a port that it keeps when it is started again."""

    def __init__(self, folder: Path, executor: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder, self._executor = folder, executor
        self._log = folder.parent / "server.log"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        }
        command = [sys.executable, "-m", "millpond", "serve", "--pond", str(self._folder), "--port", str(self.port)]
        begin = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as out:
            process = subprocess.Popen(
                [*command, "--executor", self._executor],
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        while b" serves " not in self._log.read_bytes()[begin:]:
            if process.poll() is not None:
                raise RuntimeError(f"the server did not start: {self.tail()}")
            time.sleep(0.05)
        return process

    def kill(self) -> float:
        """Kill it, start it again; seconds until it serves."""
        start = time.monotonic()
        self.process.kill()
        self.process.wait()
        self.process = self._start()
        return time.monotonic() - start

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return -9

    def tail(self) -> str:
        """The end of what it said."""
        return self._log.read_bytes()[-2_000:].decode(errors="replace")

    def cpu(self) -> float:
        """Seconds of processor time of its process tree since it was started last."""
        root = psutil.Process(self.process.pid)
        return sum(_cpu(process) for process in (root, *root.children(recursive=True)))

    def sizes(self) -> dict[str, float]:
        """Megabytes of the process tree; threads and open files of the server itself."""
        process = psutil.Process(self.process.pid)
        memory = tree_memory(self.process.pid) / 1e6
        return {"memory_mb": round(memory, 1), "threads": process.num_threads(), "files": process.num_fds()}


@dataclass
class Tally:
    """What the clients have seen together. Thread-safe: lists and dicts are only appended to."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    excused: int = 0
    #: Until when failing connections are expected.
    outage: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)


class Client(threading.Thread):
    """One client: its own connection, rows, queries and subscription."""

    def __init__(self, number: int, url: str, tally: Tally, options: argparse.Namespace) -> None:
        super().__init__(daemon=True, name=f"client-{number}")
        self.number, self.url, self.tally, self.options = number, url, tally, options
        self.rng = random.Random(f"{options.seed}/{number}")
        self.acknowledged: list[int] = []
        self.next = 0
        self.queries: dict[int, str] = {}
        self.dropped: set[int] = set()
        self.followed: list[int] = []
        self.follower: Any = None
        self.cursor: str | None = None
        self.seen = 0
        self.pond: Any = None

    def run(self) -> None:
        import millpond

        self.pond = self._insist("connect", lambda: millpond.connect(self.url))
        text = f"SELECT n FROM {STREAM} WHERE client = {self.number}"
        self.follower = self._insist("register", lambda: self.pond.register(text))
        if self.follower is None:
            return
        self.queries[self.follower.id] = text
        while not self.tally.over.wait(self.rng.expovariate(1 / self.options.pause)):
            getattr(self, f"_{self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]}")()

    def _register(self) -> None:
        if len(self.queries) > self.options.queries:
            return self._invoke()
        low = self.rng.randrange(200)
        mine, minutes = f"client = {self.number}", self.rng.choice([1, 10])
        window = f"BEGIN NOW - INTERVAL {minutes} MINUTES END NOW"
        text = self.rng.choice(
            [
                f"SELECT ts, n, v FROM {STREAM} WHERE v BETWEEN {low} AND {low + 20} {window} ",
                f"SELECT n, v FROM {STREAM} WHERE {mine} AND v > {low}",
                f"SELECT count(*) AS c, sum(v) AS s FROM {STREAM} WHERE v < {low} {window}",
                f"SELECT n FROM {STREAM} WHERE {mine} AND (v = {low} OR n % 7 = 0) BEGIN NOW - 5000 ROWS END NOW",
            ]
        )
        handle = self._try("register", lambda: self.pond.register(text))
        if handle is not None:
            self.queries[handle.id] = text
        return None

    def _invoke(self) -> None:
        query = self.rng.choice(list(self.queries))
        answer = self._try("invoke", lambda: self.pond.query(query).result())
        if answer is None or query != self.follower.id:
            return
        rows = answer.table["n"].to_pylist()
        # The rows of a client: each once, none that it did not send, none gone that was there before.
        if len(set(rows)) != len(rows) or len(rows) < self.seen or (rows and max(rows) >= self.next):
            self.tally.errors.append(f"client {self.number}: {len(rows)} rows after {self.seen}, {self.next} sent")
        self.seen = max(self.seen, len(rows))

    def _ingest(self) -> None:
        numbers = range(self.next, self.next + self.rng.randint(1, self.options.rows))
        self.next = numbers.stop
        rows = [
            {
                "ts": _instant(BASE + int(time.monotonic() * 1e6) + n % 1000 - self.rng.randrange(5_000_000)),
                "client": self.number,
                "n": n,
                "v": self.rng.randrange(256),
            }
            for n in numbers
        ]
        key = f"{self.number}-{numbers.start}"
        if self._insist("ingest", lambda: self.pond.ingest(STREAM, rows, key=key) is not None) is not None:
            self.acknowledged += numbers

    def _follow(self) -> None:
        def catch_up() -> bool:
            for batch in self.follower.subscribe(since=self.cursor, timeout=0):
                self.followed += batch.rows["n"].to_pylist()
                self.cursor = str(batch.cursor)
            return True

        self._try("follow", catch_up)

    def _drop(self) -> None:
        mine = [q for q in self.queries if q != self.follower.id]
        if not mine:
            return
        query = self.rng.choice(mine)
        # Whether a drop that broke off took place, nobody knows: the query is in neither list then.
        del self.queries[query]
        if self._try("drop", lambda: self.pond.query(query).drop() or True) is not None:
            self.dropped.add(query)

    def _insist(self, name: str, call: Callable[[], Any]) -> Any:
        """Try until it works, as long as failing is excused."""
        while (found := self._try(name, call)) is None and time.monotonic() < self.tally.outage:
            time.sleep(0.5)
        return found

    def _try(self, name: str, call: Callable[[], Any]) -> Any:
        """The result of a call, timed; None when it failed, which is noted."""
        from millpond.support.errors import PondError

        start = time.monotonic()
        try:
            found = call()
        except Exception as error:
            if isinstance(error, PondError) and start < self.tally.outage:
                self.tally.excused += 1
            else:
                self.tally.errors.append(f"client {self.number}, {name}: {error!r}"[:300])
            return None
        if start >= self.tally.outage:
            self.tally.seconds[name].append(time.monotonic() - start)
        return found

    def catch_up(self, url: str) -> None:
        """At the end: follow to the last row, by a new connection."""
        import millpond

        if self.follower is None:
            return
        with millpond.connect(url) as self.pond:
            self.follower = self.pond.query(self.follower.id)
            self._follow()


def check(pond: Any, clients: list[Client]) -> list[str]:
    """What is not as the clients were told."""
    pond.drain()
    table = pond.sql(f"SELECT client, n FROM {STREAM}").to_arrow()
    there: dict[int, list[int]] = defaultdict(list)
    for client, n in zip(table["client"].to_pylist(), table["n"].to_pylist(), strict=True):
        there[client].append(n)
    known = set(pond.sql("SHOW QUERIES").to_arrow()["id"].to_pylist())
    problems = []
    for client in clients:
        client.catch_up(pond.path)
        rows = sorted(there[client.number])
        if rows != client.acknowledged:
            lost = set(client.acknowledged) - set(rows)
            problems.append(
                f"client {client.number}: {len(lost)} rows lost, {len(rows)} of {len(client.acknowledged)} there"
            )
        if sorted(client.followed) != rows:
            problems.append(f"client {client.number}: followed {len(client.followed)} rows of {len(rows)}")
        if gone := client.queries.keys() - known:
            problems.append(f"client {client.number}: queries {sorted(gone)} are gone")
        if back := client.dropped & known:
            problems.append(f"client {client.number}: dropped queries {sorted(back)} are there")
    return problems


def soak(options: argparse.Namespace, home: Path) -> bool:
    """Run it; whether all went well."""
    import millpond

    server = Server(home / "pond", options.executor)
    tally = Tally()
    restart: float | None = None
    try:
        with millpond.connect(server.url) as pond:
            pond.sql(SCHEMA)
            clients = [Client(n, server.url, tally, options) for n in range(options.clients)]
            begin, samples = server.sizes(), []
            start = time.monotonic()
            for client in clients:
                client.start()
            if options.executor == "inline":
                threading.Thread(target=_publish, args=(server.url, tally), daemon=True).start()
            end = start + options.minutes * 60
            while (now := time.monotonic()) < end and server.process.poll() is None:
                if options.kill and restart is None and now >= start + options.minutes * 30:
                    tally.outage = now + PATIENCE
                    log("killing the server")
                    restart = server.kill()
                    # Calls that began before it served again may still fail.
                    tally.outage = time.monotonic() + 2.0
                    log(f"it serves again after {restart:.1f} s")
                samples.append(server.sizes())
                time.sleep(min(options.sample, max(0.05, end - time.monotonic())))
            seconds = time.monotonic() - start
            used = {"server": round(server.cpu(), 1), "clients": round(_cpu(psutil.Process()), 1)}
            tally.over.set()
            for client in clients:
                client.join(300)
            problems = [f"{c.name} did not come to its end" for c in clients if c.is_alive()]
            if server.process.poll() is not None:
                problems.append(f"the server ended with status {server.process.returncode}")
            else:
                problems += check(pond, clients)
                samples.append(server.sizes())
    finally:
        status = server.stop()
    if status != 0:
        problems.append(f"the server's exit status is {status}: {server.tail()}")
    memory = [s["memory_mb"] for s in samples]
    problems += _growth(memory, options.minutes, restart is not None)
    for name in ("connect", "register", "invoke", "ingest", "follow", "drop"):
        emit({"bench": "clients", "case": name, **_latencies(tally.seconds[name], seconds)})
    fine = not problems and not tally.errors
    emit(
        {
            "bench": "clients",
            "case": "end",
            "rows_per_s": round(sum(len(c.acknowledged) for c in clients) / seconds),
            "peak_mb": max(memory, default=None),
            "correct": fine,
            "clients": options.clients,
            "seconds": round(seconds, 1),
            "operations": sum(map(len, tally.seconds.values())),
            "rows": sum(len(c.acknowledged) for c in clients),
            "followed": sum(len(c.followed) for c in clients),
            "queries_live": sum(len(c.queries) for c in clients),
            "queries_dropped": sum(len(c.dropped) for c in clients),
            "errors": len(tally.errors),
            "begin": begin,
            "end": samples[-1] if samples else None,
            "cpu_s": used,
            "restart_s": None if restart is None else round(restart, 2),
            "broken_by_the_kill": tally.excused,
            "problems": (problems + tally.errors)[:20],
        }
    )
    return fine


def _growth(memory: list[float], minutes: float, killed: bool) -> list[str]:
    third = len(memory) // 3
    if minutes < LONG_MINUTES or third < 3 or killed:  # a new process begins anew
        return []
    middle, last = statistics.median(memory[third : 2 * third]), statistics.median(memory[2 * third :])
    return [f"memory grows: {middle} MB, then {last} MB"] if last > GROWTH * middle + ALLOWANCE_MB else []


def _latencies(seconds: list[float], duration: float) -> dict[str, Any]:
    if not seconds:
        return {"count": 0}
    times = sorted(seconds)
    at = {f"p{p}_ms": round(times[min(len(times) - 1, len(times) * p // 100)] * 1e3, 1) for p in (50, 90, 99)}
    return {"count": len(times), "per_s": round(len(times) / duration, 1), **at, "max_ms": round(times[-1] * 1e3, 1)}


def _publish(url: str, tally: Tally) -> None:
    """Ponds without Spark run epochs only when they are drained."""
    import millpond
    from millpond.support.errors import PondError

    while not tally.over.wait(0.2):
        try:
            with millpond.connect(url) as pond:
                pond.drain()
        except PondError:
            continue


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _instant(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + f".{rest:06}"


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kill", action="store_true", help="kill the server in the middle and start it again")
    parser.add_argument(
        "--pause", type=float, default=1.0, help="seconds between two operations of a client, on average"
    )
    parser.add_argument("--queries", type=int, default=8, help="most queries of a client at a time")
    parser.add_argument("--rows", type=int, default=50, help="most rows of an ingest")
    parser.add_argument("--sample", type=float, default=5.0, help="seconds between two looks at the memory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--executor", default="spark", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    with scratch("millpond-clients-") as home:
        return 0 if soak(options, home) else 1


if __name__ == "__main__":
    sys.exit(main())
