"""Table 4.2 of Babu's thesis (2005): shares of the time of filters, in the engine's own code.

python -m bench.filters_overhead             the case that has an aim: three filters, p = .01
python -m bench.filters_overhead --all
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bench.filters_runs import conjunction, generate, line
from millpond.adapt import AGreedy, FilterPlan, MatrixView, OrderSettings, Profile, ProfileWindow
from millpond.adapt.filter_plans import bits_of
from millpond.functions import Function, put
from millpond.operators.filters.adaptive_filter import Screen
from millpond.types import FunctionDefinition

#: (filters, p) of the table.
CASES = ((3, 0.01), (3, 0.05), (8, 0.01), (8, 0.05))


def table_4_2(
    cases: Sequence[tuple[int, float]] = CASES, rows: int = 262_144, rounds: int = 12
) -> Iterable[dict[str, Any]]:
    """Shares of the time of the engine's own filters: tuples, profile tuples, window, view, violations.

    A filter looks an address up in a set of 10,000, called row by row. Of each part the least of some pieces counts:
    what else runs on a machine only adds, and to the short parts most, which find their caches emptied.
    """
    domain = 20_000
    names = [f"10.{i >> 8}.{i & 255}.1" for i in range(domain)]
    rng = np.random.default_rng(3)
    for n, p in cases:
        holds = ~generate(rng, domain, [0.5] * n, 2)
        for i in range(n):
            members = frozenset(names[v] for v in np.flatnonzero(holds[:, i]))
            reference = f"udf__in{i}__{n:04d}{int(p * 1000):04d}_{i}"
            definition = FunctionDefinition(f"in{i}", reference, ("VARCHAR",), "BOOLEAN")
            put(Function(definition, members.__contains__))
        where = conjunction(f"udf__in{i}__{n:04d}{int(p * 1000):04d}_{i}" for i in range(n))
        orderer = AGreedy(range(n), OrderSettings(p))
        took: dict[str, list[float]] = {k: [] for k in ("tuples", "creation", "window", "view", "violations")}
        window, view = ProfileWindow(n, 1000), MatrixView(range(n))
        expects: tuple[tuple[int, int], ...] = ()
        for round_ in range(rounds + 1):
            values = np.random.default_rng(round_).integers(0, domain, rows)
            table = pa.table({"_id": np.arange(rows) + round_ * rows, "v": pa.array(names).take(pa.array(values))})
            plan = FilterPlan(orderer.order, p, tuple(orderer.wanted(i) for i in range(n)), expects=expects)
            screen = Screen(where, plan)
            screen.screen(table)
            report = screen.report()
            bits = bits_of(report["profile"], n)
            expects = tuple(zip(report["passed"], report["rows"], strict=True))
            if round_ == 0:
                continue  # the first finds caches cold
            took["tuples"].append(sum(report["seconds"]))
            took["creation"].append(report["overhead"])
            begun = time.perf_counter()
            gone = window.push(Profile(bits))
            pushed = time.perf_counter()
            view.insert(bits)
            view.delete(gone)
            viewed = time.perf_counter()
            at = view.violation(np.ones(n), 0.9)
            if at is not None:
                view.correct(at, window.bits, np.ones(n))
            took["window"].append(pushed - begun)
            took["view"].append(viewed - pushed)
            took["violations"].append(time.perf_counter() - viewed)
            orderer.observe(Profile(bits))
        shares = {k: min(each) for k, each in took.items()}
        whole = sum(shares.values())
        seen = {k: round(100 * v / whole, 2) for k, v in shares.items()}
        small = {(3, 0.01): 1.5}.get((n, p), 100.0)
        rest = seen["window"] + seen["view"]
        yield line(f"table 4.2, n={n}, p={p}", seen, creation=seen["creation"] < small, rest=rest <= 2)


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.filters_overhead", description=__doc__)
    parser.add_argument("--all", action="store_true", help="all cases of the table")
    options = parser.parse_args(arguments)
    good = True
    for each in table_4_2(CASES if options.all else CASES[:1]):
        print(json.dumps(each), flush=True)
        good = good and each["correct"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
