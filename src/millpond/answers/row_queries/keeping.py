"""Carries out what `materialise` decides: keeps complete answers, tells which form a query has, lets cold ones go."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from millpond.answers.row_queries.materialise import (
    Become,
    Decider,
    Declared,
    Dropped,
    EpochPublished,
    Event,
    Form,
    Instruction,
    Invoked,
    Limits,
    MakeReady,
    MemoryRead,
    Option,
    Release,
)

#: Share of the time between publishes that making answers ready may take.
SHARE = 0.25

#: Seconds that making answers ready may take after a publish, at most and at least.
LONGEST, SHORTEST = 1.0, 0.02


@dataclass(frozen=True)
class _Kept:
    at: Hashable
    table: pa.Table
    nbytes: int


class Keeper:
    """What is materialised of a pond's selections. Thread-safe.

    An answer is a function of the rows published up to an epoch and of the window, so it is kept under both (`at`) and
    serves exactly those who ask for the same.

    Arguments:
        budget: bytes of complete answers.
        release: drops what else is kept for queries (row sets, trees, pairs).
        clock: seconds.
    """

    def __init__(
        self,
        budget: int,
        release: Callable[[Iterable[int]], None] = lambda queries: None,
        clock: Callable[[], float] = time.monotonic,
        limits: Limits | None = None,
    ) -> None:
        self.budget = budget
        self._release, self._clock = release, clock
        self._decider = Decider(limits)
        self._answers: OrderedDict[int, _Kept] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._published_at: float | None = None
        self._making = threading.local()  # .query: the one whose answer this thread makes ready
        self.served = self.made = 0

    def declare(self, query: int, option: Option) -> None:
        """A query was registered or altered. Only 'complete' has to be told; others are met when invoked."""
        self._do(Declared(query, option))

    def drop(self, query: int) -> None:
        """A query was dropped."""
        self._do(Dropped(query))

    def outdated(self, queries: Iterable[int]) -> None:
        """Let go of the kept answers of queries; what form they have stays decided."""
        with self._lock:
            for query in queries:
                self._remove(query)

    def form(self, query: int, option: Option) -> tuple[Form, str]:
        """The form of a query and the reason for it."""
        with self._lock:
            return self._decider.form(query, option)

    def answer(
        self, query: int, option: Option, at: Hashable, make: Callable[[], pa.Table], current: bool = True
    ) -> pa.Table:
        """The kept answer, or else the one that `make` gives, which is kept when the query's form is complete.

        Arguments:
            at: what the answer is a function of beside the query, e.g. (epoch, stretches).
            current: whether it is the query's own window at NOW.
        """
        table = self.fresh(query, at) if current else None
        if table is None:
            start = time.perf_counter()
            table = make()
            self.invoked(query, option, time.perf_counter() - start, at, table, current)
        return table

    def fresh(self, query: int, at: Hashable) -> pa.Table | None:
        """The kept answer at exactly this moment and window; None: it has to be made."""
        with self._lock:
            kept = self._answers.get(query)
            if kept is None or kept.at != at:
                return None
            self._answers.move_to_end(query)
            if self._made_ready(query):
                return kept.table
            self.served += 1
        self._do(Invoked(query, self._clock(), None, None, kept.table.num_rows, kept.nbytes))
        return kept.table

    def invoked(
        self, query: int, option: Option, seconds: float, at: Hashable, table: pa.Table, current: bool = True
    ) -> None:
        """A query was answered by evaluating it; its answer is kept when its form is complete.

        Arguments:
            current: whether it was the query's own window at NOW.
        """
        nbytes = _size(table)
        if self._made_ready(query):  # nobody asked for it: counted, it would keep itself wanted
            self._keep(query, at, table, nbytes)
            return
        self._do(Invoked(query, self._clock(), option, seconds, table.num_rows, nbytes, current))
        if current:
            self._keep(query, at, table, nbytes)

    def keep(self, query: int, at: Hashable, table: pa.Table) -> None:
        """Keep an answer that was made ready, if its query is complete still."""
        self._keep(query, at, table, _size(table))

    def published(
        self,
        epoch: int,
        evaluate: Callable[[int], tuple[Hashable, pa.Table] | None],
        rates: Mapping[int, float] | None = None,
    ) -> int:
        """After a publish: make the answers of complete queries ready, as many as the time allows.

        Arguments:
            evaluate: makes a query's current answer and says what it is a function of; None: it is gone, or was kept by
                way of `answer`. An exception leaves the query to whoever invokes it next.
            rates: share of rows that match, where known.

        Returns:
            How many answers are ready.
        """
        now = self._clock()
        before, self._published_at = self._published_at, now
        room = SHARE * (now - before) if before is not None else SHORTEST
        until = time.perf_counter() + min(LONGEST, max(SHORTEST, room))
        wanted: list[int] = []
        for instruction in self._do(EpochPublished(now, epoch, rates or {})):
            if isinstance(instruction, MakeReady):
                wanted += instruction.queries
        ready = 0
        for query in wanted:
            if time.perf_counter() > until:
                break
            self._making.query = query
            try:
                made = evaluate(query)
            except Exception:  # whoever invokes it is told
                continue
            finally:
                self._making.query = None
            if made is not None:
                self.keep(query, *made)
            ready += query in self._answers
        self.made += ready
        return ready

    def memory(self, used: int, budget: int) -> None:
        """Tell how many bytes are held in all by row sets, trees, pairs and answers, and may be."""
        self._do(MemoryRead(self._clock(), used, budget))

    @property
    def nbytes(self) -> int:
        """Bytes of the answers."""
        return self._bytes

    def forms(self) -> dict[str, int]:
        """How many queries have complete answers ready, and how many are declared or chosen complete."""
        with self._lock:
            return {"ready": len(self._answers), "complete": len(self._decider.complete)}

    def _do(self, event: Event) -> list[Instruction]:
        with self._lock:
            instructions = self._decider.on(event)
            gone = []
            for instruction in instructions:
                if isinstance(instruction, Release):
                    gone.append(instruction.query)
                if isinstance(instruction, Release) or (
                    isinstance(instruction, Become) and instruction.form != "complete"
                ):
                    self._remove(instruction.query)
        if gone:
            self._release(gone)
        return instructions

    def _made_ready(self, query: int) -> bool:
        return getattr(self._making, "query", None) == query

    def _keep(self, query: int, at: Hashable, table: pa.Table, nbytes: int) -> None:
        with self._lock:
            if query not in self._decider.complete or nbytes > self.budget // 4:
                return
            self._remove(query)
            self._answers[query] = _Kept(at, table, nbytes)
            self._bytes += nbytes
            while self._bytes > self.budget:
                self._remove(next(iter(self._answers)))

    def _remove(self, query: int) -> None:
        kept = self._answers.pop(query, None)
        if kept is not None:
            self._bytes -= kept.nbytes


def _size(table: pa.Table) -> int:
    size: int = table.nbytes + 200 * (1 + table.num_columns)
    return size
