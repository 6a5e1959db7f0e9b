"""Data rate against the number of standing queries: Fig. 9, and the whole way through Spark beside its baselines.

*kernel* lines: one core, in memory, predicate index shared and unshared, results partial and complete. *stream* lines:
files to stored results on Spark, beside DuckDB and two native forms. Every line says the queries that match a row.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from bench.common import Budget, Measured, RunnerFailed, emit, log, names_of, ratio, run_isolated, whole_numbers
from bench.psoup.baselines import narrowest
from bench.psoup.workload import MIXES, conditions, expected_rate, write_files

BENCH = "psoup.rate"
#: Rows per second that are aimed at on two cores, by mix and number of queries.
TARGETS = {
    ("selective", 4_096): 1_000_000,
    ("selective", 131_072): 100_000,
    ("broad", 4_096): 300_000,
    ("broad", 131_072): 50_000,
}
#: Pairs of query and row that the native join may look at, and write.
LOOKED_AT, WRITTEN = 50_000_000, 5_000_000
#: Conditions that DuckDB evaluates (queries x rows), and rows of a file of the native systems, at most.
COUNTED, NATIVE_ROWS = 100_000_000, 200_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said about this part."""
    group = parser.add_argument_group("rate")
    group.add_argument("--mixes", type=names_of(MIXES), default=["selective", "broad"], help=f"of {', '.join(MIXES)}")
    group.add_argument(
        "--kernel", type=whole_numbers, default=[7, 10, 12, 17], help="powers of two: queries of the kernel lines"
    )
    group.add_argument(
        "--stream", type=whole_numbers, default=[12, 17], help="powers of two: queries of the stream lines; empty: none"
    )
    group.add_argument(
        "--files",
        type=int,
        default=12,
        help="files of the stream lines; an epoch takes two per core, one from 2^15 queries on",
    )
    group.add_argument("--rows", type=int, default=500_000, help="rows of a file; half from 2^15 queries on")
    group.add_argument("--native-filters", type=int, default=6, help="native queries at once; 0: no native systems")
    group.add_argument("--duckdb-filters", type=int, default=512, help="FILTER counts in one scan, at most")


def run(options: argparse.Namespace, home: Path, budget: Budget) -> bool:
    """Print the lines; whether all was right."""
    right, clock = True, budget.clock
    mixes = options.mixes
    kernels = [(mix, 1 << p) for mix in mixes for p in options.kernel]
    if options.kernel and "wide" not in mixes and not options.tiny:
        kernels.append(("wide", 1 << max(options.kernel)))
    if options.tiny:
        options.files, options.rows = 6, 20_000
        kernels = [(mix, 128) for mix in mixes]
    for power in [7] if options.tiny else options.stream:
        for mix in mixes:
            count = 1 << power
            log(f"{clock} stream, {mix}, {count:,} queries")
            if budget.room(0.0 if options.tiny else 60.0 + count / 1_500, f"rate: stream-{mix}-{count}"):
                right &= _emitted(lambda mix=mix, count=count: stream_line(mix, count, options, home, budget))
    for mix, count in sorted(kernels, key=lambda case: -case[1]):
        log(f"{clock} kernel, {mix}, {count:,} queries")
        if budget.room(0.0 if options.tiny else 10.0 + count / 10_000, f"rate: kernel-{mix}-{count}"):
            right &= _emitted(lambda mix=mix, count=count: kernel_line(mix, count, options, budget))
    return right


def _emitted(make: Any) -> bool:
    try:
        line = make()
    except RunnerFailed as error:
        line = {"bench": BENCH, "case": "failed", "correct": False, "problems": [str(error)]}
    emit(line)
    return bool(line["correct"])


def kernel_line(mix: str, count: int, options: argparse.Namespace, budget: Budget) -> dict[str, Any]:
    """Shared and unshared, partial and complete, at one number of queries."""
    job = {"mix": mix, "queries": count, "blocks": 2, "seconds": 0.0 if options.tiny else 1.0}
    if options.tiny:
        job["rows"] = 4_096
    measured = run_isolated("bench.psoup.kernel", job, budget.timeout)
    found = measured.result
    rates = found.pop("rows_per_s")
    shared = rates["shared_partial"]
    return {
        "bench": BENCH,
        "case": f"kernel-{mix}-{count}",
        "rows_per_s": round(shared),
        "peak_mb": measured.peak_mb,
        "correct": found["wrong"] == 0,
        "mix": mix,
        "queries": count,
        "match_rate": round(found["match_rate"], 2),
        **{f"{name}_rows_per_s": round(rate, 1) for name, rate in rates.items()},
        "ratio_unshared": ratio(shared, rates["unshared_partial"]),
        "ratio_complete": ratio(shared, rates["shared_complete"]),
        "ratio_unshared_complete": ratio(shared, rates["unshared_complete"]),
        "rows_per_wall_s": round(found["rows_per_wall_s"]),
        "index": found["index"],
        "explicit_queries": found["explicit"],
        "result_bytes_per_row": round(found["result_bytes_per_row"], 1),
        "load_s": round(found["load_s"], 3),
        "factors": round(found["factors"], 2),
        "checked": found["checked"],
        "wrong": found["wrong"],
        "notes": [
            "one core: rows per second of processor time",
            "unshared and complete: measured on 384 queries at most and multiplied",
            "complete: the window of the last 1,000 rows, made anew every 1,000 rows",
        ],
    }


def stream_line(mix: str, count: int, options: argparse.Namespace, home: Path, budget: Budget) -> dict[str, Any]:
    """Files to stored results, beside the baselines."""
    clock = budget.clock
    each = options.rows if count < 1 << 15 else options.rows // 2
    files = [str(p) for p in write_files(home / "data", options.files, each, MIXES[mix].top)]
    folder = home / f"stream-{mix}-{count}"
    job = {"mix": mix, "queries": count, "cores": options.cores}
    # Matching may take what it needs, so that row sets are stored for as many queries as the matches per row allow.
    settings = {"matching_share": float("inf"), "hot_bytes": 4 << 30, "master": f"local[{options.cores}]"}
    settings["rows_per_epoch"] = options.cores * each * (1 if count >= 1 << 15 or options.tiny else 2)
    subject = run_isolated(
        "bench.psoup.stream",
        {
            **job,
            "files": files,
            "folder": str(folder / "millpond"),
            "executor": options.executor,
            "settings": {**settings, **options.settings},
            "sample": 64,
        },
        budget.timeout,
    )
    found = subject.result
    log(f"{clock}   millpond {found['rows_per_s']:14,.0f} rows/s {subject.peak_mb:8,.0f} MB")
    most = min(count, options.duckdb_filters)
    # As many rows as make a fixed number of evaluations, which take far longer than planning; a file for each core.
    tested = min(each, max(2_000, COUNTED // most // options.cores))
    counted = [str(p) for p in write_files(home / "data", options.cores, tested, MIXES[mix].top)]
    limit = _baseline({**job, "system": "duckdb", "files": counted, "most": most}, budget)
    natives = _natives(mix, count, options, home, folder, budget) if options.native_filters else {}
    shutil.rmtree(folder, ignore_errors=True)
    problems = [f"{len(found['wrong'])} queries differ from DuckDB"] if found["wrong"] else []
    if found["stored_rows"] != found["rows"]:
        problems.append(f"results of {found['stored_rows']} rows are stored, {found['rows']} came")
    problems += [
        f"native {n}: {len(m.result['wrong'])} queries differ" for n, m in natives.items() if m.result["wrong"]
    ]
    rates = {name: m.result["rows_per_s"] for name, m in natives.items()}
    target = TARGETS.get((mix, count))
    return {
        "bench": BENCH,
        "case": f"stream-{mix}-{count}",
        "ratio_native": ratio(found["rows_per_s"], max(rates.values(), default=None)),
        "ratio_limit": ratio(found["rows_per_s"], limit.result["rows_per_s"]),
        "rows_per_s": round(found["rows_per_s"]),
        "peak_mb": subject.peak_mb,
        "correct": not problems,
        "mix": mix,
        "queries": count,
        "match_rate": round(expected_rate(conditions(MIXES[mix], count), MIXES[mix].top), 2),
        "executor": options.executor,
        "files": options.files,
        "rows": found["rows"],
        "epochs": found["epochs"],
        "cpu_s": round(found["cpu_s"], 2),
        "rows_per_cpu_s": round(found["rows"] / found["cpu_s"]) if found["cpu_s"] else None,
        "registration_s": round(found["registration_s"], 2),
        "stored_bytes_per_row": round(found["stored_bytes_per_row"], 1),
        "explicit_queries": round(found["explicit"]),
        "invoke_ms": round(found["invoke_ms"], 2),
        "checked": found["checked"],
        "wrong": len(found["wrong"]),
        "stages": [e.get("stages") for e in found["last_epochs"]],
        "limit_rows_per_s": round(limit.result["rows_per_s"], 1),
        "limit_queries": limit.result["run"],
        **{f"native_{name}_rows_per_s": round(rate, 1) for name, rate in rates.items()},
        **{f"native_{name}_queries": m.result["run"] for name, m in natives.items()},
        **{f"native_{name}_rows": m.result["rows"] for name, m in natives.items()},
        **{f"native_{name}_peak_mb": m.peak_mb for name, m in natives.items()},
        "target": target,
        "met": None if target is None else found["rows_per_s"] >= target,
        "problems": problems,
        "notes": [
            "rows per second from the end of the first epoch (native: micro-batch) to the end of the last",
            "rows_per_cpu_s: rows per second of processor time of all processes, user and system, first epoch included",
            f"DuckDB counts {limit.result['run']} queries in one scan, keeping no rows; where that is not all, its "
            "rate is taken as linear in their number",
            "native filters: each query a streaming query of its own, as many as said; its rate is extrapolated",
            "native join: broadcast table of queries, hashed by the values of each query's narrowest factor",
        ],
    }


def _baseline(job: dict[str, Any], budget: Budget) -> Measured:
    measured = run_isolated("bench.psoup.baselines", job, budget.timeout)
    log(f"{budget.clock}   {job['system']:8} {measured.result['rows_per_s']:14,.1f} rows/s {measured.peak_mb:8,.0f} MB")
    return measured


def _natives(
    mix: str, count: int, options: argparse.Namespace, home: Path, folder: Path, budget: Budget
) -> dict[str, Measured]:
    top, batches = MIXES[mix].top, 3
    chosen = conditions(MIXES[mix], count)
    candidates = expected_rate([(narrowest(c),) for c in chosen], top)
    joined = int(min(LOOKED_AT / candidates, WRITTEN / expected_rate(chosen, top)) / batches / options.cores)
    files_of = batches * options.cores
    found: dict[str, Measured] = {}
    for name, each in (("filters", options.rows), ("joined", max(1, joined))):
        files = [str(p) for p in write_files(home / "data", files_of, min(NATIVE_ROWS, each), top)]
        job = {"mix": mix, "queries": count, "cores": options.cores, "memory": "4g", "system": name, "files": files}
        job |= {"folder": str(folder / name), "most": min(count, options.native_filters)}
        if not budget.room(0.0 if options.tiny else 45.0, f"rate: native {name} for {mix}, {count} queries"):
            continue
        try:
            found[name] = _baseline(job, budget)
        except RunnerFailed as error:
            log(f"{budget.clock}   native {name} failed: {error}")
    return found
