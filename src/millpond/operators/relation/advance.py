"""Advance a relational query: what it reports of the instants up to a bound, and how late rows revise reported ones.

A query's answer up to an instant is a function of the rows of its inputs; an epoch reports how it differs from before.
Late rows within the horizon give the touched instants a second time, and the difference is reported as a revision.
Pure functions of rows and bounds; live epochs and back-fill use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.operators.relation.early import Between, Report, Speculation
from millpond.operators.relation.group_sums import Stored, Sums
from millpond.operators.relation.relation_progress import Progress, RelationProgress
from millpond.operators.relation.table_use import TableUse
from millpond.operators.relational.readers import Given, Input
from millpond.operators.relational.visibility import covered_from, floor_of, floored, new_floor, pruned, revises
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.early import CLOSED
from millpond.progress import FOREVER, NEVER
from millpond.relations import (
    FOR_EVER,
    Content,
    Known,
    Probed,
    TablesInTime,
    Ticks,
    answers,
    content_of,
    content_of_runs,
    difference,
    merge_rows,
    numbered,
    numbers_of,
    pending,
    shown,
    sight_of,
)
from millpond.relations.pipelines import Observer
from millpond.relations.spans import Ints, visible_from
from millpond.synopses.parallel import side_by_side
from millpond.types import Grouped, QueryOptions, RelationInput, RelationQuery


@dataclass(frozen=True)
class Advancing:
    """A relational query that goes on.

    use: the tables that it reads. given: (low, high) -> revision numbers given so far to instants in that range:
    columns end, revision. speculation: what early answers are made of; None: the query has none. observer: of the
    pipelines of a join. stored: gives what is kept of the groups of aggregates over a join.
    """

    db: duckdb.DuckDBPyConnection
    query: RelationQuery
    options: QueryOptions
    use: TableUse
    given: Given
    speculation: Speculation | None = None
    observer: Observer | None = None
    stored: Stored = tuple

    def advance(
        self, inputs: Sequence[Input], progress: Progress, bound: int, since: int, high: int
    ) -> Advanced[RelationProgress]:
        """Report the instants up to `bound`, and revise reported ones that rows of the epochs from `since` on change.

        Args:
            high: the least high watermark of the streams that have rows, before the epoch.
        """
        edge = max(progress.own.edge, min(progress.closed, high))
        progress = replace(progress, own=replace(progress.own, edge=edge))
        stretches = self.use.stretches(progress)
        seen = Seen.of(self.db, self.query, self.options, inputs, progress, since)
        progress, evaluation = seen.progress, self._evaluation(seen, self.use.in_time(stretches))
        revised = self._revisions(evaluation.revised() if seen.revised else None)
        low, closed = max(progress.closed, progress.start), max(progress.closed, bound)
        found = evaluation.passed(low, min(bound, FOR_EVER)) if bound > low else None
        report = self._report(Report(bound, found, pending=pending(seen.contents, closed)), seen, evaluation.ahead)
        known = [*([numbers_of(revised)] if revised is not None and revised.num_rows else []), *report.numbers]
        parts = [t for t in (revised, report.answers) if t is not None and t.num_rows]
        return Advanced(
            pa.concat_tables(parts, promote_options="permissive") if parts else None,
            pa.concat_tables(known) if known else None,
            replace(
                progress,
                closed=closed,
                windows=progress.windows + (0 if found is None else found.num_rows),
                revisions=progress.revisions + (0 if revised is None else revised.num_rows),
                too_late=progress.too_late + seen.too_late,
                tables=stretches if closed > progress.closed else progress.tables,
                own=replace(
                    progress.own,
                    first=seen.first,
                    pending=report.pending,
                    early_at=report.early_at,
                    stirred=report.stirred,
                    summed=evaluation.summed,
                ),
            ),
            report.early,
            evaluation.stored(),
        )

    def _evaluation(self, seen: Seen, tables: TablesInTime) -> Evaluation:
        if not isinstance(self.query.plan, Grouped):
            return AllRows(seen, tables, self.observer)
        progress, before = seen.progress, seen.rows_before
        sums = Sums.of(self.db, self.query, tables, self.observer, seen.ticks, progress, self.stored, before)
        return GroupSums(seen, sums)

    def _report(self, report: Report, seen: Seen, between: Between) -> Report:
        """The report with the rows that are stored, early answers among them."""
        if self.speculation is not None:
            top = max((i.high for i in seen.inputs), default=NEVER)
            task = self.speculation
            return task.report(self.db, self.query, self.options, seen.progress, report, between, top, self.given)
        progress = seen.progress
        report = replace(report, early_at=progress.own.early_at, stirred=progress.own.stirred)
        if report.found is None:
            return report
        zeros = pa.array(np.zeros(report.found.num_rows, np.int64))
        return replace(report, answers=shown(self.db, self.query, report.found.append_column("_revision", zeros)))

    def _revisions(self, changed: pa.Table | None) -> pa.Table | None:
        """Changes of instants that were reported before, numbered behind what was given for the instant."""
        if changed is None or not changed.num_rows:
            return None
        status = None if self.options.early is None else CLOSED
        span = pc.min_max(changed["_at"]).as_py()
        given = self.given(span["min"], span["max"])
        return shown(self.db, self.query, numbered(self.db, changed, given, status, 1))


@dataclass(frozen=True)
class Seen:
    """What a query sees of its inputs in an epoch.

    progress: of the query, with a floor where rows came too far back. inputs: with the cuts that the query sees.
    revising: of each, whether its late rows revise; spares: how far back they do. fresh: the rows that came in the
    epochs from `since` on.
    """

    db: duckdb.DuckDBPyConnection
    query: RelationQuery
    options: QueryOptions
    progress: Progress
    inputs: Sequence[Input]
    revising: Sequence[bool]
    spares: Sequence[int]
    fresh: Sequence[pa.Table]
    since: int

    @staticmethod
    def of(
        db: duckdb.DuckDBPyConnection,
        query: RelationQuery,
        options: QueryOptions,
        inputs: Sequence[Input],
        progress: Progress,
        since: int,
    ) -> Seen:
        """What is seen of inputs as an epoch has them. progress: before the epoch."""
        own = [revises(options, i.late) for i in inputs]
        spares = [sight_of(query, options) if r else 0 for r in own]
        new = side_by_side(db, [partial(_fresh, i, since) for i in inputs])
        came = [(i.late, rows) for i, rows in zip(inputs, new, strict=True)]
        floors = [floor_of(progress, r, spare) for r, spare in zip(own, spares, strict=True)]
        # Of rows that are looked up nobody knows which are kept.
        progress = progress if query.probes else pruned(progress, [i.rows.slice(i.below) for i in inputs])
        progress = new_floor(progress, options, came, spares, floors)
        mended = [replace(i, rows=floored(i.rows, progress, options, i.late)) for i in inputs]
        fresh = [floored(rows, progress, options, late) for late, rows in came]
        return Seen(db, query, options, progress, mended, own, spares, fresh, since)

    def known(self, last: int | None = None) -> list[Known]:
        """The inputs. last: as of that epoch; None: of now."""

        def mended(each: Input) -> Callable[[pa.Table], pa.Table]:
            return lambda rows: floored(rows, self.progress, self.options, each.late)

        return [
            known_of(self.db, self.query, item, each, spare, mended(each), last)
            for item, each, spare in zip(self.query.inputs, self.inputs, self.spares, strict=True)
        ]

    @cached_property
    def contents(self) -> list[Known]:
        """The inputs as they are now."""
        return self.known()

    @property
    def rows(self) -> list[Content]:
        """The inputs whose rows are kept."""
        return [c for c in self.contents if isinstance(c, Content)]

    def rows_before(self) -> list[Content]:
        """The same before the epoch."""
        if not any(len(a) for a in self.arrivals):
            return self.rows
        return [c for c in self.known(self.since - 1) if isinstance(c, Content)]

    @cached_property
    def arrivals(self) -> list[Ints]:
        """When each row that came is seen, by input."""
        return [visible_from(t, t["_t"].to_numpy(), s) for t, s in zip(self.fresh, self.spares, strict=True)]

    @property
    def touched(self) -> list[Ints]:
        """The arrivals among the instants that were reported."""
        return [a[a < self.progress.closed] for a in self.arrivals]

    @cached_property
    def late(self) -> int | None:
        """The first reported instant that rows change; None: there is none."""
        return min((int(t.min()) for t in self.touched if len(t)), default=None)

    @property
    def low(self) -> int:
        """The first instant that is revised."""
        return max(NEVER if self.late is None else self.late, self.progress.start, self.horizon)

    @property
    def horizon(self) -> int:
        """The instant before which state does not cover what rows bring; NEVER where answers leave these out."""
        if not any(self.revising):
            return NEVER
        return covered_from(self.query, self.options, self.progress)

    @property
    def revised(self) -> bool:
        """Whether the epoch revises."""
        return self.late is not None and any(self.revising) and self.low <= self.progress.closed

    @cached_property
    def first(self) -> int | None:
        """The first instant at which a row is seen, of all epochs."""
        seen = [int(a.min()) for a in self.arrivals if len(a)]
        known = [] if self.progress.own.first is None else [self.progress.own.first]
        return min([*seen, *known], default=None)

    @cached_property
    def ticks(self) -> Ticks | None:
        """The instants that the query reports; None: all."""
        highs = [(item, i.high) for item, i in zip(self.query.inputs, self.inputs, strict=True) if i.high > NEVER]
        return _ticks(self.options, self.first, max((_last(item, high) for item, high in highs), default=NEVER))

    @property
    def ticks_before(self) -> Ticks | None:
        """The same before the epoch."""
        pairs = zip(self.query.inputs, self.inputs, strict=True)
        last = max((_last(item, _high(i.rows, self.since)) for item, i in pairs), default=NEVER)
        return _ticks(self.options, self.progress.own.first, last)

    @property
    def too_late(self) -> int:
        """How many rows are seen behind their own time."""
        arrived = zip(self.inputs, self.arrivals, self.fresh, strict=True)
        return sum(int((a > rows["_t"].to_numpy()).sum()) for i, a, rows in arrived if i.counted)


class Evaluation(Protocol):
    """How a query's answers are computed. summed: whether it goes on from sums that are stored."""

    summed: ClassVar[bool]

    def revised(self) -> pa.Table:
        """How what was reported differs, now that inputs are others."""

    def passed(self, low: int, high: int) -> pa.Table:
        """What is reported of low <= τ < high, all that was not reported yet."""

    def ahead(self, low: int, high: int) -> pa.Table:
        """The same of instants that are not passed."""

    def stored(self) -> pa.Table | None:
        """What is stored for the next epoch."""


@dataclass(frozen=True)
class AllRows:
    """Answers from all rows in the windows."""

    seen: Seen
    tables: TablesInTime
    observer: Observer | None
    summed: ClassVar[bool] = False

    def revised(self) -> pa.Table:
        """See `Evaluation`."""
        seen, query = self.seen, self.seen.query
        low, until = seen.low, seen.progress.closed
        reaches = [item.window.reach for item in query.inputs]
        if until < FOREVER and None not in reaches:
            highs = [int(t.max()) + (reach or 0) + 2 for t, reach in zip(seen.touched, reaches, strict=True) if len(t)]
            until = min(until, max(highs)) if query.operator != "rstream" else until
        old = self._answers(seen.known(seen.since - 1), low, until, seen.ticks_before)
        return difference(seen.db, query, old, self._answers(seen.contents, low, until, seen.ticks))

    def passed(self, low: int, high: int) -> pa.Table:
        """See `Evaluation`."""
        return self._answers(self.seen.contents, low, min(high, FOR_EVER), self.seen.ticks)

    ahead = passed

    def _answers(self, contents: Sequence[Known], low: int, high: int, ticks: Ticks | None) -> pa.Table:
        return answers(self.seen.db, self.seen.query, contents, self.tables, low, high, ticks, self.observer)

    def stored(self) -> pa.Table | None:
        """See `Evaluation`."""
        return None


@dataclass(frozen=True)
class GroupSums:
    """Answers of aggregates over a join, from the sums of its groups."""

    seen: Seen
    sums: Sums
    summed: ClassVar[bool] = True

    def revised(self) -> pa.Table:
        """See `Evaluation`."""
        seen, low = self.seen, self.seen.low
        earlier = seen.late is not None and seen.late < low
        ticks = (seen.ticks_before, seen.ticks)
        return self.sums.revised(seen.rows_before(), seen.rows, low, seen.progress.closed, ticks, earlier)

    def passed(self, low: int, high: int) -> pa.Table:
        """See `Evaluation`."""
        return self.sums.passed(self.seen.rows, low, high, self.seen.ticks)

    def ahead(self, low: int, high: int) -> pa.Table:
        """See `Evaluation`."""
        return self.sums.ahead(self.seen.rows, low, min(high, FOR_EVER), self.seen.ticks)

    def stored(self) -> pa.Table | None:
        """See `Evaluation`."""
        return self.sums.stored()


def known_of(
    db: duckdb.DuckDBPyConnection,
    relation: RelationQuery,
    item: RelationInput,
    each: Input,
    spare: int,
    mended: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    last: int | None = None,
) -> Known:
    """What evaluation knows of an input.

    Arguments:
        mended: gives rows of the past the cuts that the query sees. last: as of that epoch; None: of now.
    """
    if each.runs and not item.signed:
        return content_of_runs(db, item, each.runs, spare, each.rows, last)
    rows = each.rows if last is None else each.rows.filter(pc.less_equal(each.rows["_epoch"], last))
    probe, past = relation.probe(item.alias), each.past
    if probe is None or past is None:
        return content_of(db, item, rows, spare)
    driver = next(i for i in relation.inputs if i.alias == relation.driver)
    oldest = min([past.oldest, *([int(pc.min(rows["_t"]).as_py())] if rows.num_rows else [])])
    empty = each.rows.slice(0, 0)
    return Probed(
        item, probe, driver, spare, lambda where: map(mended, past.read(where, None, rows, last)), empty, oldest
    )


def _fresh(each: Input, since: int, _db: duckdb.DuckDBPyConnection) -> pa.Table:
    """The rows of an input that came in the epochs from `since` on."""
    rows = each.rows.slice(each.below)
    rows = rows.filter(pc.greater_equal(rows["_epoch"], since))
    if each.past is None or since > each.past.epoch:
        return rows
    everywhere = [(-FOR_EVER, FOR_EVER)]
    return merge_rows([rows, *(t for t in each.past.read(everywhere, first=since) if t.num_rows)])


def _last(item: RelationInput, high: int) -> int:
    """The last instant at which something happens, when nothing follows."""
    reach = item.window.reach
    return high if reach is None else high + reach + 1


def _high(rows: pa.Table, since: int) -> int:
    times = rows.filter(pc.less(rows["_epoch"], since))["_t"]
    return pc.max(times).as_py() if len(times) else NEVER


def _ticks(options: QueryOptions, first: int | None, last: int) -> Ticks | None:
    if options.every is None:
        return None
    return Ticks(options.every, FOREVER if first is None else first, last)
