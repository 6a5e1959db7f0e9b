"""Millpond itself as a runner (`python -m bench.subject JOB`): a fresh pond, its archive on, files taken live."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases import CASES, STREAM, Case
from bench.common import log, place_files, report, steady_rate

COLUMNS = "ts TIMESTAMP, k INTEGER, v DOUBLE"


def create_stream(case: Case, folder: Path) -> str:
    """The statement that declares the stream over a folder of Parquet files."""
    lateness = f", lateness='{case.data.disorder}s'" if case.data.disorder else ""
    options = f"source='files', path='{folder}/*.parquet', event_time='ts'{lateness}"
    return f"CREATE STREAM {STREAM} ({COLUMNS}) WITH ({options});"


class EpochMarks(threading.Thread):
    """Watches how many rows a pond has committed and notes when that changes: the ends of its epochs."""

    def __init__(self, pond: Any, interval: float = 0.02) -> None:
        super().__init__(daemon=True)
        self._pond, self._interval, self._over = pond, interval, threading.Event()
        self.marks: list[tuple[float, int]] = []

    def run(self) -> None:
        while not self._over.is_set():
            self.look()
            self._over.wait(self._interval)

    def look(self) -> None:
        """Note the number of rows if it has changed."""
        rows = int(self._pond.status()["streams"][STREAM]["rows"])
        if rows and (not self.marks or rows != self.marks[-1][1]):
            self.marks.append((time.perf_counter(), rows))

    def stop(self) -> list[tuple[float, int]]:
        """End watching; (time, rows) at the end of each epoch."""
        self._over.set()
        self.join()
        self.look()
        return self.marks


def millpond_run(job: dict[str, Any]) -> dict[str, Any]:
    """Register a case's queries, let its files appear, drain, and fetch the answers.

    Arguments: job with case, files, folder (scratch), executor, settings (for `millpond.open`).
    Returns: rows_per_s beyond the first epoch, the marks, the last epochs' timings, the folders of answers.
    """
    import millpond

    case, home = CASES[job["case"]], Path(job["folder"])
    source, answers = home / "input", home / "answers"
    source.mkdir(parents=True)
    with millpond.open(str(home / "pond"), executor=job["executor"], **job["settings"]) as pond:
        pond.ready()
        pond.sql(create_stream(case, source))
        begin = time.perf_counter()
        pond.sql("\n".join(query.millpond() for query in case.queries))
        registered = time.perf_counter() - begin
        watch = EpochMarks(pond)
        watch.start()
        begin = time.perf_counter()
        place_files([Path(path) for path in job["files"]], source)
        pond.drain()
        drained = time.perf_counter() - begin
        marks = watch.stop()
        report({"phase": "measured"})
        log(
            f"  registered in {registered:.2f} s, drained in {drained:.2f} s; "
            f"epochs (s, rows): {_relative(marks, begin)}"
        )
        status = pond.status()
        for query in case.queries:
            save(pond.sql(f"SELECT * FROM {query.name}").table, answers / query.name)
    return {
        "rows_per_s": steady_rate(marks),
        "rows": marks[-1][1],
        "epochs": len(marks),
        "seconds": drained,
        "registration_s": registered,
        "last_epochs": status.get("last_epochs", []),
        "answers": [[query.name, str(answers / query.name)] for query in case.queries],
    }


def _relative(marks: list[tuple[float, int]], begin: float) -> list[tuple[float, int]]:
    return [(round(moment - begin, 2), rows) for moment, rows in marks]


def save(answer: pa.Table, folder: Path) -> None:
    """Write a query's answers in the shape that `agreement` compares."""
    folder.mkdir(parents=True, exist_ok=True)
    group = answer["g"].cast(pa.int64()) if "g" in answer.column_names else pa.nulls(answer.num_rows, pa.int64())
    shaped = {"e": answer["window_end"], "g": group, "c": answer["c"], "s": answer["s"]}
    pq.write_table(pa.table(shaped), folder / "0.parquet")


if __name__ == "__main__":
    report({"result": millpond_run(json.loads(sys.argv[1]))})
