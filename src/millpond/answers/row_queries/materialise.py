"""How much of each selection is kept ready: a decider without effects (P11, P14).

Events go in, instructions come out; the same events give the same instructions. `keeping.py` carries them out. What is
decided costs or saves time, and never changes an answer.

- 'none': conditions are evaluated when the query is invoked, and nothing stays in memory.
- 'partial': which rows match is kept (row sets, aggregate trees, pairs); the window is applied when invoked.
- 'complete': the answer of the current window is made after every publish.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Form = Literal["none", "partial", "complete"]
Option = Literal["auto", "partial", "complete", "none"]


@dataclass(frozen=True)
class Limits:
    """What the decider goes by. Durations are seconds.

    memory: seconds after which an invocation counts half for the rate.
    enter, leave: invocations per publish from which a complete answer pays, and below which it no longer does.
    cheap: answers that take less are not worth keeping.
    large: share of the budget that one complete answer may take.
    cold: time without an invocation after which nothing stays in memory.
    dwell: time that a form lasts at least, unless memory is short.
    pressure: share of the budget from which memory is short.
    broad, narrow: share of rows that match from which, while memory is short, row sets are dropped, and below which
        they come back.
    """

    memory: float = 60.0
    enter: float = 1.5
    leave: float = 0.75
    cheap: float = 0.0005
    large: float = 1 / 16
    cold: float = 600.0
    dwell: float = 10.0
    pressure: float = 0.9
    broad: float = 0.5
    narrow: float = 0.3


@dataclass(frozen=True)
class Declared:
    """A query was registered, or its option altered."""

    query: int
    option: Option


@dataclass(frozen=True)
class Dropped:
    """A query is gone."""

    query: int


@dataclass(frozen=True)
class Invoked:
    """A query was answered.

    at: clock, seconds. option: None: as known. seconds: how long it took; None: a kept answer served.
    rows, nbytes: of the answer.
    current: whether it was the query's own window at NOW, which is all that a complete answer can serve.
    """

    query: int
    at: float
    option: Option | None
    seconds: float | None
    rows: int
    nbytes: int
    current: bool = True


@dataclass(frozen=True)
class EpochPublished:
    """An epoch is visible. rates: share of rows that match, of the queries about which it is known."""

    at: float
    epoch: int
    rates: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class MemoryRead:
    """Bytes that everything kept holds, and may hold."""

    at: float
    used: int
    budget: int


Event = Declared | Dropped | Invoked | EpochPublished | MemoryRead


@dataclass(frozen=True)
class Become:
    """A query's form changes; `reason` is for EXPLAIN."""

    query: int
    form: Form
    reason: str


@dataclass(frozen=True)
class Release:
    """Drop everything that is kept for a query."""

    query: int


@dataclass(frozen=True)
class MakeReady:
    """Make the current answers of these queries, most wanted first."""

    queries: tuple[int, ...]


Instruction = Become | Release | MakeReady


@dataclass
class Rate:
    """Events per second, older ones counting less: half after `memory` seconds."""

    memory: float
    value: float = 0.0
    at: float = 0.0

    def add(self, at: float) -> None:
        """One event."""
        self.value = self.now(at) + math.log(2) / self.memory
        self.at = max(self.at, at)

    def now(self, at: float) -> float:
        """The rate at an instant."""
        return self.value * math.pow(0.5, max(0.0, at - self.at) / self.memory)


@dataclass
class _Query:
    option: Option
    form: Form
    reason: str
    rate: Rate
    last: float = 0.0
    changed: float = -math.inf
    seconds: float | None = None
    nbytes: int = 0
    matches: float | None = None


class Decider:
    """Chooses the form of each query; holds state about queries that are invoked or declared 'complete' only.

    >>> decider = Decider()
    >>> decider.on(Invoked(7, 0.0, "auto", seconds=0.02, rows=10, nbytes=400))
    [Become(query=7, form='partial', reason='auto: invoked; which rows match is kept')]
    >>> decider.form(8, "auto")[0]
    'partial'
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._warm: OrderedDict[int, _Query] = OrderedDict()  # in the order of their last invocations
        self._cold: set[int] = set()
        self._complete: set[int] = set()
        self._epochs = Rate(self.limits.memory)
        self._used, self._budget = 0, 0

    def on(self, event: Event) -> list[Instruction]:
        """Take an event in. Returns what is to be done."""
        match event:
            case Declared():
                return self._declared(event)
            case Dropped():
                self._warm.pop(event.query, None)
                self._cold.discard(event.query)
                self._complete.discard(event.query)
                return [Release(event.query)]
            case Invoked():
                return self._invoked(event)
            case EpochPublished():
                return self._published(event)
            case MemoryRead():
                return self._memory(event)

    def form(self, query: int, option: Option) -> tuple[Form, str]:
        """A query's form now and why, for evaluating it and for EXPLAIN."""
        found = self._warm.get(query)
        if found is not None and (found.option == option or option == "auto"):
            return found.form, found.reason
        if option != "auto":
            return option, f"WITH (materialize = '{option}')"
        if query in self._cold:
            return "none", f"auto: not invoked for {self.limits.cold:g} s"
        return "partial", "auto: not invoked yet; new rows are matched as they come"

    @property
    def complete(self) -> frozenset[int]:
        """Queries whose answers are kept ready."""
        return frozenset(self._complete)

    def _declared(self, event: Declared) -> list[Instruction]:
        known = self._warm.pop(event.query, None)
        self._complete.discard(event.query)
        self._cold.discard(event.query)
        if event.option == "complete":
            self._warm[event.query] = self._new(event.option)
            self._complete.add(event.query)
            return [Become(event.query, "complete", self._warm[event.query].reason), MakeReady((event.query,))]
        return [Release(event.query)] if known is not None else []

    def _new(self, option: Option) -> _Query:
        form: Form = "partial" if option == "auto" else option
        reason = "auto: invoked; which rows match is kept" if option == "auto" else f"WITH (materialize = '{option}')"
        return _Query(option, form, reason, Rate(self.limits.memory))

    def _invoked(self, event: Invoked) -> list[Instruction]:
        made: list[Instruction] = []
        query = self._warm.get(event.query)
        if query is None or event.option not in (None, query.option):
            query = self._warm[event.query] = self._new(event.option or "auto")
            self._cold.discard(event.query)
            (self._complete.add if query.option == "complete" else self._complete.discard)(event.query)
            made.append(Become(event.query, query.form, query.reason))
        self._warm.move_to_end(event.query)
        query.last = event.at
        if event.current:
            query.rate.add(event.at)
            query.nbytes = event.nbytes
        if event.seconds is not None and event.current:
            query.seconds = event.seconds if query.seconds is None else 0.7 * query.seconds + 0.3 * event.seconds
        return made + self._reconsider(event.query, query, event.at)

    def _published(self, event: EpochPublished) -> list[Instruction]:
        self._epochs.add(event.at)
        made: list[Instruction] = []
        for number, share in event.rates.items():
            if number in self._warm:
                self._warm[number].matches = share
                made += self._reconsider(number, self._warm[number], event.at)
        for number in list(self._complete):
            made += self._reconsider(number, self._warm[number], event.at)
        made += self._cool(event.at, self.limits.cold)
        wanted = sorted(self._complete, key=lambda n: (-self._warm[n].rate.now(event.at), n))
        return [*made, MakeReady(tuple(wanted))] if wanted else made

    def _cool(self, at: float, after: float) -> list[Instruction]:
        """Let go of what was not invoked for so long."""
        made: list[Instruction] = []
        for number, query in list(self._warm.items()):
            if at - query.last < after:
                break  # all others were invoked later
            if query.option == "complete":
                continue  # it was asked for, and is bounded by the memory of answers
            del self._warm[number]
            self._complete.discard(number)
            if query.option == "auto":
                self._cold.add(number)
                made.append(Become(number, "none", f"auto: not invoked for {self.limits.cold:g} s"))
            made.append(Release(number))
        return made

    def _memory(self, event: MemoryRead) -> list[Instruction]:
        self._used, self._budget = event.used, event.budget
        if not self._short:
            return []
        made = self._cool(event.at, self.limits.cold / 10)
        for number in list(self._complete):
            made += self._reconsider(number, self._warm[number], event.at)
        return made

    @property
    def _short(self) -> bool:
        return self._budget > 0 and self._used > self.limits.pressure * self._budget

    def _reconsider(self, number: int, query: _Query, at: float) -> list[Instruction]:
        if query.option != "auto":
            return []
        form, reason = self._choice(query, at)
        if form == query.form or (at - query.changed < self.limits.dwell and not self._short):
            return []
        before, query.form, query.reason, query.changed = query.form, form, reason, at
        (self._complete.add if form == "complete" else self._complete.discard)(number)
        made: list[Instruction] = [Become(number, form, reason)]
        return [*made, Release(number)] if form == "none" and before != "none" else made

    def _choice(self, query: _Query, at: float) -> tuple[Form, str]:
        limits = self.limits
        share = query.matches
        broad = limits.narrow if query.form == "none" else limits.broad
        if share is not None and share >= broad and (self._short or query.form == "none"):
            return "none", f"auto: {share:.0%} of the rows match and memory is short, so row sets save little"
        invoked, epochs = query.rate.now(at), self._epochs.now(at)
        spent = 0.0 if query.seconds is None else query.seconds
        rates = f"invoked {invoked:.3g}/s against {epochs:.3g} epochs/s"
        if self._budget and query.nbytes > limits.large * self._budget:
            return "partial", f"auto: {rates}, but an answer takes {query.nbytes} bytes"
        if self._short and query.form != "complete":
            return "partial", f"auto: {rates}, but memory is short"
        factor = limits.leave if query.form == "complete" else limits.enter
        if invoked > factor * epochs and invoked * limits.memory > 2 and spent >= limits.cheap:
            return "complete", f"auto: {rates}, an answer takes {spent * 1e3:.3g} ms and {query.nbytes} bytes"
        return "partial", f"auto: {rates}, an answer takes {spent * 1e3:.3g} ms"
