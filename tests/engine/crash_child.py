"""The process that crash tests kill: it runs one scenario on a pond, and dies where it is told to.

`crash_child.py WORK [--executor spark] [--compact N] [--die MOMENT:N]` runs the scenario in the folder WORK, from the
stage that an earlier life had reached, and writes WORK/outcome.json at the end. With `--serve` it imports everything
once, then forks a process (of its own session and group) per line of standard input: many times faster than to start a
new interpreter for each.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import importlib
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import millpond.api.pond
import millpond.archive.design.layout as layout
import millpond.archive.upkeep.compaction as compaction
import millpond.engine.control.epoch as epoch
import millpond.engine.jobs.backfill as backfill
import millpond.engine.jobs.backfill_queue as backfill_queue
import millpond.engine.jobs.sweeping as sweeping
import millpond.engine.tasks.merging as merging
import millpond.manifests.epochs as epochs
import millpond.operators.copies.operator as copies
import millpond.operators.windowed.past_windows as past_windows
from millpond.archive.archive_files import RowsWriter
from millpond.archive.upkeep import copy_maintenance
from millpond.catalog import CatalogLog
from millpond.sources.intake_log import IntakeLog
from millpond.tables import DurableWrites, SegmentTable
from millpond.types import to_json

BASE = 1_767_225_600_000_000  # 2026-01-01, microseconds
DEADLINE = 180

Hit = Callable[..., bool]


@dataclass(frozen=True)
class Moment:
    """A call of the engine: `when` it is reached or done, the process dies."""

    owner: Any
    name: str
    when: str
    hit: Hit = lambda *args, **named: True


def _table(part: str) -> Hit:
    return lambda table, *args, **named: f"/{part}" in table.folder


def _named(part: str) -> Hit:
    return lambda path, *args, **named: part in os.path.basename(path)


def _merge(table: Any, add: Any, remove: Any = (), *args: Any, **named: Any) -> bool:
    return bool(named.get("moved"))


def _of_copies(table: Any, add: Any, remove: Any = (), *args: Any, **named: Any) -> bool:
    return bool(named.get("moved")) and "/copies/" in table.folder


MOMENTS = {
    "manifest-before": Moment(epoch, "write_manifest", "before"),
    "manifest-after": Moment(epoch, "write_manifest", "after"),
    "publish-before": Moment(epochs, "write_published", "before"),
    "publish-after": Moment(epochs, "write_published", "after"),
    "archive-before": Moment(SegmentTable, "commit", "before", _table("streams/")),
    "archive-after": Moment(SegmentTable, "commit", "after", _table("streams/")),
    "dead-after": Moment(SegmentTable, "commit", "after", _table("dead/")),
    "state-before": Moment(SegmentTable, "commit", "before", _table("state")),
    "state-after": Moment(SegmentTable, "commit", "after", _table("state")),
    "results-before": Moment(SegmentTable, "commit", "before", _table("results")),
    "results-after": Moment(SegmentTable, "commit", "after", _table("results")),
    "copies-written": Moment(copies, "write_copies", "after"),
    "copy-before": Moment(SegmentTable, "commit", "before", _table("copies/")),
    "copy-after": Moment(SegmentTable, "commit", "after", _table("copies/")),
    "upkeep-written": Moment(copy_maintenance, "write_copies", "after"),
    "upkeep-before": Moment(SegmentTable, "commit", "before", _of_copies),
    "upkeep-after": Moment(SegmentTable, "commit", "after", _of_copies),
    "copy-dropped": Moment(os, "replace", "after", lambda new, old: "/.gone-" in old),
    "rows-before": Moment(RowsWriter, "close", "before"),
    "rows-after": Moment(RowsWriter, "close", "after"),
    "files-before": Moment(DurableWrites, "finish", "before"),
    "files-after": Moment(DurableWrites, "finish", "after"),
    "chunks-before": Moment(merging, "write_chunks", "before"),
    "chunks-after": Moment(merging, "write_chunks", "after"),
    "state-compaction": Moment(merging, "_compact", "after", lambda task, *a: str(task.shard) in task.manifest.compact),
    "backfill-before": Moment(backfill, "run_backfill", "before"),
    "backfill-mapped": Moment(past_windows, "_merge", "before"),
    "backfill-written": Moment(past_windows, "write_chunks", "after"),
    "backfill-unrecorded": Moment(backfill_queue, "write_json", "before", lambda path, *a: path.endswith(".json")),
    "backfill-recorded": Moment(backfill_queue, "write_json", "after", lambda path, *a: path.endswith(".json")),
    "backfill-after": Moment(backfill, "run_backfill", "after"),
    "adoption-decided": Moment(CatalogLog, "record", "after", lambda s, *e: e and e[0]["do"] == "set_status"),
    "merge-written": Moment(compaction, "write_section", "after"),
    "merge-before": Moment(SegmentTable, "commit", "before", _merge),
    "merge-after": Moment(SegmentTable, "commit", "after", _merge),
    "sweep": Moment(sweeping, "remove", "after"),
    "intake-before": Moment(IntakeLog, "append", "before"),
    "intake-after": Moment(IntakeLog, "append", "after"),
    "catalog-before": Moment(CatalogLog, "record", "before"),
    "catalog-after": Moment(CatalogLog, "record", "after"),
    "pond-half-made": Moment(os, "replace", "before", lambda new, old: old.endswith("pond.json")),
    "torn-write": Moment(os, "replace", "before", lambda new, old: old.endswith(".parquet")),
    "any-rename": Moment(os, "replace", "before"),
    "any-sync": Moment(os, "fsync", "after"),
}


def die() -> None:
    """Kill the whole process group, as kill -9 does."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
    threading.Event().wait()


def arm(moment: Moment, nth: int) -> None:
    """Die at the n-th occurrence of a moment."""
    original = getattr(moment.owner, moment.name)
    lock, seen = threading.Lock(), 0

    def wrapped(*args: Any, **named: Any) -> Any:
        nonlocal seen
        with lock:
            seen += bool(moment.hit(*args, **named))
            fatal = bool(moment.hit(*args, **named)) and seen == nth
        if fatal and moment.when == "before":
            die()
        result = original(*args, **named)
        if fatal:
            die()
        return result

    setattr(moment.owner, moment.name, wrapped)


def arm_between(first: str, second: str, nth: int) -> None:
    """Die in the n-th epoch that commits both tables, when `first` is committed and `second` is not.

    The tables of an epoch are committed at the same time, so one has to wait for the other.
    """
    original = SegmentTable.commit
    done: set[int] = set()
    changed = threading.Condition()
    seen = 0

    def commit(
        self: SegmentTable, add: Any, remove: Any = (), application: Any = None, number: int = 0, **named: Any
    ) -> None:
        nonlocal seen
        if application == "epoch" and f"/{second}" in self.folder:
            with changed:
                both = changed.wait_for(lambda: number in done, 1)
            seen += both
            if both and seen == nth:
                die()
        original(self, add, remove, application, number, **named)
        if f"/{first}" in self.folder:
            with changed:
                done.add(number)
                changed.notify_all()

    SegmentTable.commit = commit  # type: ignore[method-assign]  # this process dies in the middle of commits


def log_hashes(work: str) -> None:
    """Note the checksum of every file that an epoch writes, in WORK/written: equal manifests must give equal bytes."""
    replace = os.replace

    def noting(new: str, old: str) -> None:
        name = os.path.basename(old)
        if name.startswith("e") and name.endswith((".parquet", ".arrow")):
            with open(new, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            with open(os.path.join(work, "written"), "a", encoding="utf-8") as log:
                log.write(f"{os.path.relpath(old, work)} {digest}\n")
        replace(new, old)

    os.replace = noting


F_OPTIONS = "path='{src}/*.csv', format='csv', event_time='ts', lateness='5s', ahead='1 hour'"
Q1 = """SELECT k, count(*) AS c, sum(v) AS s, avg(v) AS m, median(v) AS d, stddev_samp(v) AS t
        FROM f [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"""
Q2 = "SELECT k, count(*) AS c, max(v) AS x FROM f [RANGE TUMBLING 5 SECONDS] GROUP BY k HAVING count(*) > 3"
Q3 = "SELECT k, count(*) AS c, sum(v) AS s FROM g [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"
Q4 = "SELECT count(*) AS c, sum(v) AS s, last(k) AS l FROM f [RANGE 20 SECONDS SLIDE 10 SECONDS]"
Q5 = "SELECT k, count(*) AS c, min(v) AS x FROM g [RANGE TUMBLING 10 SECONDS] GROUP BY k"
Q6 = "SELECT k, count(*) AS c, sum(v) AS s, median(v) AS d FROM f [SESSION 1 SECOND MAX 4 SECONDS] GROUP BY k"
QUERIES = ("q1", "q2", "q3", "q4", "q5", "q6")


class Scenario:
    """Stages that can be repeated: a later life goes on with the stage in which the earlier one died."""

    def __init__(self, work: str, executor: str, master: str | None, compact: int) -> None:
        self.work, self.stage = work, 0
        marker = os.path.join(work, "stage")
        reached = 0
        if os.path.exists(marker):
            with open(marker, encoding="utf-8") as file:
                reached = int(file.read() or 0)
        self.stage = reached
        compaction.FAN_IN = 2
        layout.BLOCK_ROWS = 2
        self.pond = millpond.api.pond.open(
            os.path.join(work, "pond"),
            executor,
            master=master,
            clock=lambda: BASE + self.stage * 1_000_000,
            compact_files=compact,
            settle=0,
        )

    def run(self) -> None:
        """All stages from the one reached on, then the outcome."""
        stages = (
            self._create,
            lambda: self._feed("a"),
            lambda: self._feed("b"),
            lambda: self._feed("c"),
            lambda: self._register("q2", Q2),
            lambda: self._feed("d"),
            self.pond.maintain,
            lambda: self._register("q4", Q4, "WITH (since='start')"),
            lambda: self._register("q5", Q5, "WITH (since='start')"),
            lambda: self._alter("f", "replicate(0.25, 0.75)"),
            lambda: self._feed("e"),
            self.pond.maintain,
            lambda: self._alter("g", "replicate(0.5)"),
            lambda: self._sql("ALTER QUERY q3 PAUSE"),
            lambda: self._feed("f"),
            lambda: self._sql("ALTER QUERY q3 RESUME"),
            self.pond.maintain,
            lambda: self.pond.drain(final=True),
        )
        for number, stage in enumerate(stages):
            if number >= self.stage:
                self.stage = number
                with open(os.path.join(self.work, "stage.tmp"), "w", encoding="utf-8") as file:
                    file.write(str(number))
                os.rename(file.name, os.path.join(self.work, "stage"))
                stage()
        self.pond.maintain()
        with open(os.path.join(self.work, "outcome.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(outcome(self.pond), default=str))

    def _create(self) -> None:
        self.pond.sql(
            "CREATE STREAM IF NOT EXISTS f (ts TIMESTAMP, k TEXT, v DOUBLE, n INTEGER) "
            f"WITH ({F_OPTIONS.format(src=os.path.join(self.work, 'src'))}, archive='replicate(0.25, 0.5)');"
            "CREATE STREAM IF NOT EXISTS g (ts TIMESTAMP, k TEXT, v DOUBLE) "
            "WITH (event_time='ts', lateness='2s', late='drop', archive='randomize(3)');"
            f"CREATE QUERY IF NOT EXISTS q1 AS {Q1}; CREATE QUERY IF NOT EXISTS q3 AS {Q3};"
            f"CREATE QUERY IF NOT EXISTS q6 AS {Q6}"
        )

    def _feed(self, name: str) -> None:
        """Let the file of this name and the batch beside it come in, as one epoch."""
        waiting = os.path.join(self.work, "waiting", f"{name}.csv")
        if os.path.exists(waiting):
            os.rename(waiting, os.path.join(self.work, "src", f"{name}.csv"))
        with open(os.path.join(self.work, "batches", f"{name}.json"), encoding="utf-8") as file:
            self.pond.ingest("g", json.load(file), key=name)
        self.pond.drain()

    def _register(self, name: str, query: str, options: str = "") -> None:
        self.pond.sql(f"CREATE QUERY IF NOT EXISTS {name} {options} AS {query}")
        self.pond.drain()

    def _alter(self, stream: str, design: str) -> None:
        self.pond.sql(f"ALTER STREAM {stream} SET (archive = '{design}')")

    def _sql(self, text: str) -> None:
        self.pond.sql(text)
        self.pond.drain()


def outcome(pond: Any) -> dict[str, Any]:
    """Everything that must be the same whatever crashed."""
    from deltalake import DeltaTable

    core = pond._core
    answers = {q: [list(map(_plain, r)) for r in pond.sql(f"SELECT * FROM {q}").rows()] for q in QUERIES}
    logs = {q: [list(map(_plain, r)) for r in pond.sql(f"SELECT * FROM {q} ALL REVISIONS").rows()] for q in QUERIES}
    archives = {}
    for runtime in core.streams.values():
        for copy, table in {"": runtime.archive, **runtime.copies}.items():
            rows = DeltaTable(table.folder).to_pyarrow_table().sort_by("_id")
            shown = [list(map(_plain, r.values())) for r in rows.to_pylist()]
            archives[f"{runtime.definition.name} {copy}".strip()] = shown
    return {
        "answers": answers,
        "logs": logs,
        "archives": archives,
        "counts": to_json(core.published.counts),
        "streams": {n: [list(map(_plain, r)) for r in pond.sql(f"SELECT * FROM {n}").rows()] for n in ("f", "g")},
        "late": [list(map(_plain, r)) for r in pond.sql("SELECT * FROM late(g)").rows()],
        "dead": [list(map(_plain, r)) for r in pond.sql("SELECT * FROM dead(f) ORDER BY position").rows()],
        "queries": to_json(core.published.queries),
        "orphans": [name for table in core.storage.tables() for name in table.orphans()],
    }


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.datetime) else repr(value) if isinstance(value, float) else value


def main(arguments: list[str]) -> None:
    """Run once, dying where `--die` says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work")
    parser.add_argument("--executor", default="inline")
    parser.add_argument("--master")
    parser.add_argument("--compact", type=int, default=2)
    parser.add_argument("--die")
    chosen = parser.parse_args(arguments)
    signal.alarm(DEADLINE)  # a scenario that hangs is a failure, not a test that never ends
    log_hashes(chosen.work)
    if chosen.die:
        name, nth = chosen.die.rsplit(":", 1)
        if "|" in name:
            arm_between(*name.split("|"), int(nth))
        else:
            arm(MOMENTS[name], int(nth))
    scenario = Scenario(chosen.work, chosen.executor, chosen.master, chosen.compact)
    scenario.run()
    scenario.pond.close()


def serve(run: Callable[[list[str]], None] = main) -> None:
    """Fork one process per line of standard input, which it is `run` with; its exit status is the answer."""
    for module in ("deltalake", "numba", "pandas", "pyarrow.parquet", "_strptime", "zoneinfo"):  # imported on first use
        importlib.import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setsid()
            code = 1
            try:
                run(shlex.split(line))
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        main(sys.argv[1:])
