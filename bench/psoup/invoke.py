"""Response time of an invocation against its window: Fig. 7, Fig. 8, Table 2, in process and over HTTP.

Each line is one kind of query at one window, with milliseconds for results kept partially, completely, and not at all:
`first` (nothing was asked of the query before) and the median of further invocations. Windows are counted in rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.common import Budget, RunnerFailed, emit, log, ratio, report, run_isolated, whole_numbers
from bench.psoup.workload import BASE, COLUMNS, MIXES, STEP, STREAM, conditions, equalities, rows, sql

BENCH = "psoup.invoke"
FORMS = ("partial", "complete", "none")
OTHER = "other"
#: Milliseconds that are aimed at, warm, partial, over 2^15 rows: in process and over HTTP.
TARGET_MS, TARGET_HTTP_MS, TARGET_PER_S = 3.0, 10.0, 1_000.0
#: Rows that are taken in at a time.
_BATCH = 1 << 17
#: Seconds that the further invocations of one query may take.
_PATIENCE = 0.25


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said about this part."""
    group = parser.add_argument_group("invoke")
    group.add_argument(
        "--windows", type=whole_numbers, default=[7, 9, 11, 13, 15, 17, 20], help="powers of two: rows in a window"
    )
    group.add_argument(
        "--join-windows",
        type=whole_numbers,
        default=[7, 9, 11, 13, 15],
        help="the same for join queries, on each stream",
    )
    group.add_argument("--each", type=int, default=3, help="queries of each kind")
    group.add_argument("--clients", type=int, default=16, help="clients over HTTP; 0: no server")
    group.add_argument("--load-seconds", type=float, default=5.0, help="how long they invoke")


def run(options: argparse.Namespace, home: Path, budget: Budget) -> bool:
    """Print the lines; whether all was right."""
    home.mkdir(parents=True, exist_ok=True)
    windows, joins = options.windows, options.join_windows
    if not options.tiny:
        if len(windows) > 3 and not budget.room(_seconds(windows, joins, options), "invoke: every second window"):
            windows, joins = windows[::-2][::-1], joins[::-2][::-1]
        if options.each > 1 and not budget.room(
            _seconds(windows, joins, options), "invoke: more than one query a kind"
        ):
            options.each = 1
    job = {
        "folder": str(home / "pond"),
        "windows": [7, 9] if options.tiny else windows,
        "join_windows": [7] if options.tiny else joins,
        "each": 1 if options.tiny else options.each,
        "settings": options.settings,
    }
    try:
        measured = run_isolated("bench.psoup.invoke", job, budget.timeout)
    except RunnerFailed as error:
        emit({"bench": BENCH, "case": "failed", "correct": False, "problems": [str(error)]})
        return False
    right = True
    for line in measured.result["lines"]:
        emit({"bench": BENCH, "peak_mb": measured.peak_mb, **line})
        right &= line["correct"]
    for line in tables(measured.result["lines"]):
        emit({"bench": BENCH, **line})
    if options.clients:
        from bench.psoup.http import measure

        log(f"{budget.clock} over HTTP")
        for line in measure(Path(job["folder"]), measured.result["http"], options):
            emit({"bench": BENCH, **line})
            right &= line["correct"]
    return right


def _seconds(windows: list[int], joins: list[int], options: argparse.Namespace) -> float:
    """About what it takes: all queries are registered, invoked a while in each form, and compared."""
    asked = len(FORMS) * options.each * (5 * len(windows) + 2 * len(joins))
    return 20.0 + 0.4 * asked + (45.0 if options.clients else 0.0)


def tables(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Table 2 (1, 2 and 4 factors at 2^15 rows) out of the single lines; none where that window was left out."""
    found = {line["factors"]: line for line in lines if line["kind"] == "interval" and line["window"] == 1 << 15}
    if not found:
        return []
    figures = {f"{form}_{n}": found[n][f"{form}_ms"] for form in ("none", "partial", "complete") for n in (1, 2, 4)}
    return [{"case": "table-2", "correct": all(line["correct"] for line in found.values()), **figures}]


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Fill a pond, invoke every query, compare every answer with DuckDB's.

    Arguments: job with folder, windows and join_windows (powers of two), each (queries of a kind), settings.
    Returns: lines, and for `http` what may be asked: [query's id, kind, factors, window, rows].
    """
    import millpond

    windows, joins, each = job["windows"], job["join_windows"], int(job["each"])
    total = 1 << max([*windows, *joins])
    kinds: list[tuple[str, int, list[Any]]] = [("equality", 1, equalities(each))]
    kinds += [("interval", n, conditions(MIXES["broad"], each, seed=5, factors=n)) for n in (1, 2, 3, 4)]
    with millpond.open(job["folder"], executor="inline", **job["settings"]) as pond:
        for stream in (STREAM, OTHER):
            pond.sql(f"CREATE STREAM {stream} ({COLUMNS}) WITH (event_time='ts')")
        asked: list[dict[str, Any]] = []
        for kind, factors, chosen in kinds:
            for power in windows:
                for c in chosen:
                    where = sql(c)
                    asked += _forms(pond, kind, factors, power, f"SELECT * FROM {STREAM} WHERE {where}", where, total)
        for kind, factor in (("join-equality", "r.a = s.b + 3"), ("join-inequality", "r.a > s.b + 239")):
            for power in joins:
                for c, d in zip(*(_narrow(seed, each) for seed in (11, 12)), strict=True):
                    where = f"{factor} AND {sql(c, 'r.')} AND {sql(d, 's.')}"
                    text = f"SELECT r.ts, s.ts AS ts2, r.a, s.b FROM {STREAM} AS r, {OTHER} AS s WHERE {where}"
                    asked += _forms(pond, kind, 1, power, text, where, total)
        log(f"  {len(asked)} queries registered")
        data = {stream: rows(total, seed=seed) for seed, stream in enumerate((STREAM, OTHER), 21)}
        data[OTHER] = data[OTHER].slice(total - (1 << max(joins, default=0)))
        for stream, table in data.items():
            for start in range(0, table.num_rows, _BATCH):
                pond.ingest(stream, table.slice(start, _BATCH))
                pond.step()
        pond.drain()
        pond.query(asked[0]["id"]).result()  # loads hot rows, imports
        for number, query in enumerate(asked):
            _invoke(pond.query(query["id"]), query)
            if number % 100 == 99:
                log(f"  {number + 1} of {len(asked)} invoked")
        report({"phase": "measured"})
        _check(data, asked)
    return {"lines": _lines(asked), "http": [_asked(q) for q in asked if q["form"] == "partial"]}


def _narrow(seed: int, count: int) -> list[Any]:
    """One factor on c of an eighth of the values, so that pairs are few enough to be an answer."""
    starts = [(seed * 37 + 29 * i) % 224 for i in range(count)]
    return [(("c", start, start + 31),) for start in starts]


def _forms(pond: Any, kind: str, factors: int, power: int, text: str, where: str, total: int) -> list[dict[str, Any]]:
    """One query registered in every form; its window holds 2^power rows of each stream."""
    begin = BASE + STEP * (total - (1 << power))
    window = f"BEGIN NOW - INTERVAL {STEP * ((1 << power) - 1)} MICROSECONDS END NOW"
    about = {"kind": kind, "factors": factors, "window": 1 << power, "where": where, "begin": begin}
    return [
        {**about, "form": form, "id": pond.register(f"{text} {window}", materialize=form).id, "text": text}
        for form in FORMS
    ]


def _invoke(handle: Any, query: dict[str, Any]) -> None:
    """Time a query's first invocation and some more, and keep what `_check` compares."""
    begin = time.perf_counter()
    answer = handle.result()
    query["first"] = 1000 * (time.perf_counter() - begin)
    taken: list[float] = []
    until = time.perf_counter() + _PATIENCE
    while len(taken) < 3 or (len(taken) < 50 and time.perf_counter() < until):
        begin = time.perf_counter()
        answer = handle.result()
        taken.append(1000 * (time.perf_counter() - begin))
    query["ms"] = statistics.median(taken)
    query["rows"] = len(answer)
    query["sums"] = _sums(answer.table)


def _sums(table: pa.Table) -> list[int]:
    """Per column the sum of its values, times counted from the first row's."""
    found = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = pc.subtract(column.cast(pa.int64()), BASE)
        found.append(pc.sum(column).as_py() or 0)
    return found


def _check(data: dict[str, pa.Table], asked: list[dict[str, Any]]) -> None:
    import duckdb

    connection = duckdb.connect()
    for name, table in data.items():
        connection.register(name, table)
    known: dict[str, list[int]] = {}
    for query in asked:
        joined = query["kind"].startswith("join")
        after = [f"{p}ts >= make_timestamp({query['begin']})" for p in (("r.", "s.") if joined else ("",))]
        text = " AND ".join([query["text"], *after])
        if text not in known:
            known[text] = _sums(connection.sql(text).to_arrow_table())
        query["correct"] = query["sums"] == known[text]


def _asked(query: dict[str, Any]) -> list[Any]:
    return [query["id"], query["kind"], query["factors"], query["window"], query["rows"]]


def _lines(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for key in dict.fromkeys((q["kind"], q["factors"], q["window"]) for q in asked):
        group = [q for q in asked if (q["kind"], q["factors"], q["window"]) == key]
        line: dict[str, Any] = {
            "case": f"{key[0]}-{key[1]}-{key[2]}",
            "correct": all(q["correct"] for q in group),
            "kind": key[0],
            "factors": key[1],
            "window": key[2],
            "queries": len(group) // len(FORMS),
            "answer_rows": round(statistics.mean(q["rows"] for q in group)),
        }
        for form in FORMS:
            chosen = [q for q in group if q["form"] == form]
            line[f"{form}_ms"] = round(statistics.median(q["ms"] for q in chosen), 3)
            line[f"{form}_first_ms"] = round(statistics.median(q["first"] for q in chosen), 3)
        line["ratio_none_partial"] = ratio(line["none_ms"], line["partial_ms"])
        line["ratio_partial_complete"] = ratio(line["partial_ms"], line["complete_ms"])
        if key[2] == 1 << 15 and not key[0].startswith("join"):
            line |= {"target_ms": TARGET_MS, "met": line["partial_ms"] <= TARGET_MS}
        lines.append(line)
    return lines


if __name__ == "__main__":
    report({"result": measure(json.loads(sys.argv[1]))})
