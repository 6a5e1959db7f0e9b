"""The pipelines of a join in an epoch: in the orders that the manifest says, and observed on the way.

The merge task of a shard executes the plans of `subjects.PipelineSubject` (the logical filters of an input, ordered by
A-Greedy; Babu 2005, 5.2) and reports what it saw as `screening.Screen` does of filters, so that the same Profiler and
Re-optimiser learn from it. Which changed rows are profiled is a function of their ids. Times are clock readings; what
is decided by them is in the next manifest.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from millpond.adapt.filter_plans import SEEN, FilterPlan
from millpond.catalog import Standing
from millpond.operators.filters.adaptive_filter import MEASURE
from millpond.operators.filters.profiled_sample import sampled
from millpond.operators.filters.subjects import PipelineSubject, pipelines_of
from millpond.relations.pipelines import Pipeline
from millpond.relations.spans import Ints
from millpond.support.stopwatch import Watch

#: Joined rows up to which the path to an input is followed for what is profiled.
MOST = 100_000


class JoinOrders:
    """Orders the pipelines of a query in one shard, and watches them.

    Arguments:
        plans: of the epoch's manifest.
    """

    def __init__(self, standing: Standing, plans: Mapping[str, FilterPlan]) -> None:
        self._seen: dict[int, Seen] = {}
        for subject in pipelines_of(standing):
            plan = plans.get(subject.name)
            # A plan for another join (it was made before a crash, say) is none.
            if plan is not None and len(plan.order) == len(subject.others):
                self._seen[subject.number] = Seen(subject, plan)

    def order(self, number: int) -> tuple[int, ...] | None:
        """The pipeline of an input; None: as the join graph has it."""
        seen = self._seen.get(number)
        return None if seen is None else seen.subject.pipeline(seen.plan.order)

    def piece(self, pipeline: Pipeline) -> Watched | None:
        """What watches some changed rows on their way."""
        seen = self._seen.get(pipeline.number)
        return None if seen is None else Watched(seen, pipeline)

    def report(self) -> dict[str, Any]:
        """What was observed, by subject."""
        return {seen.subject.name: seen.report() for seen in self._seen.values() if seen.rows.any()}


class Seen:
    """What was seen of one pipeline. Arrays are by logical filter: the n-th is about the n-th other FROM item."""

    def __init__(self, subject: PipelineSubject, plan: FilterPlan) -> None:
        self.subject, self.plan = subject, plan
        self.others = subject.others
        self.paths = subject.graph.paths(subject.number)
        count = len(self.others)
        self.rows, self.left, self.timed, self.measured_rows = (np.zeros(count, np.int64) for _ in range(4))
        self.seconds, self.measured, self.path_seconds = (np.zeros(count) for _ in range(3))
        self.profile = ""
        self.overhead = 0.0
        self.taken = self.kept = 0
        # Several pieces of an input's rows may be on their way at a time.
        self.lock = threading.RLock()

    def report(self) -> dict[str, Any]:
        """As of `screening.Screen.report`. The time of a logical filter is that of all joins on its path."""
        timed, measured = self.measured_rows.copy(), self.path_seconds.copy()
        for f, item in enumerate(self.others):
            on = [self.others.index(n) for n in self.paths[item]]
            if self.timed[on].all():
                timed[f] = self.timed[f]
                measured[f] = timed[f] * float((self.measured[on] / self.timed[on]).sum())
        return {
            "rows": self.rows.tolist(),
            "passed": self.left.tolist(),
            "seconds": self.seconds.tolist(),
            "timed": timed.tolist(),
            "measured": measured.tolist(),
            "profile": self.profile[-self.plan.most * len(self.others) :],
            "overhead": self.overhead,
            "taken": self.taken,
            "kept": self.kept,
            "turned": False,
        }


class Watched:
    """Some changed rows on their way through a pipeline."""

    def __init__(self, seen: Seen, pipeline: Pipeline) -> None:
        self.seen, self.pipeline = seen, pipeline
        self.asked: list[int] = []
        self.left = len(pipeline.rows)
        self.drops: list[tuple[int, Ints]] = []
        with seen.lock:
            seen.taken += self.left
            begun = Watch()
            self.places = self._sample()
            self._measure()
            seen.overhead += begun.lap()

    def clock(self) -> Watch:
        """A clock that begins now."""
        return Watch()

    def step(self, item: int, entered: int, left: Ints, seconds: float) -> None:
        """An input was asked: for how many of the changed rows, which are left (ascending), and how long it took."""
        seen, f = self.seen, self.seen.others.index(item)
        self.asked.append(item)
        self.left = len(left)
        with seen.lock:
            seen.rows[f] += entered
            seen.left[f] += len(left)
            seen.seconds[f] += seconds
            if entered >= SEEN:
                seen.timed[f] += entered
                seen.measured[f] += seconds
            if len(self.places):
                begun = Watch()
                at = np.searchsorted(left, self.places)
                there = at < len(left)
                there[there] = left[at[there]] == self.places[there]
                self.drops.append((item, self.places[~there]))
                self.places = self.places[there]
                seen.overhead += begun.lap()

    def end(self) -> None:
        """Make profile tuples of the rows that were dropped: what each logical filter says of them."""
        with self.seen.lock:
            self.seen.kept += self.left
            self._profile()

    def _profile(self) -> None:
        drops = [each for each in self.drops if len(each[1])]
        if not drops:
            return
        begun, seen, plan = Watch(), self.seen, self.seen.plan
        chosen = np.concatenate([places for _, places in drops])[-plan.most :]
        by = np.concatenate([np.full(len(places), item) for item, places in drops])[-plan.most :]
        order = np.argsort(chosen, kind="stable")
        chosen, by = chosen[order], by[order]
        lines = np.full((len(chosen), len(seen.others)), ord("?"), np.uint8)
        asks = np.zeros(lines.shape, np.bool_)
        for item, _ in drops:
            mine = by == item
            through = [f for f, other in enumerate(seen.others) if item in seen.paths[other]]
            known = [f for f, other in enumerate(seen.others) if other in self.asked[: self.asked.index(item)]]
            lines[np.ix_(mine, known)] = ord("0")
            lines[np.ix_(mine, through)] = ord("1")
            wanted = set(plan.ask[min(plan.order.index(f) for f in through)]) - {*through, *known}
            asks[np.ix_(mine, sorted(wanted))] = True
        joined: dict[int, tuple[Ints, dict[int, Ints]]] = {}
        for f, other in enumerate(seen.others):
            if asks[:, f].any() and (meets := self.pipeline.meets(other, chosen, joined, MOST)) is not None:
                lines[:, f] = np.where(asks[:, f], np.where(meets, ord("0"), ord("1")), lines[:, f])
        seen.profile += lines.tobytes().decode()
        seen.overhead += begun.lap()

    def _sample(self) -> Ints:
        """Places of the changed rows that are profiled if they are dropped."""
        plan, pipeline = self.seen.plan, self.pipeline
        if not plan.probability or not len(pipeline.rows):
            return np.empty(0, np.int64)
        row = int(pipeline.rows[0])
        for run in pipeline.inputs.sides[pipeline.number].runs:
            if row < len(run):
                return sampled(abs(int(run.ids[row])), len(pipeline.rows), plan.probability)
            row -= len(run)
        return np.empty(0, np.int64)

    def _measure(self) -> None:
        """Learn what logical filters take whose time is not known, each once in a task."""
        seen, count = self.seen, len(self.pipeline.rows)
        if count < SEEN:
            return
        chosen = np.arange(min(count, MEASURE))
        for f in seen.plan.measure:
            if seen.measured_rows[f] or self.pipeline.order[0] == seen.others[f]:
                continue  # of the first there will be times anyway
            begun = Watch()
            if self.pipeline.meets(seen.others[f], chosen, {}, MOST) is not None:
                seen.measured_rows[f] = len(chosen)
                seen.path_seconds[f] = begun.lap()
