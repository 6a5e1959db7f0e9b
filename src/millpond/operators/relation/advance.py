"""Advance a relational query: what it reports of the instants up to a bound, and how late rows revise reported ones.

A query's answer up to an instant is a function of the rows of its inputs; an epoch reports how it differs from before.
Late rows within the horizon give the touched instants a second time, and the difference is reported as a revision.
Pure functions of rows and bounds; live epochs and back-fill use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.operators.relation.early import Between, Report, Speculation
from millpond.operators.relation.group_sums import Stored, Sums
from millpond.operators.relation.groups_ahead import GroupsAhead, KeptApart
from millpond.operators.relation.relation_progress import Progress, RelationProgress
from millpond.operators.relation.seen import Seen
from millpond.operators.relation.table_use import TableUse
from millpond.operators.relational.readers import Given, Input
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.early import CLOSED
from millpond.operators.windowed.group_bounds import GroupBounds, closed_groups
from millpond.progress import FOREVER, NEVER
from millpond.relations import (
    FOR_EVER,
    Known,
    TablesInTime,
    Ticks,
    answers,
    difference,
    numbered,
    numbers_of,
    shown,
)
from millpond.relations.pipelines import Observer
from millpond.types import Grouped, QueryOptions, RelationQuery


@dataclass(frozen=True)
class Advancing:
    """A relational query that goes on.

    use: the tables that it reads. given: (low, high) -> revision numbers given so far to instants in that range:
    columns end, revision. speculation: what early answers are made of; None: the query has none. observer: of the
    pipelines of a join. stored: gives what is kept of the groups of aggregates over a join. apart, groups: the groups
    that it reports by, and their bounds; None: it waits for those of all rows.
    """

    db: duckdb.DuckDBPyConnection
    query: RelationQuery
    options: QueryOptions
    use: TableUse
    given: Given
    speculation: Speculation | None = None
    observer: Observer | None = None
    stored: Stored = tuple
    apart: KeptApart | None = None
    groups: GroupBounds | None = None

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
        progress, tables = seen.progress, self.use.in_time(stretches)
        evaluation = self._evaluation(seen, tables)
        low, closed = max(progress.closed, progress.start), max(progress.closed, bound)
        ahead = GroupsAhead.of(seen, tables, self.apart, self.groups, low, closed)
        revised = self._revisions(ahead.revised(evaluation.revised() if seen.revised else None))
        found = ahead.passed(evaluation.passed(low, min(bound, FOR_EVER)) if bound > low else None)
        report = Report(bound, found, ahead.opened, pending=ahead.pending())
        report = self._report(report, seen, evaluation.ahead)
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
                    groups=closed_groups(closed, self.groups, progress.own.groups),
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
