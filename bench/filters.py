"""The order of expensive filters: the experiments of Babu's thesis (2005, section 4.7), and Spark with static orders.

    python -m bench.filters                  counted evaluations, overhead, Spark
    python -m bench.filters --only counted   what a machine's speed has no say in

Filter evaluations are counted first (per tuple, those for profiling included, weighted by the filter's cost), on a
generator after the thesis' (`generate`): groups of filters that agree on 80 % of the tuples. Time comes second: shares
of overhead of the engine's own code, and Millpond against native Structured Streaming (`bench.filters_spark`).
One JSON line for each figure, with what was seen, what is asked for, and `correct`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bench.common import names_of
from bench.filters_budget import measured
from bench.filters_flip import counted
from bench.filters_overhead import table_4_2
from bench.filters_runs import WAYS, Counted, Drops, Floats, generate, line, optimal, run, run_engine, work
from bench.filters_spark import SETTINGS, compare
from millpond.adapt.greedy import expected_cost, greedy_order


def stable(n: int, selectivity: float, gamma: int, costs: Floats | None = None, p: float = 0.01, **more: int) -> Any:
    """All ways over stable streams, after they have converged: the mean of several, from random orders.

    Independent sees only ties where selectivities are equal, so that its order is one of chance.
    """
    own = np.ones(n) if costs is None else costs
    rows, runs = more.get("rows", 100_000), more.get("runs", 8)
    found: dict[str, list[Counted]] = {way: [] for way in (*WAYS, "optimal")}
    for seed in range(runs):
        rng = np.random.default_rng(1000 * n + 100 * gamma + seed)
        drops = generate(rng, rows, [selectivity] * n, gamma)
        start, settled = rng.permutation(n).tolist(), rows // 2
        for way in WAYS:
            found[way].append(run([drops], own, way, p, seed, start, settled))
        found["optimal"].append(run([drops], own, optimal(drops, own), settled=settled))
    return {
        way: Counted(float(np.mean([e.tuples for e in each])), float(np.mean([e.profiling for e in each])),
                     each[-1].order)
        for way, each in found.items()
    }  # fmt: skip


def figure_4_11() -> dict[str, Any]:
    """More filters: A-Greedy beats Independent, more so with more of them, and is near the optimum."""
    found = {n: stable(n, 0.5, 2) for n in (3, 4, 6, 8, 10)}
    gaps = [f["independent"].total - f["a_greedy"].total for f in found.values()]
    near = found[3]["a_greedy"].total / found[3]["optimal"].total
    far = found[10]["a_greedy"].total / found[10]["optimal"].total
    return line(
        "4.11", {n: work(f, "a_greedy", "independent", "optimal") for n, f in found.items()},
        a_greedy_is_better=all(g > 0 for g in gaps), gap_widens=gaps[-1] > gaps[0], near_optimal=near < 1.03,
        falls_off_with_n=far > near,
    )  # fmt: skip


def figure_4_12() -> dict[str, Any]:
    """Selectivities: A-Greedy's advantage is largest in the middle."""
    found = {s: stable(8, s, 2) for s in (0.15, 0.3, 0.5, 0.7, 0.85)}
    ratio = {s: f["independent"].total / f["a_greedy"].total for s, f in found.items()}
    best = max(ratio, key=lambda s: ratio[s])
    return line(
        "4.12", {s: round(r, 3) for s, r in ratio.items()},
        best_in_the_middle=best in (0.3, 0.5, 0.7), small_at_the_ends=max(ratio[0.15], ratio[0.85]) < ratio[best],
    )  # fmt: skip


def figure_4_13(n: int, name: str) -> dict[str, Any]:
    """Correlation: the advantage grows with the correlation factor at first, and vanishes when all filters agree."""
    found = {g: stable(n, 0.5, g) for g in range(1, n + 1)}
    gain = {g: f["independent"].tuples / f["a_greedy"].tuples for g, f in found.items()}
    top = max(gain, key=lambda g: gain[g])
    return line(
        name, {g: round(v, 3) for g, v in gain.items()},
        grows_at_first=gain[top] > gain[1] + 0.01, shrinks_at_last=gain[n] < gain[top] - 0.01, top_inside=1 < top < n,
    )  # fmt: skip


def figure_4_15() -> dict[str, Any]:
    """p = .05: Sweep and LocalSwaps do less work than A-Greedy, by what profiling takes and by nothing else."""
    found = {n: stable(n, 0.5, 2, p=0.05) for n in (3, 4, 6, 8, 10)}
    gap = [f["a_greedy"].total - f["sweep"].total for f in found.values()]
    alike = [
        max(f[w].tuples for w in ("a_greedy", "sweep", "local_swaps", "optimal"))
        / min(f[w].tuples for w in ("a_greedy", "sweep", "local_swaps", "optimal"))
        for f in found.values()
    ]
    return line(
        "4.15-4.16", {n: work(f, *WAYS, "optimal") for n, f in found.items()},
        sweep_and_swaps_win=all(
            f[w].total < f["a_greedy"].total for n, f in found.items() for w in ("sweep", "local_swaps") if n >= 6
        ),
        gap_grows=gap[-1] > gap[0], same_orders=max(alike) < 1.06,
    )  # fmt: skip


def figure_4_17() -> dict[str, Any]:
    """Four filters of cost c among eight: A-Greedy's overhead grows with c; Sweep and LocalSwaps beat it."""
    found = {}
    for c in (1, 10, 50, 100):
        found[c] = stable(8, 0.5, 2, costs=np.array([1.0, c] * 4), p=0.05, rows=200_000)
    shares = {c: {w: round(f[w].share, 3) for w in WAYS} for c, f in found.items()}
    return line(
        "4.17-4.18", {"shares": shares, "work": {c: work(f, *WAYS, "optimal") for c, f in found.items()}},
        overhead_grows=shares[100]["a_greedy"] > 1.5 * shares[1]["a_greedy"],
        cheap_ways_win=all(
            found[c][w].total < found[c]["a_greedy"].total for c in (50, 100) for w in ("sweep", "local_swaps")
        ),
        flat_overhead=all(s["sweep"] < 0.5 * s["a_greedy"] for s in shares.values()),
    )  # fmt: skip


#: Selectivities of the eight filters of the experiments that change: of four groups of two.
UNEVEN = (0.2, 0.2, 0.4, 0.4, 0.6, 0.6, 0.8, 0.8)


def periods(rng: np.random.Generator, period: int, count: int, gamma: int = 2) -> Iterable[Drops]:
    """`count` periods with their selectivities permuted, each as it is needed."""
    for _ in range(count):
        drawn = rng.permutation(len(UNEVEN))
        left = period
        while left:
            rows = min(left, 100_000)
            left -= rows
            yield generate(rng, rows, UNEVEN, gamma)[:, drawn]


def figure_4_19(permutations: int = 6, tuples: int = 600_000) -> dict[str, Any]:
    """A permutation of selectivities in the middle: how long each way takes to the new greedy order.

    Several permutations are drawn. What counts is what the order in use costs, over a sample of the tuples, compared
    with the greedy one: a way has arrived when that is within 3 % and stays so for 50,000 tuples. Independent, whose
    orders are others, has when it is within 3 % of where it ends; it is as quick as A-Greedy where both profile as
    much, and does with half of that by itself.
    """
    costs, held = np.ones(8), 25
    settle: dict[str, list[int]] = {}
    steps: dict[str, list[float]] = {}
    sides: dict[str, list[tuple[float, float]]] = {}
    timeline: dict[str, list[list[float]]] = {}
    for seed in range(permutations):
        drawn = np.random.default_rng(seed)
        parts = [generate(drawn, tuples, UNEVEN, 2), generate(drawn, tuples, UNEVEN, 2)[:, drawn.permutation(8)]]
        samples = [part[:50_000] for part in parts]
        best = [expected_cost(each, costs, greedy_order(each, costs)) for each in samples]
        runs = {way: run(parts, costs, way, 0.01, seed, range(8)) for way in WAYS}
        runs["independent, p = .01"] = run(parts, costs, "independent", 0.01, seed, range(8), even=True)
        runs["engine"] = run_engine(parts, costs, "a_greedy", 0.01, seed, range(8))
        for way, each in runs.items():
            half = len(each.orders) // 2
            over: list[Floats] = []
            for side, orders in enumerate((each.orders[:half], each.orders[half:])):
                known = {o: expected_cost(samples[side], costs, o) / best[side] for o in dict.fromkeys(orders)}
                over.append(np.array([known[o] for o in orders]))
            end = float(np.mean(over[1][len(over[1]) // 2 :]))
            near = over[1] <= 1.03 * (end if way.startswith("independent") else 1)
            whole = np.convolve(near, np.ones(held), "valid") == held
            settle.setdefault(way, []).append(2000 * int(np.argmax(whole)) if whole.any() else tuples)
            steps.setdefault(way, []).append(float(-np.diff(over[1]).min()))
            sides.setdefault(way, []).append((float(np.mean(over[0][len(over[0]) // 3 :])), end))
            timeline.setdefault(way, []).append([float(np.mean(over[1][i : i + 5])) for i in range(0, 100, 5)])
    after = {way: int(np.mean(each)) for way, each in settle.items()}
    step = {way: float(np.mean(each)) for way, each in steps.items()}
    ends = {way: np.mean(each, axis=0) for way, each in sides.items()}
    quick = after["independent, p = .01"] < 1.3 * after["a_greedy"] and after["independent"] < after["sweep"]
    return line(
        "4.19-4.21",
        {"tuples_until_settled": after, "largest_step": {w: round(x, 3) for w, x in step.items()},
         "over_greedy_before_and_after": {w: [round(float(x), 3) for x in each] for w, each in ends.items()},
         "over_greedy_each_10000": {w: [round(float(x), 2) for x in np.mean(e, axis=0)] for w, e in timeline.items()}},
        a_greedy_before_sweep=after["a_greedy"] < 0.6 * after["sweep"],
        a_greedy_before_swaps=after["a_greedy"] < 0.6 * after["local_swaps"],
        engine_is_first=after["engine"] < min(after[way] for way in WAYS),
        swaps_are_smoother=step["local_swaps"] <= step["sweep"],
        independent_is_quick=quick,
        independent_is_worse=bool((ends["independent"] > ends["a_greedy"]).all()),
        a_greedy_is_near_greedy=bool((ends["a_greedy"] < 1.05).all()),
    )  # fmt: skip


def changing(period: int, costs: Floats, total: int, ways: Iterable[str] = WAYS, seed: int = 0) -> dict[str, Counted]:
    """Ways over selectivities that are permuted every `period` tuples."""
    count = max(2, total // period)
    return {way: run(periods(np.random.default_rng((period, seed)), period, count), costs, way, 0.01) for way in ways}


def figure_4_22(total: int) -> dict[str, Any]:
    """Short periods are A-Greedy's, long ones Sweep's."""
    costs = np.array([1.0, 10.0] * 4)
    found = {period: changing(period, costs, total) for period in (20_000, 100_000, 1_000_000)}
    short, long = found[20_000], found[1_000_000]
    return line(
        "4.22", {p: work(f, *WAYS) for p, f in found.items()},
        short_is_a_greedy_s=short["a_greedy"].total < short["sweep"].total,
        hundred_thousand_is_a_greedy_s=found[100_000]["a_greedy"].total < found[100_000]["sweep"].total,
        long_is_sweep_s=long["sweep"].total < long["a_greedy"].total,
    )  # fmt: skip


def figure_4_23(period: int, name: str, total: int, streams: int = 8) -> dict[str, Any]:
    """The cost of the expensive filters, under periods of one length: as in 4.17, from that of the others on.

    Which permutations come decides much (of one stream of 20 periods the ratio is .05 to .08 off), so that it is the
    mean of several streams, each with all costs. `error` is its standard error, of `change` that of what changes from
    the least cost to the greatest within a stream.
    """
    found = {
        c: [changing(period, np.array([1.0, c] * 4), total, ("a_greedy", "sweep"), seed) for seed in range(streams)]
        for c in (1, 10, 50, 100)
    }
    ratios = {c: np.array([f["sweep"].total / f["a_greedy"].total for f in each]) for c, each in found.items()}
    orders = {c: np.mean([f["sweep"].tuples / f["a_greedy"].tuples for f in each]) for c, each in found.items()}
    mean, error = {c: float(r.mean()) for c, r in ratios.items()}, np.sqrt(streams)
    change = ratios[100] - ratios[1]
    seen = {
        "sweep_to_a_greedy": {c: round(r, 3) for c, r in mean.items()},
        "without_profiling": {c: round(float(r), 3) for c, r in orders.items()},
        "error": {c: round(float(r.std(ddof=1)) / error, 3) for c, r in ratios.items()},
        "change": [round(float(change.mean()), 3), round(float(change.std(ddof=1)) / error, 3)],
    }
    clear = abs(change.mean()) > change.std(ddof=1) / error
    if period <= 100_000:
        better = all(r > 1 for r in mean.values())
        gaps_grow = bool(orders[100] > orders[1])
        improves = clear and change.mean() > 0
        return line(name, seen, a_greedy_stays_better=better, gaps_grow=gaps_grow, improves=improves)
    falling = list(mean.values()) == sorted(mean.values(), reverse=True)
    return line(name, seen, sweep_gains=clear and change.mean() < 0 and falling)


def figures_of(total: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is counted, by name; `total`: tuples of the experiments that change."""
    return {
        "4.11": figure_4_11,
        "4.12": figure_4_12,
        "4.13": lambda: figure_4_13(3, "4.13"),
        "4.14": lambda: figure_4_13(8, "4.14"),
        "4.15": figure_4_15,
        "4.17": figure_4_17,
        "4.19": figure_4_19,
        "4.22": lambda: figure_4_22(total),
        "4.23": lambda: figure_4_23(100_000, "4.23", total),
        "4.24": lambda: figure_4_23(1_000_000, "4.24", total),
        "flip": counted,
        "small": lambda: counted(160_000, 12),
    }


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; `figures` becomes a list."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.filters", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("counted", "time", "spark"))
    figures = [*figures_of(0)]
    parser.add_argument("--figures", type=names_of(figures), help=f"of those that are counted: {', '.join(figures)}")
    parser.add_argument("--total", type=int, default=2_000_000, help="tuples of the experiments that change")
    parser.add_argument(
        "--settings", type=names_of(SETTINGS), default=list(SETTINGS), help="of the comparison with Spark"
    )
    options = parser.parse_args(arguments)
    if options.figures is None:
        options.figures = figures
    elif options.only not in (None, "counted"):
        parser.error(f"--figures says which are counted, and --only {options.only} counts none")
    else:
        options.only = "counted"
    return options


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status."""
    options = parse(arguments)
    good = True

    def show(each: dict[str, Any]) -> None:
        nonlocal good
        good = good and each["correct"]
        print(json.dumps(each), flush=True)

    if options.only in (None, "counted"):
        figures = figures_of(options.total)
        for name in options.figures:
            show(figures[name]())
    if options.only in (None, "time"):
        for each in itertools.chain(table_4_2(), measured()):
            show(each)
    if options.only in (None, "spark"):
        for name in options.settings:
            seen, wanted = compare(SETTINGS[name])
            show(line(f"against Spark, {name} filters", seen, **wanted))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
