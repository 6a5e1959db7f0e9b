"""What profiling takes in the long run, and how soon a flip is followed, by the engine's own screens and Re-optimiser.

    python -m bench.filters_budget

Three filters that look a value up in a set, row by row, at the defaults (p = .01, a window of 1000, 5 % of the time);
the first and the last change places in the middle. One JSON line for each size of an epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from bench.filters_runs import conjunction
from millpond.adapt import FilterOptions, FilterProfiler, FilterReoptimiser
from millpond.functions import Function, put
from millpond.operators.filters.adaptive_filter import Screen
from millpond.types import FunctionDefinition

#: (rows of an epoch, epochs).
SIZES = ((600, 1000), (5_000, 800), (100_000, 150))
PASSES = np.array([0.97, 0.7, 0.05])
DOMAIN = 1 << 14


def measured(sizes: Iterable[tuple[int, int]] = SIZES) -> Iterable[dict[str, Any]]:
    """For each size: share of profiling in all the time of filters, and epochs until the flip was followed."""
    for i in range(3):
        members = frozenset(v for v in range(DOMAIN) if v >> i & 1)
        put(
            Function(
                FunctionDefinition(f"of{i}", f"udf__of{i}__b0d9e700_{i}", ("BIGINT",), "BOOLEAN"), members.__contains__
            )
        )
    where = conjunction(f"udf__of{i}__b0d9e700_{i}" for i in range(3))
    for rows, epochs in sizes:
        decider, rng = FilterReoptimiser("bench", 3, FilterOptions()), np.random.default_rng(rows)
        took = spent = 0.0
        followed: int | None = None
        for epoch in range(epochs):
            flipped = 2 * epoch >= epochs
            bits = rng.random((rows, 3)) < (PASSES[::-1] if flipped else PASSES)
            v = (bits * (1 << np.arange(3))).sum(axis=1) + 8 * rng.integers(0, DOMAIN // 8, rows)
            screen = Screen(where, decider.plan)
            screen.screen(pa.table({"_id": np.arange(rows) + epoch * rows, "v": v}))
            seen = FilterProfiler("123").observation(epoch, 0, [screen.report()])
            if epoch:  # the first finds caches cold
                took, spent = took + seen.seconds, spent + seen.overhead
            decider.observe(seen)
            if flipped and followed is None and decider.order[0] == 0:
                followed = epoch - epochs // 2 + 1
        share = spent / (took + spent)
        # To the percent: at an end up to four portions may be owed.
        wanted = {"within_budget": round(share, 2) <= 0.05, "followed": followed is not None and followed <= 4}
        yield {
            "figure": f"budget, epochs of {rows} rows",
            "seen": {"share": round(share, 4), "epochs": epochs, "epochs_until_followed": followed},
            "wanted": wanted,
            "correct": all(wanted.values()),
        }


if __name__ == "__main__":
    for line in measured():
        print(json.dumps(line), flush=True)
