"""Filters of one conjunction as a plan, its Profiler and its Re-optimiser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from millpond.adapt.a_greedy import AGreedy
from millpond.adapt.budget import Account
from millpond.adapt.independent import Independent
from millpond.adapt.local_swaps import LocalSwaps
from millpond.adapt.observations import Observation, OperatorStatistics
from millpond.adapt.orderer import Orderer, OrderSettings
from millpond.adapt.plan_log import LogEntry, PlanLog
from millpond.adapt.profile import UNKNOWN, Bits, Profile, Times
from millpond.adapt.sweep import Sweep

WAYS: dict[str, type[Orderer]] = {
    "a_greedy": AGreedy,
    "sweep": Sweep,
    "independent": Independent,
    "local_swaps": LocalSwaps,
}

#: The ways by which a task may leave an order; the others know too little of a row within one epoch.
LOCAL = ("a_greedy", "independent")

#: 'auto' takes Sweep where A-Greedy would have to ask much: many filters, or some that cost very much more.
MANY, SKEW = 8, 20.0

#: Rows that a filter was seen with before its time is believed: with fewer the clock sees the call and not the filter.
SEEN = 256

#: Seconds that fewer rows took, so that what was seen is the filter all the same: a stream may bring few rows an epoch.
LONG = 0.02

#: Epochs whose times count, and after which a filter is measured that no rows come to: else one that was thought dear
#: by mistake would stay at the end, where no rows come.
RECENT, STALE = 5, 8

#: Epochs between lines of the log while the plan stays.
EVERY = 16

#: Epochs without a change of the plan after which profiling goes on at half its rate, and how often it is halved.
CALM, HALVES = 24, 2

#: Selectivities of the plan in use that move so far say that conditions have changed, if chance does not move them so
#: far: their difference has to be that many times its standard deviation.
MOVED, SIGMAS = 0.1, 4.0

#: Profile tuples that are worth an epoch's asking, of those that the window holds: one in so many. Twice as many are
#: wanted at once when conditions have moved, and with as many of the new conditions those of the old are forgotten.
PORTION = 10

#: Profile tuples with which a task may leave an order, and that it may make on credit when it sees conditions move.
FEW = 100

#: Of what was seen of profiling, what an epoch later still counts in `share` and `rate`: about the last fifty epochs.
FADES = 0.98

#: How much `alpha` takes of itself for each time that a plan came back.
DAMPING = 0.9


@dataclass(frozen=True)
class FilterPlan:
    """How the tasks of an epoch evaluate the filters of a conjunction, and what they profile.

    order: the filter at each position. probability: share of the dropped rows that are profiled. ask: for a row that
    the filter at a position dropped, the filters that it is asked besides. measure: filters whose time is not known, or
    from long ago.
    most: profile tuples that count; a task need not report more. way, alpha, times (seconds a row, by filter): by what
    a task may leave the order within the epoch (`local_order`); without times it keeps it.
    expects: (rows out, rows in) by filter as they were seen in this order, nothing where they were not. credit: profile
    tuples that a task may make at once when it sees others; 0: none. new: the order rests on nothing yet.
    """

    order: tuple[int, ...]
    probability: float = 0.0
    ask: tuple[tuple[int, ...], ...] = ()
    measure: tuple[int, ...] = ()
    most: int = 1000
    way: str = ""
    alpha: float = 1.0
    times: tuple[float, ...] = ()
    expects: tuple[tuple[int, ...], ...] = ()
    credit: int = 0
    new: bool = False


@dataclass(frozen=True)
class FilterOptions:
    """What a query says about the order of its filters. way: 'a_greedy', …, 'auto', 'off'; None: the way's default.

    budget: share of the time of filters that profiling may take.
    """

    way: str = "a_greedy"
    probability: float | None = None
    window: int | None = None
    alpha: float | None = None
    budget: float = 0.05

    def settings(self, way: str) -> OrderSettings:
        """The parameters of a way (Babu 2005, table 4.1), where the query does not say others."""
        usual = WAYS[way].defaults()
        return OrderSettings(
            usual.probability if self.probability is None else self.probability,
            usual.window if self.window is None else self.window,
            usual.alpha if self.alpha is None else self.alpha,
        )


class FilterProfiler:
    """Puts together what tasks report of a conjunction (`engine.screening.Screen.report`)."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def observation(self, epoch: int, clock: int, reports: Sequence[dict[str, Any]]) -> Observation:
        """See `interfaces.Profiler`."""
        n = len(self.names)
        totals = np.zeros((4, n))
        for report in reports:
            totals += np.array([report["rows"], report["passed"], report["seconds"], report["timed"]], np.float64)
        measured = np.sum([r["measured"] for r in reports], axis=0) if reports else np.zeros(n)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where((totals[3] >= SEEN) | (measured >= LONG), measured / totals[3], np.nan)
        bits = [bits_of(r["profile"], n) for r in reports]
        operators = tuple(
            OperatorStatistics(name, int(totals[0, i]), int(totals[1, i]), float(totals[2, i]))
            for i, name in enumerate(self.names)
        )
        profile = Profile(np.concatenate([np.empty((0, n), np.int8), *bits]), times)
        overhead = float(sum(r["overhead"] for r in reports))
        taken, kept = sum(r["taken"] for r in reports), sum(r["kept"] for r in reports)
        turned, moved = any(r["turned"] for r in reports), any(r.get("moved") for r in reports)
        seconds = float(totals[2].sum())
        return Observation(epoch, clock, operators, seconds, overhead, profile, taken, kept, turned, moved)


def bits_of(text: str, filters: int) -> Bits:
    """Profile tuples from what a task reports of them: '0', '1' or '?' for each filter, one tuple behind the other.

    >>> bits_of("01?110", 3).tolist()
    [[0, 1, -1], [1, 1, 0]]
    """
    return bits_in(np.frombuffer(text.encode(), np.uint8).reshape(-1, filters))


def bits_in(codes: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> Bits:
    """Profile tuples from the codes of '0', '1' and '?'."""
    bits: Bits = (codes == ord("1")).view(np.int8)
    bits[codes == ord("?")] = UNKNOWN
    return bits


class FilterReoptimiser:
    """Keeps the order of the filters of one conjunction.

    Arguments:
        subject: whose plan it is, for the log. count: filters. costs: microseconds that their owners say they take;
        None: not said. order: to begin with, such as what was in use before a restart; None: cheap ones first.
        log: what is known of the time before.
    """

    def __init__(
        self,
        subject: str,
        count: int,
        options: FilterOptions | None = None,
        costs: Sequence[float | None] = (),
        order: Sequence[int] | None = None,
        log: Sequence[LogEntry] = (),
    ) -> None:
        self.subject, self.count, self.options = subject, count, options or FilterOptions()
        told = [c for c in costs if c is not None]
        usual = float(np.median(told)) if told else 1.0
        assumed = np.array([usual if c is None else c for c in costs or [None] * count]) * 1e-6
        begin = tuple(int(i) for i in np.argsort(assumed, kind="stable")) if order is None else tuple(order)
        self.way = _auto(count, assumed) if self.options.way == "auto" else self.options.way
        self.orderer: Orderer | None = None
        if self.way != "off" and count > 1:
            self.orderer = WAYS[self.way](begin, self.options.settings(self.way), assumed)
        self._order = begin
        self.log = PlanLog(log)
        self.account = Account(self.options.budget)
        self.invocations = 0
        self._age = np.full(count, STALE)
        self._calm = self._since = self._rows = 0
        # Of the last epochs: seconds of filters and of profiling, rows that were dropped and that were profiled.
        self._lately = np.zeros(4)
        self._dropped = 0
        # Profile tuples: that `rate` has a claim to, that are lacking since conditions moved, and that came since.
        self._claim = 0.0
        self._lacking = 2 * self.portion
        self._fresh: int | None = None
        self._anchor: dict[str, tuple[int, int]] = {}
        self._begun = False
        self._recent: list[Times] = []
        self._times = np.full(count, np.nan)

    @property
    def order(self) -> tuple[int, ...]:
        """The filter at each position."""
        return self._order if self.orderer is None else self.orderer.order

    @property
    def portion(self) -> int:
        """Profile tuples that an epoch is made to ask for at least, if it asks at all."""
        return 0 if self.orderer is None else max(1, self.orderer.settings.window // PORTION)

    @property
    def share(self) -> float:
        """Share of the time of filters that profiling took lately."""
        whole = self._lately[0] + self._lately[1]
        return float(self._lately[1] / whole) if whole > 0 else 0.0

    @property
    def profiled(self) -> float:
        """Share of the dropped rows that were profiled lately."""
        return float(self._lately[3] / self._lately[2]) if self._lately[2] > 0 else 0.0

    @property
    def rate(self) -> float:
        """Share of the dropped rows that are to be profiled in the long run, as far as the budget allows."""
        if self.orderer is None:
            return 0.0
        return float(self.orderer.settings.probability / 2 ** min(HALVES, self._calm // CALM))

    @property
    def plan(self) -> FilterPlan:
        """See `interfaces.Reoptimiser`."""
        if self.orderer is None:
            return FilterPlan(self._order)
        probability = self._probability()
        stale = np.flatnonzero(self._age >= STALE) if probability else ()
        local = self.way in LOCAL
        return FilterPlan(
            self.order,
            probability,
            tuple(self.orderer.wanted(position) for position in range(self.count)),
            tuple(int(i) for i in stale),
            self.orderer.settings.window,
            self.way,
            self.orderer.settings.alpha,
            tuple(self.orderer.times.tolist()) if local else (),
            tuple(self._anchor.get(f"pass {i + 1}", ()) for i in range(self.count)) if local else (),
            max(FEW, self.portion) if local and self.rate and self.account.lends else 0,
            local and not self._begun,
        )

    def _probability(self) -> float:
        """Share of the dropped rows that the next epoch profiles: a portion, or nothing.

        What the rate of a small epoch comes to is saved until it is a portion. After a change of conditions a portion
        comes at once and on credit.
        """
        rate, often = self.rate, self._dropped
        if not rate:
            return 0.0
        usual = max(self.portion, rate * often)
        if self._lacking and self.account.lends:
            tuples = max(float(self._lacking), rate * often)
        elif min(self._claim, usual) >= self.portion and self.account.saves:
            tuples = min(self._claim, usual)
        else:
            return 0.0
        return min(1.0, tuples / often) if often else rate

    def observe(self, observation: Observation) -> LogEntry | None:
        """See `interfaces.Reoptimiser`."""
        profile, orderer = observation.profile, self.orderer
        if orderer is None or profile is None or not observation.rows:
            return None
        self._begun = True
        self._rows += observation.rows
        self._since += 1
        if profile.times is not None:
            self._age = np.where(np.isnan(profile.times), self._age + 1, 0)
        profile = Profile(profile.bits, self._usual(profile.times))
        self._spend(observation, len(profile.bits))
        # Filters that stood at several places within the epoch have no selectivity there.
        before, turned = orderer.order, observation.turned
        statistics = {} if turned else statistics_of(observation, before)
        moved = not turned and self._moved(observation)
        if observation.moved and turned:  # a task has seen it, and reports what it has profiled since
            moved, self._anchor, self._lacking = True, {}, max(0, 2 * self.portion - len(profile.bits))
        reason = ""
        known = self.log.recall(before, statistics) if moved and statistics else None
        if known is not None and known != before:
            self._take(known)
            reason = "conditions are known: the plan that followed them before"
        else:
            self._damp()
            self._refresh(moved, len(profile.bits))
            self.invocations += 1
            reorder = orderer.observe(profile)
            if reorder is not None:
                reason = f"{self.way}: position {reorder.position + 1} dropped too little"
        changed = self.order != before
        if changed:
            self._anchor = {}  # rows come to a filter that others let pass: its selectivity is another one now
        self._calm = 0 if changed or moved else self._calm + 1
        if not changed and self._since < EVERY and self.log.entries:
            return None
        return self._entry(observation, before, statistics, reason or "no filter promises more")

    def _usual(self, times: Times | None) -> Times | None:
        """The least that each filter took in the last epochs: what holds a machine up only adds to it."""
        if times is None:
            return None
        self._recent = [*self._recent, times][-RECENT:]
        recent = np.array(self._recent)
        known = ~np.isnan(recent)
        for i in np.flatnonzero(known.any(axis=0)):  # of others holds what was known before
            self._times[i] = recent[known[:, i], i].min()
        return self._times.copy()

    def _take(self, order: tuple[int, ...]) -> None:
        """Go over to an order; what is in the window was seen under other conditions."""
        orderer = self.orderer
        assert orderer is not None
        made = WAYS[self.way](order, orderer.settings, orderer.times)
        self.orderer, self._fresh = made, None

    def _refresh(self, moved: bool, came: int) -> None:
        """Forget what was profiled before conditions moved, as soon as a portion was profiled since."""
        assert self.orderer is not None
        if moved:
            self._fresh = 0
        if self._fresh is not None and self._fresh + came >= self.portion:
            self.orderer.forget(self._fresh)
            self._fresh = None
        elif self._fresh is not None:
            self._fresh += came

    def _spend(self, observation: Observation, came: int) -> None:
        """Book an epoch: what it took, and the profile tuples that it had a claim to and that came."""
        self._dropped = observation.dropped
        self.account.settle(observation.seconds, observation.overhead)
        now = [observation.seconds, observation.overhead, self._dropped, came]
        self._lately = FADES * self._lately + np.array(now, np.float64)
        rate = self.rate
        most = max(2.0 * self.portion, rate * self._dropped)
        self._claim = min(most, max(0.0, self._claim - came) + rate * self._dropped)
        self._lacking = max(0, self._lacking - came)

    def _moved(self, observation: Observation) -> bool:
        """Whether a statistic that has to do with the choice of a plan is not what it was when conditions last moved.

        Compared are the selectivities of filters where they stand in the order, which cost nothing to know.
        """
        seen = {f"pass {o.name}": (o.rows_out, o.rows_in) for o in observation.operators if o.rows_in}
        apart = {name: a / b for name, (a, b) in seen.items() if are_apart(self._anchor.get(name, (a, b)), (a, b))}
        moved = bool(apart) and bool(self.log.mattering(apart))
        if moved:
            self._lacking = 2 * self.portion
        self._anchor = seen if moved else seen | self._anchor
        return moved

    def _damp(self) -> None:
        """Ask for more before a plan changes that keeps coming back."""
        assert self.orderer is not None
        asked = self.options.settings(self.way).alpha
        swings = max(0, self.log.swings(self.order) - 2) if self._calm < CALM else 0
        alpha = asked * DAMPING ** min(swings, 4)
        if alpha != self.orderer.settings.alpha:
            self.orderer.settings = replace(self.orderer.settings, alpha=alpha)

    def _entry(
        self, observation: Observation, before: tuple[int, ...], statistics: dict[str, float], reason: str
    ) -> LogEntry:
        assert self.orderer is not None
        bits = self.orderer.window.bits
        patterns = Counter("".join("?" if b == UNKNOWN else str(int(b)) for b in line) for line in bits)
        entry = LogEntry(
            observation.clock, observation.epoch, self.subject, self.order, before, self._rows, statistics,
            tuple(float(t) * 1e6 for t in self.orderer.times), dict(patterns),
            observation.dropped / observation.rows if observation.rows else 1.0, reason,
        )  # fmt: skip
        self.log.add(entry)
        self._since = self._rows = 0
        return entry


def statistics_of(observation: Observation, order: Sequence[int]) -> dict[str, float]:
    """By filter its selectivity where it stands in an order; of filters that no row came to there is none."""
    found = {f"pass {observation.operators[i].name}": observation.operators[i].selectivity for i in order}
    return {name: round(value, 4) for name, value in found.items() if value is not None}


def are_apart(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two shares (of, out of) differ by more than `MOVED`, and by more than chance makes them.

    >>> are_apart((500, 1000), (610, 1000)), are_apart((5, 10), (7, 10)), are_apart((500, 1000), (590, 1000))
    (True, False, False)
    """
    difference = abs(one[0] / one[1] - other[0] / other[1])
    pooled = (one[0] + other[0]) / (one[1] + other[1])
    deviation = float(np.sqrt(pooled * (1 - pooled) * (1 / one[1] + 1 / other[1])))
    return difference > max(MOVED, SIGMAS * deviation)


def _auto(count: int, costs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """A-Greedy, unless asking all filters is too dear (Babu 2005, figures 4.15 to 4.18): then Sweep."""
    return "sweep" if count > MANY or costs.max() / costs.min() > SKEW else "a_greedy"
