"""Two versions of Millpond side by side: processor time for the same work, in turns.

    git worktree add ../before <commit>
    python -m bench.versions ../before [--rounds 3] [--cases tumbling,small] [--files 8] [--rows 400000]

Every case runs in a process of its own with the sources of one version, without Spark, so that what is counted is
Millpond's own work; versions take turns, round by round. Processor time is less at the mercy of a machine that others
use than time is, and the least of several rounds is what is compared. One JSON object a line per case:

    bench, case, rows, cpu_before, cpu, ratio, rounds, correct     seconds; ratio: cpu / cpu_before
    all_before, all                                                of every round

Exit status 1 when the answers of the versions differ, or one failed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent

COLUMNS = "ts TIMESTAMP, k BIGINT, g BIGINT, v DOUBLE"

#: What is registered, and the query whose answers are compared.
QUERIES: dict[str, list[str]] = {
    "tumbling": ["SELECT k, count(*) AS n, avg(v) AS a FROM s [RANGE TUMBLING 60 SECONDS] GROUP BY k"],
    "sliding": ["SELECT k, count(*) AS n, sum(v) AS a FROM s [RANGE 60 SECONDS SLIDE 1 SECOND] GROUP BY k"],
    "manykeys": ["SELECT g, count(*) AS n, max(v) AS a FROM s [RANGE TUMBLING 600 SECONDS] GROUP BY g"],
    "fifty": [
        f"SELECT k, count(*) AS n, sum(v) AS a FROM s [RANGE {10 * (i % 6 + 1)} SECONDS SLIDE 10 SECONDS]"
        f" WHERE v > {(i % 10) / 10 - 0.5} GROUP BY k"
        for i in range(50)
    ],
    "rows": ["SELECT k, count(*) AS n, avg(v) AS a FROM s [PARTITION BY k ROWS 100 SLIDE 10]"],
    "filters": ["SELECT count(*) AS n FROM s [RANGE TUMBLING 60 SECONDS] WHERE sin(v) > 0.2 AND k % 7 < 5"],
    "join": ["SELECT ISTREAM(a.k, b.k AS n) FROM s [RANGE 2 SECONDS] a JOIN s [RANGE 1 SECOND] b ON a.g = b.g"
             " WHERE a.v > 1"],
    "pairs": ["SELECT PAIRS(a.k, b.k AS n) FROM s [RANGE 5 SECONDS] a JOIN s [RANGE 5 SECONDS] b ON a.g = b.g"
              " WHERE a.v > 0.5"],
    "matching": [
        f"SELECT k, g AS n FROM s WHERE k = {i % 100} AND v > {1 + (i % 50) / 50} BEGIN NOW - 10 SECONDS END NOW"
        for i in range(2000)
    ],
}  # fmt: skip
#: Many small epochs, ingested; the others read files.
SMALL = [*QUERIES["tumbling"], *QUERIES["fifty"][:10], "SELECT ISTREAM(k, g AS n) FROM s [RANGE 5 SECONDS] WHERE v > 2"]
CASES = [*QUERIES, "small"]


def generate(folder: Path, files: int, rows: int) -> None:
    """The files that every case reads: a row a millisecond, two seconds out of order."""
    draw = np.random.default_rng(1)
    folder.mkdir()
    for number in range(files):
        times = (np.arange(rows) + number * rows) * 1000 + draw.integers(0, 2_000_000, rows)
        columns: dict[str, Any] = {"ts": times.astype("datetime64[us]"), "k": draw.integers(0, 100, rows)}
        columns |= {"g": draw.integers(0, 200_000, rows), "v": draw.normal(size=rows)}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")


def run(case: str, data: Path) -> dict[str, Any]:
    """Run a case with whatever version is imported here: its processor time, rows of answers and a sum over them."""
    import millpond

    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        with millpond.open(f"{folder}/pond", executor="inline") as pond:
            source = "" if case == "small" else f"path='{data}/*.parquet', lateness='5 seconds', "
            create = f"CREATE STREAM s ({COLUMNS}) WITH ({source}{{}}='ts')"
            try:
                pond.sql(create.format("event_time"))
            except millpond.StatementError:  # as it was called before
                pond.sql(create.format("progress"))
            selects = SMALL if case == "small" else QUERIES[case]
            for number, select in enumerate(selects):
                pond.sql(f"CREATE QUERY q{number} AS {select}")
            rows = pq.read_table(data / "0.parquet")

            def drain() -> None:
                pond.drain(final=True)

            def step() -> None:
                for part in range(100):
                    pond.ingest("s", rows.slice(part * 500, 500))
                    pond.step()

            work = step if case == "small" else drain
            begun = _cpu()
            work()
            spent = _cpu() - begun
            last = f"q{len(selects) - 1}"
            asked = f"INVOKE {last}" if case == "matching" else f"SELECT * FROM {last}"
            table = pond.sql(asked).table
            total = int(pc.sum(table["n"]).as_py())
            return {"cpu": spent, "answers": [table.num_rows, total]}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(tree: Path, case: str, data: Path) -> dict[str, Any]:
    """Run a case in a process of its own with the sources of a tree."""
    environment = dict(os.environ) | {"PYTHONPATH": str(tree / "src")}
    # Without this folder on its path, where `statistics` is another module.
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--run", case, "--data", str(data)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case} failed with the sources of {tree}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(before: Path, case: str, data: Path, rounds: int) -> dict[str, Any]:
    """Run a case with both versions in turns."""
    found: dict[str, list[dict[str, Any]]] = {"before": [], "now": []}
    for _ in range(rounds):
        found["before"].append(measured(before, case, data))
        found["now"].append(measured(ROOT, case, data))
    spent = {which: [round(r["cpu"], 2) for r in results] for which, results in found.items()}
    answers = [r["answers"] for results in found.values() for r in results]
    least = {which: min(seconds) for which, seconds in spent.items()}
    return {
        "bench": "versions",
        "case": case,
        "rows": answers[0][0],
        "cpu_before": least["before"],
        "cpu": least["now"],
        "ratio": round(least["now"] / max(least["before"], 0.01), 3),
        "rounds": rounds,
        "correct": all(a == answers[0] for a in answers),
        "all_before": spent["before"],
        "all": spent["now"],
    }


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.versions", description=__doc__.split("\n")[0])
    parser.add_argument("before", nargs="?", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--rounds", type=int, default=3, help="of both versions; the least counts")
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=400_000, help="of a file")
    parser.add_argument("--run", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        print(json.dumps(run(options.run, options.data)), flush=True)
        return 0
    wanted = options.cases.split(",")
    if options.before is None or not (options.before / "src" / "millpond").is_dir() or set(wanted) - {*CASES}:
        parser.error(f"give the folder of a checkout, and cases of {', '.join(CASES)}")
    right = True
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        generate(data, options.files, options.rows)
        for case in wanted:
            line = compare(options.before.resolve(), case, data, options.rounds)
            right = right and line["correct"]
            print(json.dumps(line), flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
