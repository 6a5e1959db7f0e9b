"""Evaluations of filters over the flip of `bench.filters_spark`, by the engine's own screens and Re-optimiser.

    python -m bench.filters_flip

The same values and filters, in epochs of two tasks each, without Spark around them: what a machine's
speed has no say in, but for what the filters are measured to take.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from bench.filters_runs import conjunction
from bench.filters_spark import evaluated, holds, orders_of, values
from millpond.adapt import FilterOptions, FilterProfiler, FilterReoptimiser
from millpond.functions import Function, put
from millpond.operators.filters.adaptive_filter import Screen
from millpond.types import FunctionDefinition

TASKS = 2


def counted(rows: int = 1_280_000, filters: int = 8, files: int = 16, rounds: int = 1_000) -> dict[str, Any]:
    """Evaluations a row of the engine, written in the worst order, and of static orders; with what is wanted."""
    for i in range(filters):
        reference = f"udf__f{i}__f11b0000_{i}"
        definition = FunctionDefinition(f"f{i}", reference, ("BIGINT",), "BOOLEAN", vectorised=True)
        put(Function(definition, holds(i, "mix", rounds)))
    where = conjunction(f"udf__f{i}__f11b0000_{i}" for i in orders_of(filters)["worst"])
    decider, profiler = (
        FilterReoptimiser("flip", filters, FilterOptions()),
        FilterProfiler([str(i + 1) for i in range(filters)]),
    )
    each, passed, per = [], 0, rows // files
    for file in range(files):
        found, reports = values(file, files, per, filters), []
        for task in range(TASKS):
            part = found[task::TASKS]
            screen = Screen(where, decider.plan)
            ids = np.arange(len(part)) + file * per + task * len(part)
            passed += screen.screen(pa.table({"_id": ids, "v": part})).rows.num_rows
            reports.append(screen.report())
        each.append(sum(sum(r["rows"]) for r in reports) / per)
        decider.observe(profiler.observation(file, 0, reports))
    job = {"rows": rows, "files": files, "filters": filters}
    static = {order: round(evaluated(job, order) / rows, 3) for order in orders_of(filters)}
    ours = float(np.mean(each))
    ratios = {order: round(found / ours, 2) for order, found in static.items()}
    wanted = {"worst": ratios["worst"] >= 5, "best": ratios["best"] > 1, "followed_within_epoch": each[files // 2] < 4}
    return {
        "figure": f"flip of {filters} filters, epochs of {per:,} rows, counted",
        "seen": {"evaluations_a_row": round(ours, 3), "epochs": [round(e, 2) for e in each], "static": static,
                 "ratios": ratios, "passed": passed},
        "wanted": wanted,
        "correct": all(wanted.values()),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(counted()))
