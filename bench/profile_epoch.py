"""Where an epoch's time goes in a case (default: sliding 60 s by 1 s), from the timings that the engine reports.

    python -m bench.profile_epoch [--case sliding] [--files 24] [--rows 500000]

Prints one JSON object a line on standard output, one per stage, and a table on standard error. The first epoch is left
out. `correct` says that the answers equal DuckDB's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

from bench.cases import CASES, generate
from bench.common import emit, log, run_isolated, scratch
from bench.windows import millpond_problems
from bench.windows import parse as parse_windows

#: Stages that the driver times around the tasks; all others are sums over the tasks of the job.
DRIVER = ("job", "commit", "publish")
BETWEEN = "(between tasks)"
UNNAMED = "(not named)"


def stages(epochs: list[dict[str, Any]], cores: int = 1) -> list[dict[str, Any]]:
    """Split epochs' time into stages that add up to it.

    Arguments:
        epochs: dicts with rows, seconds and stages {name: seconds}.
        cores: how many tasks run at a time; a stage of tasks counts its sum divided by this, as if spread evenly.
    Returns: dicts with stage, seconds, share (of all epochs' time), median_s, ns_per_row; the longest first. What the
        job takes beyond its tasks' stages (scheduling, worker hops, exchange, uneven tasks) is `(between tasks)`.

        >>> epoch = {"rows": 10, "seconds": 2.0, "stages": {"read": 2.0, "job": 1.5, "commit": 0.25}}
        >>> [(s["stage"], s["share"]) for s in stages([epoch], cores=2)]
        [('read', 0.5), ('(between tasks)', 0.25), ('commit', 0.125), ('(not named)', 0.125)]
    """
    total, rows = sum(e["seconds"] for e in epochs), max(1, sum(e["rows"] for e in epochs))
    split = [_split(epoch, cores) for epoch in epochs]
    names = dict.fromkeys(name for parts in split for name in parts)
    columns = {name: [parts.get(name, 0.0) for parts in split] for name in names}
    table = [
        {
            "stage": name,
            "seconds": round(sum(values), 4),
            "share": round(sum(values) / total, 3) if total else 0.0,
            "median_s": round(statistics.median(values), 4),
            "ns_per_row": round(sum(values) / rows * 1e9, 1),
        }
        for name, values in columns.items()
    ]
    return sorted(table, key=lambda line: -line["seconds"])


def _split(epoch: dict[str, Any], cores: int) -> dict[str, float]:
    timed = epoch["stages"]
    parts = {name: seconds / cores for name, seconds in timed.items() if name not in DRIVER}
    parts[BETWEEN] = max(0.0, timed.get("job", 0.0) - sum(parts.values()))
    parts |= {name: timed[name] for name in DRIVER[1:] if name in timed}
    parts[UNNAMED] = max(0.0, epoch["seconds"] - sum(timed.get(name, 0.0) for name in DRIVER))
    return parts


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile_epoch", description=__doc__.split("\n")[0])
    parser.add_argument("--case", default="sliding", choices=list(CASES))
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--executor", default="spark")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of millpond.open")
    options = parser.parse_args(arguments)
    settings = parse_windows([f"--set={text}" for text in options.set]).settings
    case = CASES[options.case]
    with scratch() as home:
        paths = [str(path) for path in generate(case.data, home / "data", options.files, options.rows)]
        job = {"case": case.name, "files": paths, "cores": options.cores, "executor": options.executor}
        job["settings"] = {"master": f"local[{options.cores}]", **settings}
        run = run_isolated("bench.subject", {**job, "folder": str(home / "millpond")})
        limit = run_isolated("bench.baselines", {**job, "folder": str(home / "limit"), "system": "duckdb"})
        wrong = millpond_problems(case, limit.result, run.result)[1]
    for problem in wrong:
        log(f"  WRONG {problem}")
    epochs = [epoch for epoch in run.result["last_epochs"] if epoch["rows"]][1:]
    if not epochs:
        log("the engine reported fewer than two epochs with rows")
        return 1
    for epoch in epochs:
        longest = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in epoch["longest"].items())
        log(f"  epoch {epoch['epoch']}: {epoch['rows']:,} rows in {epoch['seconds']:.3f} s; longest tasks: {longest}")
    log(f"{'stage':<32}{'seconds':>10}{'share':>8}{'median s':>10}{'ns/row':>9}")
    for line in stages(epochs, options.cores):
        log(
            f"{line['stage']:<32}{line['seconds']:>10.3f}{line['share']:>8.1%}{line['median_s']:>10.3f}"
            f"{line['ns_per_row']:>9.1f}"
        )
        common = {"rows_per_s": round(run.result["rows_per_s"]), "peak_mb": run.peak_mb, "correct": not wrong}
        emit({"bench": "profile_epoch", "case": f"{case.name}: {line['stage']}", **common, **line})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
