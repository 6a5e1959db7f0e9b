"""Millpond's whole way as a runner (`python -m bench.psoup.stream JOB`): files come, epochs run, results are stored.

Queries are registered, files appear, map tasks archive the rows, match them and write row sets beside them; then a
sample of queries is invoked and compared, and so are the row sets in the files.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.common import log, place_files, report, steady_rate, tree_cpu
from bench.psoup.workload import (
    COLUMNS,
    MIXES,
    STREAM,
    Condition,
    boxes,
    conditions,
    duckdb_counts,
    files_source,
    sample,
    statement,
)
from bench.subject import EpochMarks

_CHUNK = 16_384


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Register a mix's queries, let the files appear, drain, check.

    Arguments: job with mix, queries, files, folder (scratch), executor, settings (for `millpond.open`), sample.
    Returns: rows_per_s beyond the first epoch, seconds of processor time from the first file to the end, seconds of the
        map tasks by step, bytes of the results, what the sample
    of queries said: checked, wrong, median milliseconds of an invocation.
    """
    import millpond

    home = Path(job["folder"])
    source = home / "input"
    source.mkdir(parents=True)
    chosen = conditions(MIXES[job["mix"]], int(job["queries"]))
    some = sample(len(chosen), int(job["sample"]))
    with millpond.open(str(home / "pond"), executor=job["executor"], **job["settings"]) as pond:
        pond.ready()
        pond.sql(
            f"CREATE STREAM {STREAM} ({COLUMNS}) WITH (source='files', path='{source}/*.parquet', event_time='ts');"
        )
        begin = time.perf_counter()
        handles = []
        for at in range(0, len(chosen), _CHUNK):
            handles += pond.register_many([statement(c) for c in chosen[at : at + _CHUNK]])
        registered = time.perf_counter() - begin
        log(f"  registered {len(chosen):,} in {registered:.1f} s")
        watch = EpochMarks(pond)
        watch.start()
        begin, used = time.perf_counter(), tree_cpu(os.getpid())
        place_files([Path(path) for path in job["files"]], source)
        pond.drain()
        drained = time.perf_counter() - begin
        used = tree_cpu(os.getpid()) - used
        marks = watch.stop()
        report({"phase": "measured"})
        log(f"  drained in {drained:.1f} s: {[(round(t - begin, 2), n) for t, n in marks]}")
        files = sorted((home / "pond" / "hot").rglob("*.blocks"))
        stored = sum(path.stat().st_size for path in files)
        expected = duckdb_counts(files_source(job["files"]), [chosen[q] for q in some])
        counts, rows, explicit = stored_counts(files, [(handles[q].id, chosen[q]) for q in some])
        wrong = [q for q, one, other in zip(some, counts, expected, strict=True) if one != other]
        invoked: list[float] = []
        # An answer may be large: fewer are fetched than are counted.
        for q, count in list(zip(some, expected, strict=True))[:: max(1, len(some) // 16)]:
            begin = time.perf_counter()
            answer = handles[q].result()
            invoked.append(1000 * (time.perf_counter() - begin))
            if len(answer) != count:
                wrong.append(q)
        status = pond.status()
    return {
        "rows_per_s": steady_rate(marks),
        "rows": marks[-1][1],
        "epochs": len(marks),
        "seconds": drained,
        "cpu_s": used,
        "registration_s": registered,
        "stored_rows": rows,
        "stored_bytes_per_row": stored / max(1, rows),
        "stored_files": len(files),
        "explicit": explicit,
        "invoke_ms": statistics.median(invoked),
        "checked": len(some),
        "wrong": sorted(set(wrong)),
        "last_epochs": status.get("last_epochs", [])[-3:],
    }


def stored_counts(files: list[Path], wanted: list[tuple[int, Condition]]) -> tuple[list[int], int, float]:
    """What the files of results say.

    Arguments: the files; ids and conditions of queries.
    Returns: matching rows of each query; rows of all blocks; queries with an explicit row set, on average.
    """
    from millpond.synopses.predicate_index.block_files import read_blocks
    from millpond.synopses.predicate_index.matches import rows_of

    counts, rows, explicit, blocks = [0] * len(wanted), 0, 0, 0
    for path in files:
        for block, matches in read_blocks(str(path)) or []:
            rows += len(block)
            explicit += len(matches) if matches is not None else 0
            blocks += 1
            for place, (query, condition) in enumerate(wanted):
                known = matches.count(query) if matches is not None else None
                counts[place] += len(rows_of(block, boxes(condition))) if known is None else known
    return counts, rows, explicit / max(1, blocks)


if __name__ == "__main__":
    report({"result": run(json.loads(sys.argv[1]))})
