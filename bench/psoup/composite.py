"""Composite tuples: Fig. 11's workloads, set-at-a-time against one struct at a time, both in memory on one core.

A new tuple meets many queries `R.a op S.b + c` that share a factor on S: each query gives a struct whose join factor
has a constant of its own. *eq-ineq* means that the join factor is an equality and the shared factor an inequality.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Budget, emit, log, ratio, whole_numbers
from bench.psoup.workload import constants

BENCH = "psoup.composite"
#: Name, operator of the join factor, operator of the shared factor.
WORKLOADS = (("ineq-eq", ">", "="), ("eq-ineq", "=", "<"), ("ineq-ineq", ">", "<"))
TOP = 256


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said about this part."""
    group = parser.add_argument_group("composite")
    group.add_argument(
        "--structs", type=whole_numbers, default=[6, 8, 10, 12], help="powers of two: structs of a composite tuple"
    )
    group.add_argument("--stored", type=int, default=16_384, help="stored rows that are probed")


def run(options: argparse.Namespace, home: Path, budget: Budget) -> bool:
    """Print the lines; whether all was right."""
    right = True
    stored = min(options.stored, 512) if options.tiny else options.stored
    for name, join, shared in WORKLOADS:
        for power in [4] if options.tiny else options.structs:
            line = measure(name, join, shared, 1 << power, stored)
            log(f"{budget.clock} {line['case']}: {line['ratio_separate']} times")
            emit(line)
            right &= line["correct"]
    return right


def measure(name: str, join: Any, shared: Any, structs: int, size: int) -> dict[str, Any]:
    """One workload: milliseconds set-at-a-time, one at a time, and with nested loops over the shared factor's rows."""
    from bench.psoup.composite_tuples import Shared, probe_composite, probe_separately
    from millpond.answers.row_queries.pairing import Index

    random = np.random.default_rng([7, structs, size])
    b, c = random.integers(0, TOP, size), random.integers(0, TOP, size)
    # The tuple's value with each query's constant substituted; an inequality keeps about a quarter of the rows.
    values = constants(random, structs, TOP) if join == "=" else constants(random, structs, TOP) // 2
    index = Index.of(join, b)
    factor = Shared(Index.of(shared, c), shared, int(random.integers(0, TOP)) if shared == "=" else TOP // 8)
    composite, one = _least(lambda: probe_composite(values, join, index, factor))
    separate, other = _least(lambda: probe_separately(values, join, index, factor))
    nested, third = _least(lambda: _nested(values, join, b, c, shared, factor.constant))
    correct = np.array_equal(_ordered(*one), _ordered(*other)) and np.array_equal(_ordered(*one), _ordered(*third))
    return {
        "bench": BENCH,
        "case": f"{name}-{structs}",
        "correct": correct,
        "join_factor": join,
        "shared_factor": shared,
        "structs": structs,
        "stored_rows": size,
        "pairs": len(one[0]),
        "composite_ms": round(1000 * composite, 3),
        "separate_ms": round(1000 * separate, 3),
        "nested_loops_ms": round(1000 * nested, 3),
        "ratio_separate": ratio(separate, composite),
        "ratio_nested_loops": ratio(nested, composite),
        "structs_per_s": round(structs / composite),
    }


def _ordered(structs: Any, rows: Any) -> Any:
    return np.stack((structs, rows))[:, np.lexsort((rows, structs))]


def _nested(values: Any, join: str, b: Any, c: Any, shared: str, constant: float) -> tuple[Any, Any]:
    """The shared factor once by a scan, then each struct compared with each row left."""
    rows = np.flatnonzero(c == constant if shared == "=" else c < constant)
    left = b[rows]
    structs, found = [], []
    for number, value in enumerate(values.tolist()):
        hit = rows[left == value] if join == "=" else rows[left < value]
        structs.append(np.full(len(hit), number, np.int64))
        found.append(hit)
    return np.concatenate(structs), np.concatenate(found)


def _least(work: Any, seconds: float = 0.2) -> tuple[float, Any]:
    """Best processor time of a few turns, and what the work gave."""
    least, spent, given = float("inf"), 0.0, None
    while spent < seconds:
        begin = time.process_time()
        given = work()
        took = max(time.process_time() - begin, 1e-9)
        least, spent = min(least, took), spent + took
    return least, given
