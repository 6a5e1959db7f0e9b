"""Invocations over HTTP: how long one takes when nothing else is asked, and how many a second many clients get."""

from __future__ import annotations

import argparse
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from bench.common import ROOT, log, run_isolated
from bench.psoup import load
from bench.psoup.workload import STEP

#: Client processes: few, so that they leave the server a core.
PROCESSES = 2
#: Rows of an answer at most that the many clients ask for.
SMALL = 1_000


@contextmanager
def served(pond: Path, patience: float = 60.0) -> Iterator[tuple[str, int]]:
    """`millpond serve` in a process of its own; host and port. It is told to stop at the end."""
    environment = {**os.environ, "MILLPOND_EXECUTOR": "inline", "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "millpond", "serve", "--pond", str(pond), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    said: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        assert process.stderr is not None
        for text in process.stderr:
            log(f"  server: {text.rstrip()}")
            said.put(text)
        said.put("")

    threading.Thread(target=listen, daemon=True).start()
    try:
        text = "…"
        while "://" not in text:
            text = said.get(timeout=patience)
            if not text:
                raise RuntimeError("the server ended before it said its address")
        parts = urlsplit(text.split()[-1])
        yield str(parts.hostname), int(parts.port or 80)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def measure(pond: Path, asked: list[list[Any]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """One line per kind at 2^15 rows (or the widest window there is) by one client, and two for all clients.

    Arguments: asked, [query's id, kind, factors, window, rows] of partial queries.
    """
    from bench.psoup.invoke import TARGET_HTTP_MS
    from millpond.support import wire

    widest = max((w for _, _, _, w, _ in asked if w <= 1 << 15), default=0)
    seconds = 0.3 if options.tiny else options.load_seconds
    lines: list[dict[str, Any]] = []
    with served(pond) as (host, port):
        base = {"host": host, "port": port, "rows_header": wire.ROWS}
        for media, name in ((wire.JSON, "json"), (wire.ARROW, "arrow")):
            for kind, factors in dict.fromkeys((q[1], q[2]) for q in asked):
                chosen = [q for q in asked if (q[1], q[2], q[3]) == (kind, factors, widest)]
                if not chosen or (name == "json" and min(q[4] for q in chosen) > 10_000):
                    continue
                requests = [[f"/v1/queries/{q[0]}/answer", q[4]] for q in chosen]
                job = {**base, "clients": 1, "accept": media, "requests": requests}
                first = load.run({**job, "seconds": 0.0})  # on a new machine code is compiled meanwhile
                found = load.run({**job, "seconds": min(1.0, seconds)})
                median = statistics.median(found["ms"])
                lines.append(
                    {
                        "case": f"http-{name}-{kind}-{factors}-{widest}",
                        "correct": not any(each["wrong"] or each["failed"] for each in (first, found)),
                        "kind": kind,
                        "factors": factors,
                        "window": widest,
                        "answer_rows": round(statistics.mean(q[4] for q in chosen)),
                        "ms": round(median, 3),
                        "first_ms": round(first["ms"][0], 3),
                        "p99_ms": round(_percentile(found["ms"], 0.99), 3),
                        "target_ms": TARGET_HTTP_MS,
                        "met": median <= TARGET_HTTP_MS,
                    }
                )
        found = {name: _clients(base, requests, options, seconds) for name, requests in _small(asked).items()}
    return lines + [_line(name, *each) for name, each in found.items()]


def _small(asked: list[list[Any]]) -> dict[str, list[list[Any]]]:
    """What many clients ask: answers that may be served again until the next epoch, and ones that are made each time.

    The latter name their windows, as somebody who browses does: nothing of an answer is kept then.
    """
    small = [q for q in asked if q[4] <= SMALL and not q[1].startswith("join")][:200]
    window = [quote(f"NOW - INTERVAL {STEP * (q[3] - 1)} MICROSECONDS") for q in small]
    return {
        "clients": [[f"/v1/queries/{q[0]}/answer", q[4]] for q in small],
        "clients-anew": [[f"/v1/queries/{q[0]}/answer?begin={w}", q[4]] for q, w in zip(small, window, strict=True)],
    }


def _clients(
    base: dict[str, Any], requests: list[list[Any]], options: argparse.Namespace, seconds: float
) -> tuple[int, list[list[Any]], list[dict[str, Any]]]:
    """How many clients there were, what they asked, and what the processes of them found."""
    from millpond.support import wire

    each = max(1, options.clients // PROCESSES)
    job = {**base, "clients": each, "seconds": seconds, "accept": wire.JSON, "requests": requests}
    with ThreadPoolExecutor(PROCESSES) as pool:
        found = [m.result for m in pool.map(lambda _: run_isolated("bench.psoup.load", job), range(PROCESSES))]
    return each * PROCESSES, requests, found


def _line(name: str, clients: int, requests: list[list[Any]], results: list[dict[str, Any]]) -> dict[str, Any]:
    from bench.psoup.invoke import TARGET_PER_S

    ms = [each for found in results for each in found["ms"]]
    rate = sum(len(found["ms"]) / found["seconds"] for found in results)
    return {
        "case": f"http-{clients}-{name}",
        "correct": not any(found["wrong"] or found["failed"] for found in results),
        "invocations_per_s": round(rate),
        "clients": clients,
        "client_processes": PROCESSES,
        "invocations": len(ms),
        "failed": sum(found["failed"] for found in results),
        "answer_rows": round(statistics.mean(rows for _, rows in requests)),
        "ms": round(statistics.median(ms), 2),
        "p95_ms": round(_percentile(ms, 0.95), 2),
        "p99_ms": round(_percentile(ms, 0.99), 2),
        "target_per_s": TARGET_PER_S,
        "met": rate >= TARGET_PER_S,
    }


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


__all__ = ["measure", "served"]
