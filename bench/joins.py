"""Joins of windows over two to seven streams: Millpond, Structured Streaming's interval joins, DuckDB as the limit.

    python -m bench.joins                                   two-way, 10 minutes, 100,000 keys, 1,000 rows/s on each side
    python -m bench.joins --cases twoway,star3,chain3 --files 8 --rows 250000
    python -m bench.joins --cases star7,chain5,chain7 --files 2 --rows 3000 --keys 1500      small, with joined rows

One JSON object a line and case. Rows/s are rows of all streams, from the end of the first epoch (native: batch) to the
end of the last. `correct`: all three found the same joined rows up to the last instant that is final, by count and by
sums over keys and values.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.common import Clock, Measured, RunnerFailed, emit, log, names_of, ratio, run_isolated, scratch
from bench.join_systems import JOINS, START, STEP, Join, generate


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m bench.joins", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=names_of(JOINS), default=["twoway"], help=f"of {', '.join(JOINS)}")
    parser.add_argument("--files", type=int, default=12, help="files of each stream")
    parser.add_argument("--rows", type=int, default=250_000, help="rows of a file: so many milliseconds of event time")
    parser.add_argument("--keys", type=int, default=0, help="how many different ones; 0: as the case says")
    parser.add_argument("--native-files", type=int, default=0, help="how many of them native takes; 0: all")
    parser.add_argument("--per-epoch", type=int, default=1, help="files of each stream that native takes in a batch")
    parser.add_argument(
        "--epoch-rows", type=int, default=0, help="rows that an epoch of Millpond takes; 0: as it likes"
    )
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--executor", default="spark")
    parser.add_argument("--memory", default="4g", help="of native's driver")
    parser.add_argument("--skip-native", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; the exit status."""
    options, clock, right = parse(arguments), Clock(), True
    with scratch() as home:
        for name in options.cases:
            log(f"{clock} case {name}")
            case = JOINS[name] if not options.keys else replace(JOINS[name], keys=options.keys)
            line = measure(case, home / name, options, clock)
            emit(line)
            right = right and bool(line["correct"])
    return 0 if right else 1


def measure(case: Join, home: Path, options: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    """The three systems over the same files: the line to print."""
    files = generate(case, home / "data", options.files, options.rows)
    last = START + (options.files * options.rows - 1) * STEP
    line: dict[str, Any] = {"bench": "joins", "case": case.name, "correct": False}
    fewer = options.native_files or options.files
    until = {"native": START + (fewer * options.rows - 1) * STEP}
    third = case.streams * options.files * options.rows // 4
    settings: dict[str, Any] = {"rows_per_epoch": options.epoch_rows or min(third, 2_000_000)}
    if options.executor == "spark":
        settings["master"] = f"local[{options.cores}]"

    def run(system: str, paths: list[list[str]], last: int) -> Measured:
        job = {
            "system": system, "case": case.name, "files": paths, "folder": str(home / f"{system}{last}"), "last": last,
            "cores": options.cores, "executor": options.executor, "settings": settings, "memory": options.memory,
            "per_epoch": options.per_epoch,
        }  # fmt: skip
        found = run_isolated("bench.join_systems", job)
        log(f"{clock}   {system:9}{found.result['rows_per_s']:14,.0f} rows/s {found.peak_mb:8,.0f} MB")
        return found

    try:
        limit, subject = run("duckdb", files, last), run("millpond", files, last)
        native = None
        if not options.skip_native:
            some = [paths[:fewer] for paths in files]
            native = run("native", some, until["native"])
            expected = limit if fewer == options.files else run("duckdb", some, until["native"])
    except RunnerFailed as error:
        return {**line, "problems": [str(error)]}
    problems = []
    if subject.result["answer"] != limit.result["answer"]:
        problems.append(f"millpond found {subject.result['answer']}, duckdb {limit.result['answer']}")
    if native is not None and native.result["answer"] != expected.result["answer"]:
        problems.append(f"native found {native.result['answer']}, duckdb {expected.result['answer']}")
    reached = ratio(subject.result["rows_per_s"], native.result["rows_per_s"]) if native else None
    return {
        **line,
        "ratio_native": reached,
        "ratio_limit": ratio(subject.result["rows_per_s"], limit.result["rows_per_s"]),
        "rows_per_s": round(subject.result["rows_per_s"]),
        "peak_mb": subject.peak_mb,
        "correct": not problems,
        "rows": subject.result["rows"],
        "joined": subject.result["answer"][0],
        "epochs": subject.result["epochs"],
        "native_rows_per_s": round(native.result["rows_per_s"]) if native else None,
        "native_peak_mb": native.peak_mb if native else None,
        "native_files": fewer,
        "limit_rows_per_s": round(limit.result["rows_per_s"]),
        "limit_peak_mb": limit.peak_mb,
        # What a row in a window costs, with all that a running pond takes besides.
        "bytes_per_retained_row": round(1e6 * subject.peak_mb / (case.streams * case.seconds * 1e6 / STEP)),
        "target": case.target,
        "met": None if reached is None else reached >= case.target,
        "memory_met": subject.peak_mb <= native.peak_mb + 1000 if native else None,
        "last_epochs": subject.result["last_epochs"][-3:],
        "problems": problems,
    }


if __name__ == "__main__":
    sys.exit(main())
