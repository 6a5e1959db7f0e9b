"""Filter results as of Babu's generator (2005, 4.7), and what each way of keeping an order does with them, counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from millpond.adapt import (
    AGreedy,
    FilterOptions,
    FilterReoptimiser,
    Independent,
    LocalSwaps,
    Observation,
    OperatorStatistics,
    Orderer,
    OrderSettings,
    Profile,
    Sweep,
)
from millpond.adapt.greedy import expected_cost, greedy_order
from millpond.synopses.conjunctions import Conjunction
from millpond.types import Call, Expression

Drops = np.ndarray[tuple[int, int], np.dtype[np.bool_]]
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
WAYS: dict[str, type[Orderer]] = {
    "a_greedy": AGreedy, "sweep": Sweep, "independent": Independent, "local_swaps": LocalSwaps,
}  # fmt: skip

#: Tuples between two looks at the order, as an epoch of the engine.
BATCH = 1000


def conjunction(references: Iterable[str]) -> Conjunction:
    """Calls of functions with column v, with AND between them."""
    arguments = (Expression.column_of("v"),)
    calls = [Expression(f'{each}("v")', ("v",), (each,), (), Call(each, arguments)) for each in references]
    return Conjunction(None, tuple(calls))


def generate(rng: np.random.Generator, rows: int, selectivities: Sequence[float], gamma: int) -> Drops:
    """Which filter drops which tuple: groups of `gamma` filters agree on 80 % of the tuples, as far as that can be.

    A latent bit per group and tuple; each filter copies it with probability q, else draws its own
    (q^2 = (.8 - base) / (1 - base)). Selectivities are of groups.
    """
    n = len(selectivities)
    drops = np.empty((rows, n), np.bool_)
    for first in range(0, n, gamma):
        s = selectivities[first]
        base = s * s + (1 - s) * (1 - s)
        q = np.sqrt(max(0.0, (0.8 - base) / (1 - base)))
        latent = rng.random(rows) < s
        for i in range(first, min(n, first + gamma)):
            own = rng.random(rows) < selectivities[i]
            copies = rng.random(rows) < q if selectivities[i] == s else np.zeros(rows, np.bool_)
            drops[:, i] = ~np.where(copies, latent, own)
    return drops


def sampler(seed: int) -> np.random.Generator:
    """What draws the tuples to profile: other numbers than those that tuples are made of with the same seed."""
    return np.random.default_rng((seed, 1))


@dataclass
class Counted:
    """Work per tuple in units of the cheapest filter: of tuples, and of profiling. orders: after 2,000 tuples each."""

    tuples: float
    profiling: float
    order: tuple[int, ...]
    orders: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def total(self) -> float:
        """All work per tuple."""
        return self.tuples + self.profiling

    @property
    def share(self) -> float:
        """Of the work, what profiling takes."""
        return self.profiling / self.total


def run(
    parts: Iterable[Drops],
    costs: Floats,
    way: str | Sequence[int],
    p: float | None = None,
    seed: int = 0,
    start: Sequence[int] | None = None,
    settled: int = 0,
    even: bool = False,
) -> Counted:
    """Filter tuples, a batch after the other, under an order that is kept (or static, where `way` is an order).

    Arguments:
        settled: tuples at the beginning that do not count: the order is found in them.
        even: Independent profiles with p as well, not with half of the usual.
    """
    n, rng = len(costs), sampler(seed)
    orderer: Orderer | None = None
    order = tuple(range(n)) if start is None else tuple(start)
    probability = 0.0
    if isinstance(way, str):
        default = WAYS[way].defaults()
        probability = default.probability if p is None or (way == "independent" and not even) else p
        orderer = WAYS[way](order, OrderSettings(probability, default.window, default.alpha), costs)
    else:
        order = tuple(way)
    work = extra = 0.0
    seen = 0
    orders: list[tuple[int, ...]] = []
    for drops in (part[low : low + BATCH] for part in parts for low in range(0, len(part), BATCH)):
        order = order if orderer is None else orderer.order
        placed = drops[:, list(order)]
        any_drop = placed.any(axis=1)
        first = np.where(any_drop, placed.argmax(axis=1), n - 1)
        upto = np.cumsum(costs[list(order)])
        done, more = float(upto[first].sum()), 0.0
        if orderer is not None:
            chosen = np.flatnonzero(any_drop & (rng.random(len(drops)) < probability))
            bits = np.full((len(chosen), n), -1, np.int8)
            for position in range(n):
                mine = first[chosen] == position
                if not mine.any():
                    continue
                asked = list(orderer.wanted(position))
                known = [*order[: position + 1], *asked]
                bits[np.ix_(mine, known)] = drops[chosen[mine]][:, known]
                more += float(costs[asked].sum()) * int(mine.sum())
            orderer.observe(Profile(bits))
        seen += len(drops)
        if seen > settled:
            work, extra = work + done, extra + more
        if seen % 2000 == 0:
            orders.append(order)
    counted = max(1, seen - settled)
    return Counted(work / counted, extra / counted, order if orderer is None else orderer.order, orders)


def run_engine(parts: Iterable[Drops], costs: Floats, way: str, p: float, seed: int, start: Sequence[int]) -> Counted:
    """As `run`, by the engine's own Re-optimiser, which also sees what filters pass where they stand.

    Its budget is not what is looked at: only evaluations are counted.
    """
    n, rng = len(costs), sampler(seed)
    names = [str(i + 1) for i in range(n)]
    decider = FilterReoptimiser("bench", n, FilterOptions(way, p, budget=1.0), order=start)
    work = extra = 0.0
    seen, orders = 0, list[tuple[int, ...]]()
    for drops in (part[low : low + BATCH] for part in parts for low in range(0, len(part), BATCH)):
        plan = decider.plan
        order = list(plan.order)
        placed = drops[:, order]
        any_drop = placed.any(axis=1)
        first = np.where(any_drop, placed.argmax(axis=1), n - 1)
        done = float(np.cumsum(costs[order])[first].sum())
        chosen = np.flatnonzero(any_drop & (rng.random(len(drops)) < plan.probability))
        bits = np.full((len(chosen), n), -1, np.int8)
        for position in range(n):
            mine = first[chosen] == position
            known = [*order[: position + 1], *plan.ask[position]]
            bits[np.ix_(mine, known)] = drops[chosen[mine]][:, known]
            extra += float(costs[list(plan.ask[position])].sum()) * int(mine.sum())
        operators: list[OperatorStatistics] = [OperatorStatistics(name) for name in names]
        for position, number in enumerate(order):
            came, went = int((first >= position).sum()), int((any_drop & (first == position)).sum())
            operators[number] = OperatorStatistics(names[number], came, came - went)
        decider.observe(Observation(seen, 0, tuple(operators), done, 0.0, Profile(bits, costs)))
        seen, work = seen + len(drops), work + done
        if seen % 2000 == 0:
            orders.append(plan.order)
    return Counted(work / seen, extra / seen, decider.order, orders)


def optimal(drops: Drops, costs: Floats) -> tuple[int, ...]:
    """The best order for a sample: by trying all up to 7 filters, else the greedy one."""
    sample, n = drops[:20_000], len(costs)
    if n > 7:
        return greedy_order(sample, costs)
    return min(itertools.permutations(range(n)), key=lambda order: expected_cost(sample, costs, order))


def work(found: dict[str, Counted], *ways: str) -> dict[str, list[float]]:
    """[of tuples, of profiling] per tuple."""
    return {w: [round(found[w].tuples, 4), round(found[w].profiling, 4)] for w in ways}


def line(figure: str, seen: Any, **wanted: bool) -> dict[str, Any]:
    """What is printed of a figure."""
    return {"figure": figure, "seen": seen, "wanted": {k: bool(v) for k, v in wanted.items()},
            "correct": all(wanted.values())}  # fmt: skip
