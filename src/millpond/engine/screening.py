"""Conditions with registered functions in a map task: evaluated over what is left, and observed on the way.

Cheap conjuncts go first, as one. Then one filter after the other, in the order that the manifest says, each over the
rows that those before it let pass, set at a time (Babu 2005, chapter 4, over sets instead of tuples). Which dropped
rows are profiled is a function of their `_id`. Times are clock readings; they travel in the task's report, and what is
decided by them in the next manifest.
"""

from __future__ import annotations

import contextlib
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millpond.adapt.filter_plans import SEEN, FilterPlan
from millpond.engine.tolerance import FAILING_ROWS, one_line
from millpond.functions import function_of
from millpond.language.duck import quote
from millpond.synopses import connection, query_table
from millpond.synopses.conjunctions import RESULT, Conjunction, Filter, columns_in, is_column, text_of
from millpond.synopses.kernel import reset

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

#: Rows that the time of a filter is measured with while it is not known.
MEASURE = 1024

#: Rows in one call of a function: what it needs stays small.
BATCH = 65_536


@dataclass(frozen=True)
class Screened:
    """rows: those for which the condition holds. failed: those on which a filter failed, with `_reason`; or None."""

    rows: pa.Table
    failed: pa.Table | None = None


class Watch:
    """Seconds that something takes by itself.

    While the thread never waits these are of the processor, so that what runs beside it on a busy machine does not
    count; when it waits (for an answer of a server, say) they are those that pass.
    """

    def __init__(self) -> None:
        self._passed, self._used, self._waits = clock.perf_counter(), clock.thread_time(), _waits()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        waits = _waits()
        if waits is not None and waits == self._waits:
            return clock.thread_time() - self._used
        return clock.perf_counter() - self._passed


def _waits() -> int | None:
    """How often this thread has given the processor away by itself; None where the system does not say."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    return None


class Screen:
    """Evaluates one condition over the pieces of a task's rows.

    Arguments:
        conjunction: the condition. casts: (quoted column, type) of columns that Arrow carries as something else.
        plan: order and profiling; None: as it is written, without.
    """

    def __init__(
        self, conjunction: Conjunction, plan: FilterPlan | None = None, casts: Sequence[tuple[str, str]] = ()
    ) -> None:
        self.conjunction, self.casts = conjunction, dict(casts)
        for each in conjunction.filters:
            if each.reference is not None:
                function_of(each.reference).call  # noqa: B018 - made ready now, since calls are timed
        count = len(conjunction.filters)
        # A plan for another condition (it was made before a crash, say) is none.
        fits = plan is not None and len(plan.order) == count
        self.plan = plan if plan is not None and fits else FilterPlan(tuple(range(count)))
        self.rows_in, self.rows_out, self.timed = (np.zeros(count, np.int64) for _ in range(3))
        self.seconds, self.measured = np.zeros(count), np.zeros(count)
        self.profile: list[str] = []
        self.overhead = 0.0
        self.entered = 0

    def screen(self, rows: pa.Table) -> Screened:
        """The rows of a piece for which the condition holds, in their order.

        Raises: duckdb.Error when a filter fails on more than FAILING_ROWS rows.
        """
        self.entered += rows.num_rows
        failed: list[tuple[Ints, list[str]]] = []
        left = np.arange(rows.num_rows)
        if self.conjunction.cheap is not None:
            left, _ = self._step(rows, left, self._cheap, columns_in(self.conjunction.cheap), failed)
        self._measure(rows, left)
        sample = self._sample(rows, left)
        drops: list[tuple[int, Ints]] = []
        for position, number in enumerate(self.plan.order):
            before = left
            begun, letters = Watch(), len(failed)
            each = self.conjunction.filters[number]
            left, dropped = self._step(rows, left, partial(self._holds, each), each.columns, failed)
            self._count(number, len(before), len(left), begun.seconds)
            if sample is not None:
                begun = Watch()
                drops.append((position, sample.dropped(dropped, failed[letters:])))
                self.overhead += begun.seconds
        self._profile(rows, [each for each in drops if len(each[1])])
        good = rows if len(left) == rows.num_rows else rows.take(pa.array(left))
        return Screened(good, _letters(rows, failed))

    def report(self) -> dict[str, Any]:
        """What was observed, JSON-ready; `adapt.FilterProfiler` puts the reports of an epoch together."""
        return {
            "rows": self.rows_in.tolist(),
            "passed": self.rows_out.tolist(),
            "seconds": self.seconds.tolist(),
            "timed": self.timed.tolist(),
            "measured": self.measured.tolist(),
            "profile": self.profile[-self.plan.most :],
            "overhead": self.overhead,
        }

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def _step(
        self,
        rows: pa.Table,
        left: Ints,
        holds: Callable[[pa.Table], Flags],
        columns: Sequence[str],
        failed: list[tuple[Ints, list[str]]],
    ) -> tuple[Ints, Ints]:
        """The rows of `left` for which a condition holds, and the others; those on which it fails are neither.

        Failing rows are found by bisection.
        """
        if not len(left):
            return left, left
        part = _part(rows, left, columns)
        mask = np.zeros(len(left), np.bool_)
        places: list[int] = []
        reasons: list[str] = []
        pending = [(low, min(low + BATCH, len(left))) for low in range(0, len(left), BATCH)][::-1]
        while pending:
            low, high = pending.pop()
            try:
                mask[low:high] = holds(part.slice(low, high - low))
            except duckdb.Error as error:
                if isinstance(error, duckdb.FatalException):
                    reset()
                if high - low > 1:
                    middle = (low + high) // 2
                    pending += [(middle, high), (low, middle)]
                    continue
                places.append(low)
                reasons.append(one_line(error))
                if len(places) > FAILING_ROWS:
                    raise
        passing, others = left[mask], ~mask
        if places:
            failed.append((left[places], reasons))
            others[places] = False
        return passing, left[others]

    def _cheap(self, part: pa.Table) -> Flags:
        return self._query(f"({self.conjunction.cheap})", part)

    def _holds(self, each: Filter, part: pa.Table) -> Flags:
        """For which rows a filter holds; NULL does not."""
        if each.reference is None:
            return self._query(f"({each.sql})", part)
        function = function_of(each.reference)
        result = function.call(*self._arguments(each, part))
        if each.rest is not None:
            table = part.append_column(RESULT.strip('"'), result)
            return self._query(f"({each.rest})", table)
        return np.asarray(result.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)

    def _arguments(self, each: Filter, part: pa.Table) -> list[pa.Array | pa.ChunkedArray]:
        assert each.reference is not None
        function = function_of(each.reference)
        found: dict[int, Any] = {}
        asked: dict[int, str] = {}
        kinds = zip(function.definition.arguments, function.takes, strict=True)
        for n, (argument, (kind, carried)) in enumerate(zip(each.arguments, kinds, strict=True)):
            name = argument[1:-1].replace('""', '"')
            if is_column(argument) and argument not in self.casts and part.schema.field(name).type == carried:
                found[n] = part[name]
            elif (text := text_of(argument)) is not None and kind == "VARCHAR":
                found[n] = pa.repeat(pa.scalar(text), part.num_rows)
            elif argument.isdecimal() and kind in ("INTEGER", "BIGINT") and len(argument) < 10:
                found[n] = pa.repeat(pa.scalar(int(argument), carried), part.num_rows)
            else:
                asked[n] = f"CAST(({argument}) AS {kind}) AS a{n}"
        if asked:
            made = query_table(connection(), f"SELECT {', '.join(asked.values())} FROM {self._source(part)}", part=part)
            found |= dict(zip(asked, made.columns, strict=True))
        return [found[n] for n in range(len(each.arguments))]

    def _query(self, sql: str, part: pa.Table) -> Flags:
        made = query_table(connection(), f"SELECT coalesce({sql}, false) AS m FROM {self._source(part)}", part=part)
        return np.asarray(made["m"].to_numpy(), np.bool_)

    def _source(self, part: pa.Table) -> str:
        names = {quote(n) for n in part.column_names}
        casts = ", ".join(f"CAST({n} AS {kind}) AS {n}" for n, kind in self.casts.items() if n in names)
        return f"(SELECT * REPLACE ({casts}) FROM part)" if casts else "part"

    # -- observation ---------------------------------------------------------------------------------------------------

    def _count(self, number: int, entered: int, left: int, seconds: float) -> None:
        self.rows_in[number] += entered
        self.rows_out[number] += left
        self.seconds[number] += seconds
        if entered >= SEEN:
            self.timed[number] += entered
            self.measured[number] += seconds

    def _measure(self, rows: pa.Table, left: Ints) -> None:
        """Learn what filters take whose time is not known, each once in a task."""
        for number in self.plan.measure:
            if self.timed[number] or len(left) < SEEN:
                continue
            begun = Watch()
            if self._asked(rows, left[:MEASURE], number) is not None:
                self.timed[number] += min(MEASURE, len(left))
                self.measured[number] += begun.seconds
            self.overhead += begun.seconds

    def _asked(self, rows: pa.Table, chosen: Ints, number: int) -> Flags | None:
        """For which rows a filter holds; None when it fails on one: what is profiled makes no dead letters."""
        each = self.conjunction.filters[number]
        try:
            return self._holds(each, _part(rows, chosen, each.columns))
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException):
                reset()
            return None

    def _sample(self, rows: pa.Table, left: Ints) -> Sample | None:
        """The rows of a piece that are profiled if they are dropped; None where nothing is profiled."""
        if not self.plan.probability or not len(left):
            return None
        begun = Watch()
        places = sampled(rows["_id"][0].as_py(), rows.num_rows, self.plan.probability)
        found = Sample(places, left, rows.num_rows)
        self.overhead += begun.seconds
        return found

    def _profile(self, rows: pa.Table, drops: list[tuple[int, Ints]]) -> None:
        """Make profile tuples: each filter is asked once, what it is asked for rows dropped at any position."""
        if not drops:
            return
        begun, order = Watch(), self.plan.order
        places = np.concatenate([chosen for _, chosen in drops])
        positions = np.concatenate([np.full(len(chosen), position) for position, chosen in drops])
        by_row = np.argsort(places, kind="stable")[-self.plan.most :]
        places, positions = places[by_row], positions[by_row]
        lines = np.full((len(places), len(order)), ord("?"), np.uint8)
        asks = np.zeros((len(order), len(order)), np.bool_)
        for position, asked in enumerate(self.plan.ask):
            asks[position, list(asked)] = True
        for position, number in enumerate(order):
            lines[positions > position, number] = ord("0")
            lines[positions == position, number] = ord("1")
            chosen = np.flatnonzero(asks[positions, number])
            if len(chosen) and (holds := self._asked(rows, places[chosen], number)) is not None:
                lines[chosen, number] = np.where(holds, ord("0"), ord("1"))
        text, width = lines.tobytes().decode(), len(order)
        made = [text[at : at + width] for at in range(0, len(text), width)]
        self.profile = [*self.profile, *made][-self.plan.most :]
        self.overhead += begun.seconds


class Sample:
    """Rows that may be profiled, and which of them are still there.

    Arguments:
        places: of the rows in their piece. left: rows that the filters begin with, of `rows` in all.
    """

    def __init__(self, places: Ints, left: Ints, rows: int) -> None:
        self._there = np.full(rows, len(left) == rows)
        if len(left) < rows:
            self._there[left] = True
        self._places = places[self._there[places]]

    def dropped(self, dropped: Ints, failed: list[tuple[Ints, list[str]]]) -> Ints:
        """Those that a filter has dropped; the rows on which it failed are gone, too, and were not dropped."""
        self._there[dropped] = False
        still = self._there[self._places]
        found: Ints = self._places[~still]
        self._places = self._places[still]
        for places, _ in failed:
            self._there[places] = False
            self._places = self._places[self._there[self._places]]
        return found


def sampled(first: int, rows: int, probability: float) -> Ints:
    """Places of the rows of a piece that are profiled: each with a probability, drawn by the id of the first row.

    The gaps between them are drawn, which costs nothing for the rows that are left out.

    >>> len(sampled(7, 100_000, 0.1)) in range(9_500, 10_500), sampled(7, 3, 1.0).tolist()
    (True, [0, 1, 2])
    """
    if probability >= 1:
        return np.arange(rows)
    rng = np.random.Generator(np.random.PCG64(first))
    gaps = rng.geometric(probability, int(rows * probability + 6 * np.sqrt(rows * probability)) + 16)
    places = np.cumsum(gaps) - 1
    found: Ints = places[: int(np.searchsorted(places, rows))]
    return found


def _part(rows: pa.Table, left: Ints, columns: Sequence[str]) -> pa.Table:
    """Some columns of some rows."""
    part = rows.select([c for c in columns if c in rows.column_names] or rows.column_names[:1])
    return part if len(left) == rows.num_rows else part.take(pa.array(left))


def _letters(rows: pa.Table, failed: list[tuple[Ints, list[str]]]) -> pa.Table | None:
    if not failed:
        return None
    places = np.concatenate([p for p, _ in failed])
    reasons = [reason for _, each in failed for reason in each]
    order = np.argsort(places, kind="stable")
    letters = rows.take(pa.array(places[order]))
    return letters.append_column("_reason", pa.array([reasons[i] for i in order], pa.string()))
