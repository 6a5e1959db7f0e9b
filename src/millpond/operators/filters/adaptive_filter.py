"""Conditions with registered functions in a map task: evaluated over what is left, and observed on the way.

Cheap conjuncts go first, as one. Then one filter after the other, in the order that the manifest says, each over the
rows that those before it let pass, set at a time (Babu 2005, chapter 4, over sets instead of tuples). Which dropped
rows are profiled is a function of their `_id`. Times are clock readings; they travel in the task's report, and what is
decided by them in the next manifest. Between pieces of a task the order may change (`adapt.local_order`).

Neither the rows that pass nor those that become letters depend on the order: a row that any filter drops is dropped,
whatever others raise on it; one that none drops and some fail on is a letter of the first of these, as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millpond.adapt.filter_plans import LONG, SEEN, FilterPlan, bits_in
from millpond.adapt.local_order import LocalOrder
from millpond.functions import function_of, miscounted
from millpond.operators.filters.profiled_sample import Flags, Ints
from millpond.operators.filters.profiling import Step, dropped, profile_tuples
from millpond.support.stopwatch import Watch
from millpond.synopses import connection, query_table
from millpond.synopses.conjunctions import Conjunction
from millpond.synopses.kernel import BROKEN, reset
from millpond.synopses.partials.specs import as_declared
from millpond.synopses.tolerance import FAILING_ROWS, is_of_rows, one_line
from millpond.types import HOLDS, Call, Expression
from millpond.types.sql_expressions import RESULT

#: Rows that the time of a filter is measured with while it is not known; fewer (`SEEN`) are enough where these took so
#: many seconds.
MEASURE, CLEAR = 1024, 0.002

#: Rows in one call of a function: what it needs stays small.
BATCH = 65_536

#: The number of the cheap conjuncts among filters: what fails there is the first fault of its row.
CHEAP = -1


@dataclass(frozen=True)
class Screened:
    """rows: those for which the condition holds. failed: those on which a filter failed, with `_reason`; or None.

    marked: all rows but those that failed, with `HOLDS`; where it was asked for.
    """

    rows: pa.Table
    failed: pa.Table | None = None
    marked: pa.Table | None = None


@dataclass(frozen=True)
class Fault:
    """A filter fails on a row. number: of the filter, as it is written."""

    number: int
    error: duckdb.Error


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
            if each.call is not None:
                function_of(each.call.reference).call  # noqa: B018 - made ready now, since calls are timed
        count = len(conjunction.filters)
        # A plan for another condition (it was made before a crash, say) is none.
        fits = plan is not None and len(plan.order) == count
        self.plan = plan if plan is not None and fits else FilterPlan(tuple(range(count)))
        self.local = LocalOrder(self.plan)
        self.rows_in, self.rows_out, self.timed = (np.zeros(count, np.int64) for _ in range(3))
        self.seconds, self.measured = np.zeros(count), np.zeros(count)
        self._constants: dict[tuple[str, str], pa.ChunkedArray] = {}
        self.profile = ""
        self.overhead = 0.0
        self.taken = self.kept = 0
        self.turned = False
        # Of a piece: rows on which each filter failed, letters, and the error of the first.
        self._fails = np.zeros(count, np.int64)
        self._letters = 0
        self._first: duckdb.Error | None = None

    def screen(self, rows: pa.Table, mark: bool = False) -> Screened:
        """The rows of a piece for which the condition holds, in their order; `mark`: see `Screened`.

        Raises: duckdb.Error when filters fail on more than FAILING_ROWS rows that no other drops: that of the first
            such row, whatever the order.
        """
        self._fails[:] = 0
        self._letters, self._first = 0, None
        found: list[Screened] = []
        low = 0
        while low < rows.num_rows or not found:
            screened, size = self._screen(rows.slice(low, self.local.rows(rows.num_rows - low)), mark)
            found.append(screened)
            low += size
        if len(found) == 1:
            return found[0]
        failed = [f.failed for f in found if f.failed is not None]
        marked = [f.marked for f in found if f.marked is not None]
        return Screened(
            pa.concat_tables([f.rows for f in found]),
            pa.concat_tables(failed) if failed else None,
            pa.concat_tables(marked) if marked else None,
        )

    def _screen(self, rows: pa.Table, mark: bool) -> tuple[Screened, int]:
        """As `screen`, for rows of a piece in one order: of all, or of the first few, if these say that it is wrong.

        Returns: also how many they are.
        """
        left = np.arange(rows.num_rows)
        faults: dict[int, Fault] = {}
        if self.conjunction.cheap is not None:
            left = self._passing(rows, left, CHEAP, faults)[0]
        self.taken += len(left)
        self._measure(rows, left)
        letters, faults = faults, {}
        order, steps = self.local.order, list[Step]()
        self.turned = self.turned or self.local.turned
        late = [n for n in order if self._fails[n] > FAILING_ROWS]  # as the rows before have shown
        waiting = [n for n in order if n not in late]
        seen = [(0, 0)] * len(order)
        watch = Watch()
        while waiting:
            number = waiting.pop(0)
            before = left
            fresh: dict[int, Fault] = {}
            ahead = self.local.peek(len(before)) if number == order[0] else 0
            try:
                left, step = self._passing(rows, before[: ahead or None], number, fresh)
                if ahead and self.local.moves((len(left), ahead)):
                    rows = rows.slice(0, int(before[ahead]))
                    letters = {place: fault for place, fault in letters.items() if place < rows.num_rows}
                    self.taken -= len(before) - ahead
                    before = before[:ahead]
                elif ahead:
                    more, last = self._passing(rows, before[ahead:], number, fresh)
                    left, step = np.concatenate([left, more]), step + last
            except duckdb.Error as error:
                if miscounted(error):
                    raise
                late.append(number)  # it fails on many rows; the others may drop them
                left = before
                watch.lap()
                continue
            self._count(number, len(before), len(left), watch.lap())
            seen[number] = len(left), len(before)
            self._fails[number] += len(fresh)
            steps.append(step)
            if faults:
                faults = self._still(rows, faults, number)
                self.seconds[number] += watch.lap()
            faults |= fresh
        if late:
            left, faults = self._last(rows, left, sorted(late), letters, faults)
        else:
            if self.local.saw(seen):
                self.profile = ""
            if self._profile(rows, order, steps, len(steps[0].before) - len(left)):
                self.overhead += watch.lap()
        return self._screened(rows, left, letters | faults, mark), rows.num_rows

    def _screened(self, rows: pa.Table, left: Ints, letters: dict[int, Fault], mark: bool) -> Screened:
        """What `screen` gives. left: the places of the rows that pass. letters: what failed, by place."""
        if letters and self._first is None:
            self._first = letters[min(letters)].error
        self._letters += len(letters)
        if self._first is not None and self._letters > FAILING_ROWS:
            raise self._first
        self.kept += len(left)
        good = rows if len(left) == rows.num_rows else rows.take(pa.array(left))
        marked = _marked(rows, left, sorted(letters)) if mark else None
        return Screened(good, _letters(rows, letters), marked)

    def report(self) -> dict[str, Any]:
        """What was observed, JSON-ready; `adapt.FilterProfiler` puts the reports of an epoch together."""
        return {
            "rows": self.rows_in.tolist(),
            "passed": self.rows_out.tolist(),
            "seconds": self.seconds.tolist(),
            "timed": self.timed.tolist(),
            "measured": self.measured.tolist(),
            "profile": self.profile,
            "overhead": self.overhead,
            "taken": self.taken,
            "kept": self.kept,
            "turned": self.turned,
            "moved": self.local.moved,
        }

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def _last(
        self, rows: pa.Table, left: Ints, late: Sequence[int], letters: Mapping[int, Fault], faults: dict[int, Fault]
    ) -> tuple[Ints, dict[int, Fault]]:
        """Evaluate filters that fail on many rows over what all others leave: the rows that pass, and the faults.

        Every one of them is asked for every row that none of them drops, a few rows after the other and in the order of
        the rows, until more than FAILING_ROWS are letters. So it is the letters that decide, and the first of them that
        is told, whichever filter stood first.

        Arguments:
            late: these filters, as they are written. letters: those of the cheap part. faults: of the other filters.
        """
        for number in late:
            faults = self._still(rows, faults, number)
        passed: list[Ints] = []
        for low in range(0, len(left), FAILING_ROWS):
            some, found = left[low : low + FAILING_ROWS], dict[int, Fault]()
            upto = int(some[-1])
            for number in late:
                before, fresh, watch = some, dict[int, Fault](), Watch()
                some, _ = self._passing(rows, before, number, fresh)
                self._count(number, len(before), len(some), watch.lap())
                found = self._still(rows, found, number) | fresh
                self.seconds[number] += watch.lap()
            passed.append(some)
            faults |= found
            if self._letters + len(letters) + len(faults) > FAILING_ROWS and min([*letters, *faults]) <= upto:
                break
        return np.concatenate([left[:0], *passed]), faults

    def _passing(self, rows: pa.Table, left: Ints, number: int, faults: dict[int, Fault]) -> tuple[Ints, Step]:
        """The rows of `left` for which a filter holds, and what it did; those on which it fails go to `faults`.

        Failing rows are found by bisection. Raises: duckdb.Error when they are more than FAILING_ROWS.
        """
        mask = np.zeros(len(left), np.bool_)
        if not len(left):
            return left, Step(left, mask, left)
        each = None if number == CHEAP else self.conjunction.filters[number]
        asked = self.conjunction.cheap if each is None else each
        columns = () if asked is None else asked.columns
        holds: Callable[[pa.Table], Flags] = self._cheap if each is None else partial(self._holds, each)
        part = _part(rows, left, columns)
        places: list[int] = []
        pending = [(low, min(low + BATCH, len(left))) for low in range(0, len(left), BATCH)][::-1]
        while pending:
            low, high = pending.pop()
            try:
                mask[low:high] = holds(part.slice(low, high - low))
            except duckdb.Error as error:
                if not is_of_rows(error):
                    raise
                if high - low > 1:
                    middle = (low + high) // 2
                    pending += [(middle, high), (low, middle)]
                    continue
                places.append(low)
                faults[int(left[low])] = Fault(number, error)
                if len(places) > FAILING_ROWS:
                    raise
        return left[mask], Step(left, mask, left[places])

    def _still(self, rows: pa.Table, faults: dict[int, Fault], number: int) -> dict[int, Fault]:
        """Of rows on which others failed those that a filter does not drop; where it fails, too, the first counts."""
        places = np.array(sorted(faults))
        found: dict[int, Fault] = {}
        for low in range(0, len(places), FAILING_ROWS):
            fresh: dict[int, Fault] = {}
            holds, _ = self._passing(rows, places[low : low + FAILING_ROWS], number, fresh)
            found |= {place: faults[place] for place in holds.tolist()}
            found |= {p: min(faults[p], fault, key=lambda f: f.number) for p, fault in fresh.items()}
        return found

    def _cheap(self, part: pa.Table) -> Flags:
        return self._query(f"({self.conjunction.cheap})", part)

    def _holds(self, each: Expression, part: pa.Table) -> Flags:
        """For which rows a filter holds; NULL does not."""
        if each.call is None:
            return self._query(f"({each})", part)
        result = function_of(each.call.reference).call(*self._arguments(each.call, part))
        if each.call.rest is not None:
            return self._query(f"({each.call.rest})", part.append_column(RESULT, result))
        result = result.fill_null(False) if result.null_count else result
        return np.asarray(result.to_numpy(zero_copy_only=False), np.bool_)

    def _arguments(self, call: Call, part: pa.Table) -> list[pa.Array | pa.ChunkedArray]:
        function = function_of(call.reference)
        found: dict[int, Any] = {}
        asked: dict[int, str] = {}
        kinds = zip(function.definition.arguments, function.takes, strict=True)
        for n, (argument, (kind, carried)) in enumerate(zip(call.arguments, kinds, strict=True)):
            name = argument.column
            if name is not None and argument.sql not in self.casts and part.schema.field(name).type == carried:
                found[n] = part[name]
            elif not argument.columns and not argument.registered:
                found[n] = self._constant(argument, kind).take(pa.array(np.zeros(part.num_rows, np.int8)))
            else:
                asked[n] = f"CAST(({argument}) AS {kind}) AS a{n}"
        if asked:
            made = query_table(connection(), f"SELECT {', '.join(asked.values())} FROM {self._source(part)}", part=part)
            found |= dict(zip(asked, made.columns, strict=True))
        return [found[n] for n in range(len(call.arguments))]

    def _constant(self, value: Expression, kind: str) -> pa.ChunkedArray:
        """The one value of an expression that reads no column."""
        key = value.sql, kind
        if key not in self._constants:
            self._constants[key] = query_table(connection(), f"SELECT CAST(({value}) AS {kind}) AS a")["a"]
        return self._constants[key]

    def _query(self, sql: str, part: pa.Table) -> Flags:
        made = query_table(connection(), f"SELECT coalesce({sql}, false) AS m FROM {self._source(part)}", part=part)
        return np.asarray(made["m"].to_numpy(), np.bool_)

    def _source(self, part: pa.Table) -> str:
        return as_declared("part", self.casts.items(), part.column_names)

    # -- observation ---------------------------------------------------------------------------------------------------

    def _count(self, number: int, entered: int, left: int, seconds: float) -> None:
        self.rows_in[number] += entered
        self.rows_out[number] += left
        self.seconds[number] += seconds
        if entered >= SEEN or seconds >= LONG:
            self.timed[number] += entered
            self.measured[number] += seconds

    def _measure(self, rows: pa.Table, left: Ints) -> None:
        """Learn what filters take whose time is not known, each once in a task."""
        for number in self.plan.measure:
            if self.timed[number] or len(left) < SEEN:
                continue
            watch = Watch()
            for size in (SEEN, MEASURE):
                some = _part(rows, left[:size], self.conjunction.filters[number].columns)
                told = self._asked(some, number) is not None
                took = watch.lap()
                self.overhead += took
                if told:
                    self.timed[number], self.measured[number] = min(size, len(left)), took
                if not told or took > CLEAR:
                    break

    def _asked(self, rows: pa.Table, number: int) -> Flags | None:
        """For which rows a filter holds; None when it fails on one: what is profiled makes no dead letters."""
        try:
            return self._holds(self.conjunction.filters[number], rows)
        except duckdb.Error as error:
            if isinstance(error, BROKEN):
                reset()
            return None

    def _profile(self, rows: pa.Table, order: Sequence[int], steps: Sequence[Step], gone: int) -> bool:
        """Make profile tuples, where `gone` rows were dropped. Returns: whether that was to be done."""
        probability = self.local.probability(gone)
        if not probability or not gone:
            return False
        filters, most = self.conjunction.filters, self.plan.most
        groups = dropped(int(rows["_id"][0].as_py()), steps, rows.num_rows, gone, probability, most)
        codes = profile_tuples(rows, filters, order, self.local.ask, groups, self._asked)
        self.profile = (self.profile + codes.tobytes().decode())[-most * len(order) :]
        self.local.take(bits_in(codes))
        return True


def _part(rows: pa.Table, left: Ints, columns: Sequence[str]) -> pa.Table:
    """Some columns of some rows."""
    some = rows.select([c for c in columns if c in rows.column_names] or rows.column_names[:1])
    return some if len(left) == rows.num_rows else some.take(pa.array(left))


def _marked(rows: pa.Table, holds: Ints, failed: Sequence[int]) -> pa.Table:
    """All rows but those that failed, with whether the condition holds for them."""
    flags, there = np.zeros(rows.num_rows, np.bool_), np.ones(rows.num_rows, np.bool_)
    flags[holds], there[list(failed)] = True, False
    marked = rows.append_column(HOLDS, pa.array(flags))
    return marked.filter(pa.array(there)) if failed else marked


def _letters(rows: pa.Table, faults: dict[int, Fault]) -> pa.Table | None:
    if not faults:
        return None
    places = sorted(faults)
    reasons = [one_line(faults[place].error) for place in places]
    return rows.take(pa.array(places)).append_column("_reason", pa.array(reasons, pa.string()))
