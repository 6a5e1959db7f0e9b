"""Window queries: Millpond beside native Structured Streaming and beside DuckDB over the same files.

    python -m bench.windows [--files 24] [--rows 500000] [--cases tumbling,sliding] [--set rows_per_epoch=4000000]

Each system runs in a process of its own, one after the other. One JSON object a line per case on standard output:

    bench, case, ratio_native, ratio_limit, rows_per_s, peak_mb, correct
    title, files, rows, epochs                      what Millpond did
    native_rows_per_s, native_state_store, native_files, native_peak_mb, native_queries, native_stores
    limit_rows_per_s, limit_peak_mb                 DuckDB, one query after the other
    target, met, memory_met                         what the project wants to reach
    limit_target, limit_met                         the same, against the limit
    notes                                           how to read the figures

Rows per second count from the end of the first epoch (native: of the first batch) to the end of the last. Exit status
1 when answers disagree or a system failed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bench.agreement import differences
from bench.cases import CASES, Case, generate
from bench.common import Clock, Measured, RunnerFailed, emit, log, names_of, ratio, run_isolated, scratch
from bench.freshness import measure as measure_freshness

FRESHNESS = "freshness"
#: State stores of Structured Streaming.
STORES = ("hdfs", "rocksdb")
#: Rows that an epoch takes at most when nothing else is set.
DEFAULT_EPOCH_ROWS = 4_000_000


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; `cases` becomes a list, `settings` a dict for `millpond.open`."""
    parser = argparse.ArgumentParser(prog="python -m bench.windows", description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=24, help="files of each data set")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of each file")
    cases = [*CASES, FRESHNESS]
    parser.add_argument("--cases", type=names_of(cases), default=cases, help="comma-separated")
    parser.add_argument("--cores", type=int, default=2, help="cores of every system")
    parser.add_argument("--stores", type=names_of(STORES), default=list(STORES), help="native state stores to try")
    parser.add_argument("--native-files", type=int, help="at most so many files for native, instead of the case's own")
    parser.add_argument("--native-per-epoch", type=int, help="files in a native micro-batch, instead of the case's own")
    parser.add_argument("--native-queries", type=int, help="queries that native runs at once in the case of many")
    parser.add_argument("--skip-native", action="store_true", help="leave native out (its figures become null)")
    parser.add_argument("--executor", default="spark", help="Millpond's executor")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of millpond.open")
    options = parser.parse_args(arguments)
    options.settings = dict(_setting(text, parser) for text in options.set)
    return options


def _setting(text: str, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        parser.error(f"--set wants KEY=VALUE, got {text!r}")
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, value


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; the exit status."""
    options, clock, right = parse(arguments), Clock(), True
    with scratch() as home:
        for name in options.cases:
            log(f"{clock} case {name}")
            if name == FRESHNESS:
                lines = measure_freshness(home / name, options.files, options.rows, options.executor, options.settings)
            else:
                lines = [measure(CASES[name], home, options, clock)]
            for line in lines:
                emit(line)
                right = right and bool(line["correct"])
    log(f"{clock} done")
    return 0 if right else 1


def measure(case: Case, home: Path, options: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    """Run one case on the three systems and compare them: the line to print."""
    paths = [str(path) for path in generate(case.data, home / "data", options.files, options.rows)]
    line: dict[str, Any] = {"bench": "windows", "case": case.name, "title": case.title, "correct": False}
    try:
        limit = _run("bench.baselines", case, paths, home / case.name / "limit", options, system="duckdb")
        log(f"{clock}   duckdb   {limit.result['rows_per_s']:14,.0f} rows/s {limit.peak_mb:8,.0f} MB")
        subject = _run("bench.subject", case, paths, home / case.name / "millpond", options)
        log(f"{clock}   millpond {subject.result['rows_per_s']:14,.0f} rows/s {subject.peak_mb:8,.0f} MB")
    except RunnerFailed as error:
        return {**line, "problems": [str(error)]}
    expected = dict(limit.result["answers"])
    compared, problems = millpond_problems(case, limit.result, subject.result)
    native = _native(case, paths, home / case.name, expected, options, clock, problems)
    notes = ["memory is RSS summed over the process tree, shared pages counted in each process"]
    rows_per_s, native_rows_per_s = subject.result["rows_per_s"], native.get("native_rows_per_s")
    reached = ratio(rows_per_s, native_rows_per_s)
    if native.get("native_files", options.files) < options.files:
        notes.append(f"native ran on {native['native_files']} of {options.files} files")
    if native.get("native_queries", len(case.queries)) < len(case.queries):
        notes.append(
            f"native ran {native['native_queries']} of {len(case.queries)} queries at once; its rate is extrapolated "
            f"to all of them (cost taken as linear in the number of queries)"
        )
    if case.not_native:
        notes.append(case.not_native)
    against_limit = ratio(rows_per_s, limit.result["rows_per_s"])
    if len(case.queries) > 1:
        notes.append("the limit answers the queries one after the other, reading the files for each")
    for problem in problems:
        log(f"  WRONG {problem}")
    return {
        **line,
        "ratio_native": reached,
        "ratio_limit": against_limit,
        "rows_per_s": round(rows_per_s),
        "peak_mb": subject.peak_mb,
        "correct": not problems,
        "files": options.files,
        "rows": limit.result["rows"],
        "epochs": subject.result["epochs"],
        "answers_compared": compared,
        "registration_s": round(subject.result["registration_s"], 3),
        **native,
        "limit_rows_per_s": round(limit.result["rows_per_s"]),
        "limit_peak_mb": limit.peak_mb,
        "target": None if case.not_native else case.target,
        "met": None if reached is None else reached >= case.target,
        "limit_target": case.limit_target,
        "limit_met": _met(against_limit, case.limit_target),
        "memory_met": None if not native.get("native_peak_mb") else subject.peak_mb <= native["native_peak_mb"] + 1000,
        "problems": problems,
        "notes": notes,
    }


def _met(reached: float | None, wanted: float | None) -> bool | None:
    return None if reached is None or wanted is None else reached >= wanted


def millpond_problems(case: Case, limit: dict[str, Any], subject: dict[str, Any]) -> tuple[int, list[str]]:
    """Compare Millpond's answers with DuckDB's, up to the last window that progress has passed.

    Arguments: the results of the two runners. Returns: the number of answers compared, and what is wrong.
    """
    compared, problems = 0, []
    given = dict(subject["answers"])
    for query, (name, folder) in zip(case.queries, limit["answers"], strict=True):
        until = query.until(limit["last"] - case.data.disorder * 1_000_000)
        total, wrong, example = differences(Path(folder), Path(given[name]), until=until)
        compared += total
        if wrong:
            problems.append(f"millpond, {name}: {wrong} of {total} answers differ: {example}")
    return compared, problems


def _run(module: str, case: Case, paths: list[str], folder: Path, options: argparse.Namespace, **job: Any) -> Measured:
    # At least three epochs, so that the first can be left out; the engine's own bound decides at full size.
    settings: dict[str, Any] = {"master": f"local[{options.cores}]", **options.settings}
    third = options.files * options.rows // 3
    if third < DEFAULT_EPOCH_ROWS:
        settings.setdefault("rows_per_epoch", max(1, third))
    common = {
        "case": case.name,
        "files": paths,
        "folder": str(folder),
        "cores": options.cores,
        "executor": options.executor,
        "settings": settings,
    }
    return run_isolated(module, {**common, **job})


def _native(
    case: Case,
    paths: list[str],
    folder: Path,
    expected: dict[str, str],
    options: argparse.Namespace,
    clock: Clock,
    problems: list[str],
) -> dict[str, Any]:
    """Run native with each state store, check its answers, and report the faster."""
    if options.skip_native or case.not_native:
        return {}
    files = min(len(paths), options.native_files or case.native_files)
    per_epoch = min(options.native_per_epoch or case.native_per_epoch, max(1, files // 3))
    queries = min(len(case.queries), options.native_queries or case.native_queries)
    best: tuple[float, str, Measured] | None = None
    stores: dict[str, float | None] = {}
    for store in options.stores:
        try:
            run = _run(
                "bench.baselines",
                case,
                paths[:files],
                folder / store,
                options,
                system="native",
                store=store,
                per_epoch=per_epoch,
                queries=queries,
                memory=case.native_memory,
            )
        except RunnerFailed as error:
            log(f"{clock}   native with {store} failed: {error}")
            stores[store] = None
            continue
        rate = run.result["rows_per_s"]
        stores[store] = round(rate)
        log(f"{clock}   native   {rate:14,.0f} rows/s {run.peak_mb:8,.0f} MB, {store}, {run.result['epochs']} batches")
        for name, answers in run.result["answers"]:
            total, wrong, example = differences(Path(expected[name]), Path(answers))
            if wrong:
                problems.append(f"native with {store}, {name}: {wrong} of {total} answers differ: {example}")
        if best is None or rate > best[0]:
            best = (rate, store, run)
    found: dict[str, Any] = {"native_stores": stores, "native_files": files, "native_files_per_batch": per_epoch}
    if best is None:
        problems.append("native failed with every state store")
        return found
    rate, store, run = best
    return {
        "native_rows_per_s": round(rate),
        "native_state_store": store,
        "native_peak_mb": run.peak_mb,
        "native_queries": queries,
        **found,
    }


if __name__ == "__main__":
    sys.exit(main())
