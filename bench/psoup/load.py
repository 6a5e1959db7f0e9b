"""Clients that invoke queries over HTTP as fast as answers come (a runner: `python -m bench.psoup.load JOB`).

Many connections in one process that only counts: a request is written, its answer is read by its length, the number of
rows in its header is compared. The clients of `all` are two such processes, so that they leave a core to the server.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from bench.common import log, report


async def _client(job: dict[str, Any], number: int, until: float, found: dict[str, Any]) -> None:
    reader, writer = await asyncio.open_connection(job["host"], job["port"])
    requests = [
        (f"GET {path} HTTP/1.1\r\nHost: {job['host']}:{job['port']}\r\nAccept: {job['accept']}\r\n\r\n".encode(), rows)
        for path, rows in job["requests"]
    ]
    at = number * 7
    while at == number * 7 or time.perf_counter() < until:  # one at least
        request, rows = requests[at % len(requests)]
        at += 1
        begin = time.perf_counter()
        writer.write(request)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, EOFError) as error:
            found["failed"] += 1
            log(f"  a client was cut off: {error}")
            break
        status = int(head[9:12])
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
        size = int(fields[b"content-length"])
        body = b""
        if size:
            body = await reader.readexactly(size)
        found["ms"].append(1000 * (time.perf_counter() - begin))
        found["bytes"] += size
        if status != 200:
            found["failed"] += 1
            if found["failed"] == 1:
                log(f"  status {status}: {body[:300]!r}")
        elif rows is not None and int(fields[job["rows_header"].lower().encode()]) != rows:
            found["wrong"] += 1
    writer.close()


async def _all(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"ms": [], "bytes": 0, "failed": 0, "wrong": 0}
    begin = time.perf_counter()
    until = begin + float(job["seconds"])
    await asyncio.gather(*(_client(job, number, until, found) for number in range(int(job["clients"]))))
    return {**found, "seconds": time.perf_counter() - begin}


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Invoke for some seconds.

    Arguments: job with host, port, clients, seconds, accept, rows_header, requests ([path, rows or None]).
    Returns: ms (of each request), bytes, failed, wrong, seconds.
    """
    return asyncio.run(_all(job))


if __name__ == "__main__":
    report({"result": run(json.loads(sys.argv[1]))})
