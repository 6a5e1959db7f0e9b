"""The process that the crash tests of row queries kill: told `WORK MOMENT N` it dies at the N-th MOMENT.

It registers, ingests, drops and keeps house; what a statement has acknowledged it notes in WORK/acks.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import millpond
import millpond.catalog.indexes as indexes
import millpond.catalog.register as register
import millpond.catalog.register_log as register_log
import millpond.engine.control.epoch as epoch
import millpond.manifests.epochs as epochs
import millpond.operators.row_query.matching as soup
from millpond.archive.archive_files import RowsWriter
from tests.engine.crash_child import serve

ROUNDS, ROWS = 6, 300

MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "line": (register_log.os, "pwrite", False),
    "synced": (register_log.RegisterLog, "_write", False),
    "written": (register_log.RegisterLog, "_write", True),
    "shipping": (indexes.shipping, "write_delta", False),
    "shipped": (indexes.Indexes, "ship", True),
    "manifest": (epoch, "write_manifest", True),
    "blocks": (soup, "write_blocks", True),
    "archive": (RowsWriter, "close", True),
    "committed": (epoch, "commit", True),
    "published": (epochs, "write_published", True),
    "checkpoint": (register, "write_checkpoint", False),
    "base": (indexes.shipping, "write_base", True),
}


def rows(number: int) -> pa.Table:
    """The rows of a round: some cannot be cast."""
    rng = np.random.default_rng(number)
    texts = [str(v) if v % 50 else "odd" for v in rng.integers(0, 1000, ROWS)]
    times = np.arange(ROWS) + number * ROWS
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), "a": rng.integers(0, 100, ROWS), "t": texts})


def texts(number: int) -> list[str]:
    """The queries of a round."""
    return [
        f"SELECT a FROM s WHERE a >= {number * 10} AND a < {number * 10 + 15}",
        f"SELECT ts FROM s WHERE a = {number}",
    ]


def die_at(moment: str, count: int) -> None:
    """Make the process kill itself at the `count`-th occurrence of a moment."""
    owner, name, after = MOMENTS[moment]
    real: Callable[..., Any] = getattr(owner, name)

    def counted(*args: Any, **named: Any) -> Any:
        nonlocal count
        count -= 1
        if moment == "line" and count == 0:
            real(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
        if count == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **named)
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, counted)


def noted(path: str) -> list[dict[str, Any]]:
    """What has been acknowledged."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main(work: str) -> None:
    """Go on from what was acknowledged."""
    path = os.path.join(work, "acks")
    acks = noted(path)
    done = {(a["round"], a["what"]) for a in acks}
    with (
        open(path, "a", buffering=1) as file,
        millpond.open(os.path.join(work, "pond"), executor="inline", eager_rows=100) as pond,
    ):

        def step(number: int, what: str, action: Callable[[], Any]) -> None:
            if (number, what) not in done:
                file.write(json.dumps({"round": number, "what": what, "got": action()}) + "\n")

        core = pond._core
        pond.sql("CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, a BIGINT, t TEXT) WITH (event_time='ts')")
        pond.sql("CREATE QUERY IF NOT EXISTS cast AS SELECT a FROM s WHERE CAST(t AS INTEGER) + a > 500")
        queries = pond._interpreter.rows
        for number in range(ROUNDS):
            step(number, "add", lambda n=number: queries.add([queries.new(queries.bind(t), t) for t in texts(n)]))
            step(number, "ingest", lambda n=number: pond.ingest("s", rows(n), key=f"r{n}"))
            pond.drain()
            if number % 2:
                mine = [a["got"][1] for a in noted(path) if a["what"] == "add"]
                step(number, "drop", lambda n=number, q=mine[-1]: core.register.drop(q) if q in core.register else None)
                core.register.checkpoint()
                pond.maintain()


def live(arguments: list[str]) -> None:
    """One life, in a process that was forked for it."""
    if len(arguments) > 1:
        die_at(arguments[1], int(arguments[2]))
    main(arguments[0])


if __name__ == "__main__":
    serve(live)
