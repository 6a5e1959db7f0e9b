"""The plan log: per subject, which plan was chosen under which statistics, and what that is good for.

Babu (2005), chapter 7, proposes it with four uses, all of them here: (1) known conditions get the plan that they had
before (`recall`); (2) statistics that never change the plan need no tracking (`important`); (3) what the best plan that
never changes would have cost (`best_static`), against which adapting has to pay; (4) a plan that swings is damped
(`swings`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from millpond.adapt.greedy import expected_cost, greedy_order

#: Filters up to which the best static order is found by trying all.
TRY_ALL = 6


@dataclass(frozen=True)
class LogEntry:
    """One line of the log.

    time, epoch: when (clock, microseconds), and after which epoch. subject: whose plan. plan: from the next epoch on:
    the filter at each position. under: the plan before it. rows: that were seen since the line before.
    statistics: by name, such as the selectivity of each filter where it stood. costs: microseconds per row of each
    filter. patterns: profile tuples of the window and how many there are of each ('101': filters 0 and 2 drop it).
    dropped: rows of all that some filter dropped, as a fraction. reason: in words.
    """

    time: int
    epoch: int
    subject: str
    plan: tuple[int, ...]
    under: tuple[int, ...]
    rows: int = 0
    statistics: dict[str, float] = field(default_factory=dict)
    costs: tuple[float, ...] = ()
    patterns: dict[str, int] = field(default_factory=dict)
    dropped: float = 1.0
    reason: str = ""

    @property
    def drops(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """The profile tuples as a table of rows and filters; filters that were not asked count as letting pass."""
        return np.repeat(self._different, list(self.patterns.values()), axis=0)

    @property
    def _different(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """The profile tuples that differ, each once."""
        lines = [[c == "1" for c in pattern] for pattern in self.patterns]
        return np.array(lines, np.bool_).reshape(len(lines), len(self.plan))

    def cost(self, order: Sequence[int]) -> float:
        """Microseconds that a row takes under an order, if the profile tuples are like the other dropped rows."""
        whole = sum(self.costs)
        return self.dropped * expected_cost(self.drops, np.array(self.costs), order) + (1 - self.dropped) * whole


def near(one: Mapping[str, float], other: Mapping[str, float], tolerance: float) -> bool:
    """Whether statistics agree: the same names, none further apart than `tolerance`.

    >>> near({"a": 0.5}, {"a": 0.56}, 0.1), near({"a": 0.5}, {"b": 0.5}, 0.1)
    (True, False)
    """
    return one.keys() == other.keys() and all(abs(value - other[name]) <= tolerance for name, value in one.items())


class PlanLog:
    """The last lines of one subject.

    Arguments:
        entries: that are known already, old ones first. most: lines that are remembered.
        tolerance: how far statistics may be apart to be the same conditions.
    """

    def __init__(self, entries: Sequence[LogEntry] = (), most: int = 256, tolerance: float = 0.1) -> None:
        self.most, self.tolerance = most, tolerance
        self.entries = list(entries)[-most:]

    def add(self, entry: LogEntry) -> None:
        """Append a line."""
        self.entries = [*self.entries, entry][-self.most :]

    def recall(self, under: Sequence[int], statistics: Mapping[str, float]) -> tuple[int, ...] | None:
        """The plan that followed last time when these statistics were seen under the plan in use; None: never seen."""
        for entry in reversed(self.entries):
            if entry.under == tuple(under) and near(entry.statistics, statistics, self.tolerance):
                return entry.plan
        return None

    def important(self) -> set[str]:
        """Statistics that have to do with the choice of a plan: those that differ between lines with different plans.

        One that takes the same values whatever plan was chosen says nothing; with fewer than two plans all are kept.
        """
        by_plan: dict[tuple[int, ...], list[LogEntry]] = {}
        for entry in self.entries:
            by_plan.setdefault(entry.plan, []).append(entry)
        names = {name for entry in self.entries for name in entry.statistics}
        if len(by_plan) < 2:
            return names
        found = set()
        for name in names:
            ranges = []
            for entries in by_plan.values():
                values = [e.statistics[name] for e in entries if name in e.statistics]
                if values:
                    ranges.append((min(values), max(values)))
            if any(low > other + self.tolerance for low, _ in ranges for _, other in ranges):
                found.add(name)
        return found

    def mattering(self, statistics: Mapping[str, float]) -> set[str]:
        """Of the statistics at hand those that may have to do with a choice: important ones, and what was never seen.

        A plan that stayed when a statistic took other values says nothing of values beyond them.
        """
        important = self.important()
        found = set()
        for name, value in statistics.items():
            seen = [e.statistics[name] for e in self.entries if name in e.statistics]
            known = bool(seen) and min(seen) - self.tolerance <= value <= max(seen) + self.tolerance
            if name in important or not known:
                found.add(name)
        return found

    def swings(self, plan: Sequence[int], last: int = 6) -> int:
        """How often the last changes of plan came back to `plan`."""
        changes = [e for e in self.entries if e.plan != e.under][-last:]
        return sum(e.plan == tuple(plan) for e in changes)

    def best_static(self) -> tuple[tuple[int, ...], float, float] | None:
        """The one order that would have been best for all lines, what it would have cost, and what the plans cost.

        Microseconds per row, each line by its rows; None without profile tuples.
        """
        lines = [e for e in self.entries if e.patterns and e.rows]
        if not lines:
            return None
        n = len(lines[-1].plan)
        if n <= TRY_ALL:
            orders = list(itertools.permutations(range(n)))
        else:
            pooled = np.concatenate([e.drops for e in lines])
            orders = list({greedy_order(pooled, np.array(lines[-1].costs)), *(e.plan for e in lines)})
        rows = sum(e.rows for e in lines)
        costs = _costs(lines, orders)
        best = int(np.argmin(costs))
        return orders[best], costs[best] / rows, sum(e.rows * e.cost(e.plan) for e in lines) / rows


def _costs(lines: Sequence[LogEntry], orders: Sequence[Sequence[int]]) -> list[float]:
    """Microseconds that the rows of all lines take under each order: the sums of `LogEntry.cost`.

    Orders are many, so the profile tuples of all lines are put together once, equal ones of a line as one.
    """
    drops = np.concatenate([e._different for e in lines])
    each = []
    for e in lines:
        counts = np.array(list(e.patterns.values()), np.float64)
        each.append(np.outer(e.rows * e.dropped * counts / counts.sum(), e.costs))
    weighed = np.concatenate(each)
    kept = sum(e.rows * (1 - e.dropped) * sum(e.costs) for e in lines)
    found = []
    for order in orders:
        alive, total = np.ones(len(drops), np.bool_), kept
        for f in order:
            total += float(weighed[alive, f].sum())
            alive &= ~drops[:, f]
        found.append(total)
    return found
