"""The matching kernel alone, on one core and in memory (a runner: `python -m bench.psoup.kernel JOB`).

*shared*: blocks of rows meet the predicate index of all queries. *unshared*: each query is evaluated by itself over the
block, one vectorised comparison after the other. *partial*: which rows match is kept for every query. *complete*: the
answer of every query's window of the last `WINDOW` rows is made anew each time so many rows have come.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from bench.common import report
from bench.psoup.workload import MIXES, Condition, boxes, conditions, expected_rate, rows, sample

#: Rows in the window of complete answers, and how many come before they are made anew (PSoup: each single row).
WINDOW = 1_000
#: Queries that stand for all where the cost of each is the same: unshared evaluation, making complete answers.
SOME = 384


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Measure one mix at one number of queries.

    Arguments: job with mix, queries, blocks (how many), seconds (least time to measure matching for).
    Returns: rows_per_s (of processor time, all threads: another program on the machine does not count) of
    shared_partial, shared_complete, unshared_partial, unshared_complete; matches per row; the index's form and bytes;
    how many of a sample of queries have other counts than DuckDB's.
    """
    from millpond.synopses.blocks import BLOCK_ROWS, Block
    from millpond.synopses.predicate_index.boxes import BoxTable
    from millpond.synopses.predicate_index.matches import match_block, rows_of

    mix, count = MIXES[job["mix"]], int(job["queries"])
    each = int(job.get("rows", BLOCK_ROWS))
    chosen = conditions(mix, count)
    begin = time.perf_counter()
    table = BoxTable()
    table.add_many((number, boxes(c)) for number, c in enumerate(chosen))
    table.compile()
    load = time.perf_counter() - begin
    tables = [_engine_rows(each, number * each, mix.top) for number in range(int(job["blocks"]))]
    match_block(Block.build(tables[0].slice(0, 2_000), "ts")[0], table)  # compiles the kernels
    # Shared, partial: from Arrow rows to row sets, index of the block included.
    best, wall, turns, spent = float("inf"), float("inf"), 0, 0.0
    while turns < len(tables) or spent < float(job.get("seconds", 1.0)):
        source = tables[turns % len(tables)]
        begin, used = time.perf_counter(), time.process_time()
        block = Block.build(source, "ts")[0]
        matches = match_block(block, table)
        took = time.perf_counter() - begin
        best, wall = min(best, time.process_time() - used), min(wall, took)
        turns, spent = turns + 1, spent + took
    some = sample(count, min(SOME, count))
    block = Block.build(tables[0], "ts")[0]
    matches = match_block(block, table)
    columns = {name: np.asarray(tables[0][name].to_numpy()) for name in "abcd"}
    unshared = _least(lambda: [_alone(columns, chosen[q]) for q in some]) * count / len(some)
    first = max(0, each - WINDOW)
    numbers = [(q, boxes(chosen[q])) for q in some]

    def refresh() -> None:
        for query, shape in numbers:
            found = matches.rows(query)
            if found is None:
                found = rows_of(block, shape, first, each)
            else:
                found = found[np.searchsorted(found, np.uint16(first)) :]
            block.rows.take(found)

    window = tables[0].slice(first)
    part = {name: column[first:] for name, column in columns.items()}

    def refresh_alone() -> None:
        for query in some:
            window.take(_alone(part, chosen[query]))

    refreshes = each / min(WINDOW, each)
    made = _least(refresh) * count / len(some) * refreshes
    made_alone = _least(refresh_alone) * count / len(some) * refreshes
    wrong, looked = _check(tables, table, chosen, sample(count, min(256, count)))
    return {
        "rows_per_s": {
            "shared_partial": each / best,
            "shared_complete": each / (best + made),
            "unshared_partial": each / unshared,
            "unshared_complete": each / (unshared + made_alone),
        },
        "rows_per_wall_s": each / wall,
        "factors": float(np.mean([len(c) for c in chosen])),
        "match_rate": expected_rate(chosen, mix.top),
        "explicit": len(matches),
        "result_bytes_per_row": matches.nbytes / each,
        "load_s": load,
        "index": index_form(block, table),
        "block_rows": each,
        "checked": looked,
        "wrong": wrong,
    }


def _engine_rows(count: int, start: int, top: int) -> Any:
    import pyarrow as pa

    made = rows(count, start, top)
    ids = np.arange(start, start + count, dtype=np.int64)
    return made.append_column("_id", pa.array(ids)).append_column("_epoch", pa.array(np.ones(count, np.int64)))


def _alone(columns: dict[str, Any], condition: Condition) -> Any:
    keep = None
    for name, low, high in condition:
        column = columns[name]
        inside = (column >= low) & (column <= high)
        keep = inside if keep is None else keep & inside
    return np.flatnonzero(keep).astype(np.uint16)


def _least(work: Any, turns: int = 2) -> float:
    least = float("inf")
    for _ in range(turns):
        begin = time.process_time()
        work()
        least = min(least, time.process_time() - begin)
    return least


def _check(tables: list[Any], table: Any, chosen: list[Condition], some: list[int]) -> tuple[int, int]:
    """How many of some queries' counts over all blocks are not DuckDB's, of how many."""
    import duckdb
    import pyarrow as pa

    from bench.psoup.workload import sql
    from millpond.synopses.blocks import Block
    from millpond.synopses.predicate_index.matches import match_block, rows_of

    counts = np.zeros(len(some), np.int64)
    for source in tables:
        block = Block.build(source, "ts")[0]
        matches = match_block(block, table)
        for place, query in enumerate(some):
            known = matches.count(query)
            counts[place] += len(rows_of(block, boxes(chosen[query]))) if known is None else known
    connection = duckdb.connect()
    connection.register("source", pa.concat_tables(tables))
    shown = ", ".join(f"count(*) FILTER (WHERE {sql(chosen[q])})" for q in some)
    expected = np.array(connection.sql(f"SELECT {shown} FROM source").fetchall()[0])
    return int((counts != expected).sum()), len(some)


def index_form(block: Any, table: Any) -> dict[str, Any]:
    """Which form of the predicate index a block gets, and what it takes.

    Form: 'value bitmaps' (one per distinct value and attribute), 'bucket bitmaps' (one per 256 rows in the order of the
    attribute, edges by codes), 'grid' (rows by cells over several attributes), 'ordered lists' (slices of each
    attribute's order are walked): those that are there, with the number of boxes that use each.
    """
    from millpond.synopses.predicate_index import match_plans, probe

    snapshot = table.compile()
    plan = match_plans.Plan(block, snapshot)
    ways = match_plans.ways_of(plan, snapshot, np.arange(len(snapshot.queries)))
    bits, _, shift = match_plans.bitmaps_of(plan, ways)
    used = ways.bitmaps
    names = {probe.WALK: "ordered lists", probe.GRID: "grid", probe.BITS: "value bitmaps"}
    if bool(shift.any()):
        names[probe.BITS] = "bucket bitmaps"
    boxes_by_way = np.bincount(ways.way[: len(snapshot.box_first)], minlength=3)
    return {
        "forms": {name: int(boxes_by_way[way]) for way, name in names.items() if boxes_by_way[way]},
        "grid": [int(size) for size in ways.layout.sizes] if ways.layout.cells > 1 else None,
        "distinct_values": max((len(i.values) for i in plan.indexes), default=0),
        "distinct_constants": max((len(c) for c, _ in snapshot.constants), default=0),
        "table_bytes": int(table.nbytes),
        "block_index_bytes": int(sum(i.nbytes for i in plan.indexes)),
        "bitmap_bytes": int(bits.nbytes) if used else 0,
    }


if __name__ == "__main__":
    report({"result": run(json.loads(sys.argv[1]))})
