"""Where an epoch's time goes in a case (default: sliding 60 s by 1 s), from the timings that the engine reports.

    python -m bench.profile_epoch [--case sliding] [--files 24] [--rows 500000]

Prints one JSON object a line on standard output, one per stage, and a table on standard error. The first epoch is left
out. Stages that run on several cores at once are sums over tasks, so they may add up to more than the epoch; what the
engine does not name appears as `(not named)`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

from bench.cases import CASES, generate
from bench.common import emit, log, run_isolated, scratch
from bench.windows import parse as parse_windows

UNNAMED = "(not named)"


def stages(epochs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum up epochs by stage.

    Arguments: epochs, dicts with rows, seconds and stages {name: seconds}.
    Returns: dicts with stage, seconds, share (of all epochs' time), median_s, ns_per_row; the longest first.

        >>> [(s["stage"], s["share"]) for s in stages([{"rows": 10, "seconds": 2.0, "stages": {"map": 1.5}}])]
        [('map', 0.75), ('(not named)', 0.25)]
    """
    total, rows = sum(e["seconds"] for e in epochs), max(1, sum(e["rows"] for e in epochs))
    names = dict.fromkeys(name for e in epochs for name in e.get("stages", {}))
    columns = {name: [float(e.get("stages", {}).get(name, 0.0)) for e in epochs] for name in names}
    columns[UNNAMED] = [max(0.0, e["seconds"] - sum(e.get("stages", {}).values())) for e in epochs]
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


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile_epoch", description=__doc__.split("\n")[0])
    parser.add_argument("--case", default="sliding", choices=list(CASES))
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--executor", default="spark")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of millpond.open")
    options = parser.parse_args(arguments)
    settings = parse_windows([f"--set={text}" for text in options.set]).settings
    case = CASES[options.case]
    with scratch() as home:
        paths = [str(path) for path in generate(case.data, home / "data", options.files, options.rows)]
        job = {"case": case.name, "files": paths, "folder": str(home / "millpond"), "executor": options.executor}
        run = run_isolated("bench.subject", {**job, "settings": settings})
    epochs = [epoch for epoch in run.result["last_epochs"] if epoch["rows"]][1:]
    if not epochs:
        log("the engine reported fewer than two epochs with rows")
        return 1
    for epoch in epochs:
        log(f"  epoch {epoch['epoch']}: {epoch['rows']:,} rows in {epoch['seconds']:.3f} s")
    log(f"{'stage':<32}{'seconds':>10}{'share':>8}{'median s':>10}{'ns/row':>9}")
    for line in stages(epochs):
        log(
            f"{line['stage']:<32}{line['seconds']:>10.3f}{line['share']:>8.1%}{line['median_s']:>10.3f}"
            f"{line['ns_per_row']:>9.1f}"
        )
        common = {"rows_per_s": round(run.result["rows_per_s"]), "peak_mb": run.peak_mb, "correct": True}
        emit({"bench": "profile_epoch", "case": f"{case.name}: {line['stage']}", **common, **line})
    return 0


if __name__ == "__main__":
    sys.exit(main())
