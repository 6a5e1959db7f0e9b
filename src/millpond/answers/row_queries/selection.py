"""Invoking a selection: its answer at a moment is a function of the rows of the epochs up to one publish record.

answer = evaluate(pond, registered)                       # the query's own window, now
answer = evaluate(pond, registered, ("epoch", 7))         # as it was known when epoch 7 was published
answer = select_once(pond, selection)                     # ad hoc: nothing is kept
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.adhoc import whole
from millpond.answers.archive_jobs import ANSWER_ROWS, QUICK_ROWS, Asked
from millpond.answers.expired_history import check_reach
from millpond.answers.row_queries.hot import HotBlock, Outdated, Snapshot, View
from millpond.answers.row_queries.joins import join_columns, join_rows
from millpond.answers.row_queries.matched_rows import (
    Rows,
    Wanted,
    archive_range,
    archive_rows,
    check_rows,
    cold_rows,
    hot_parts,
    hot_stretch,
    in_order,
    matcher,
)
from millpond.answers.row_queries.moments import NOTHING, Moment, moment_of, stretch_of
from millpond.answers.row_queries.pair_caches import SideView
from millpond.answers.row_queries.plans import Plan, plan_of
from millpond.answers.row_queries.ready import Ready, ready_of
from millpond.answers.row_queries.reduced_rows import reduced_answer
from millpond.answers.row_queries.stretch import Stretch
from millpond.answers.row_queries.trees import aggregate_rows
from millpond.answers.row_queries.united import entered, last_stretch, own_columns, together
from millpond.archive.open_archives import Archives
from millpond.archive.planning.scans import Scan
from millpond.engine.pond_view import PondView
from millpond.progress import NEVER
from millpond.support.errors import QueryError
from millpond.types import Edge, Expression, GroupScan, QueryOptions, RowQuery, Side, Span, StreamDefinition
from millpond.types.as_of import AsOf
from millpond.types.results import Answer

_NOTHING_KEPT = QueryOptions(materialize="none")


class Registered(Protocol):
    """What is asked of a registered selection (`millpond.catalog.register_lines.Registered` is one)."""

    @property
    def id(self) -> int:
        """Its id; 0: nothing is kept for it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def selection(self) -> RowQuery:
        """Names and types resolved."""

    @property
    def options(self) -> QueryOptions:
        """What WITH (…) said."""

    @property
    def registered_epoch(self) -> int | None:
        """The last epoch published when it was registered; None: nobody registered it."""


@dataclass(frozen=True)
class AdHoc:
    """A selection that nobody registered."""

    selection: RowQuery
    id: int = 0
    name: str = ""
    options: QueryOptions = _NOTHING_KEPT
    registered_epoch: int | None = None


def evaluate(
    pond: PondView,
    registered: Registered,
    as_of: AsOf = None,
    begin: Edge | None = None,
    end: Edge | None = None,
    most: int = ANSWER_ROWS,
) -> Answer:
    """The answer of a registered selection.

    Arguments:
        as_of: None, 'watermark', ('timestamp', microseconds) or ('epoch', number); see `moments.moment_of`.
        begin, end: take the place of the query's own edges, on every stream.
        most: rows that the answer may have.

    Raises:
        QueryError: the answer is too large, an expression fails on a row, an epoch is not kept, a stream was dropped.
    """
    pond.register.invoked(registered.id, pond.now())
    return _reached(pond.archives, registered, invoke_selection(ready_of(pond), registered, as_of, begin, end, most))


def select_once(
    pond: PondView,
    selection: RowQuery,
    as_of: AsOf = None,
    begin: Edge | None = None,
    end: Edge | None = None,
    most: int = ANSWER_ROWS,
) -> Answer:
    """The answer of a selection that is not registered: nothing is kept for it. As `evaluate`."""
    asked = AdHoc(selection)
    return _reached(pond.archives, asked, invoke_selection(ready_of(pond), asked, as_of, begin, end, most))


def _reached(archives: Archives, registered: Registered, answer: Answer) -> Answer:
    """An answer, unless nothing is left of what it was to be made of. Raises: QueryError."""
    selection = registered.selection
    streams = [s for side in selection.sides if (s := archives.catalog.stream(side.stream)) is not None]
    if len(streams) == 1 or selection.query.feeds:
        check_reach(archives, streams, answer.begin, answer.end, selection.query.estimated)
    return answer


def invoke_selection(
    ready: Ready,
    registered: Registered,
    as_of: AsOf = None,
    begin: Edge | None = None,
    end: Edge | None = None,
    most: int = ANSWER_ROWS,
) -> Answer:
    """As `evaluate`, with what is kept ready given."""
    for _ in range(20):
        try:
            return _invoke(ready, registered, as_of, begin, end, most)
        except Outdated:  # retention has removed rows since the view was taken
            continue
    raise QueryError(f"query '{registered.name}' cannot be answered: retention removes rows faster than they are read")


def _invoke(
    ready: Ready, registered: Registered, as_of: AsOf, begin: Edge | None, end: Edge | None, most: int
) -> Answer:
    plan = plan_for(ready, registered)
    snapshot, views = pinned_views(ready, plan)
    union = plan.query.feeds
    moment = moment_of(ready.pond.path, snapshot, [plan.streams] if union else plan.streams, as_of)
    stretches: list[Stretch] = []
    within = None
    for view, side in zip(views, plan.selection.sides, strict=True):
        span = side.span if begin is None and end is None else Span(begin or side.span.begin, end or side.span.end)
        if not union or "rows" not in (span.begin.kind, span.end.kind):
            stretches.append(stretch_of(ready.pond.archives, view, span, moment))
    if len(stretches) < len(views):  # the last rows are those of all streams together
        within = last_stretch(ready, plan.query.feeds, views, span, moment)
        stretches = [NOTHING if within is NOTHING else Stretch(within.begin, within.end)] * len(views)
    call = _Call(ready, registered, plan, views, stretches, moment, most, within)
    if not registered.id:
        return _answered(call.table(), moment, stretches[0])
    own = as_of is None and begin is None and end is None
    at = (tuple((v.rows, v.retained) for v in views), (*stretches, within))
    table = ready.keeper.answer(registered.id, registered.options.materialize, at, call.table, own)
    check_rows(table.num_rows, most)
    return _answered(table, moment, stretches[0])


def start_ready(pond: PondView) -> None:
    """Keep hot rows and complete answers ready after every publish, in a thread that ends with the pond."""
    ready = ready_of(pond)
    listed = pond.register.listing()
    for query in listed.filter(pc.equal(listed["materialize"], "complete"))["id"].to_pylist():
        ready.keeper.declare(query, "complete")
    queried = {s for column in ("stream", "second") for s in listed[column].drop_null().unique().to_pylist()}

    def then(snapshot: Snapshot) -> None:
        # Hot rows are the streams', not the queries': half of the memory is theirs.
        used, budget = sum(ready.statistics().values()) - ready.hot.nbytes, pond.settings.hot_bytes // 2
        ready.keeper.memory(used, budget)
        ready.keeper.published(snapshot.published.epoch, lambda query: _current(ready, query), ready.sets.shares())

    ready.hot.start(then, queried | {s for each in listed["others"].drop_null().to_pylist() for s in each})


def _current(ready: Ready, query: int) -> None:
    """Invoke a query, so that what it keeps is up to date; a dropped one is forgotten."""
    if query not in ready.pond.register:
        ready.forget(query)
        return
    invoke_selection(ready, ready.pond.register.get(query))


def _answered(table: pa.Table, moment: Moment, stretch: Stretch) -> Answer:
    begin, end = (None, None) if stretch is NOTHING else (stretch.begin, stretch.end)
    ends = moment.now if end is None else end
    final = ends is not None and moment.progress > ends
    now = NEVER if moment.now is None else moment.now
    return Answer(table, moment.epoch, now, moment.progress, begin, end, final)


def plan_for(ready: Ready, registered: Registered) -> Plan:
    """How answers of a query are made, kept for registered ones.

    Raises: QueryError when a stream of it was dropped.
    """
    selection = registered.selection
    found = ready.plans.get(registered.id) if registered.id else None
    if found is not None and (found.selection is selection or found.selection == selection):
        return found
    streams = []
    for side in selection.sides:
        stream = ready.pond.catalog.stream(side.stream)
        if stream is None:
            raise QueryError(f"stream '{side.stream}' was dropped")
        streams.append(stream)
    plan = plan_of(selection, tuple(streams))
    if registered.id:
        ready.plans.put(registered.id, plan)
    return plan


def pinned_views(ready: Ready, plan: Plan) -> tuple[Snapshot, list[View]]:
    """The newest publish record, and the streams of a plan as of it."""
    wanted = [s.id for s in plan.streams]
    snapshot = ready.hot.snapshot(wanted)
    try:
        return snapshot, [snapshot.views[s] for s in wanted]
    except KeyError:
        name = next(s.name for s in plan.streams if s.id not in snapshot.views)
        raise QueryError(f"stream '{name}' was dropped") from None


@dataclass
class _Call:
    """One invocation, everything resolved."""

    ready: Ready
    registered: Registered
    plan: Plan
    views: list[View]
    stretches: list[Stretch]
    moment: Moment
    most: int
    within: Stretch | None = None

    def wanted(self, number: int) -> Wanted:
        """Whose rows are asked for on one side."""
        option = self.registered.options.materialize
        query = self.registered.id
        kept = (self.ready.keeper.form(query, option)[0] if query else option) != "none"
        # Map tasks match per stream: with the same stream on both sides they cannot tell the sides apart.
        matched = len({s.id for s in self.plan.streams}) == len(self.plan.streams)
        side = self.plan.selection.sides[number]
        return Wanted(self.registered.id, side, number, self.moment.epoch, 0, kept, matched)

    def table(self) -> pa.Table:
        """The finished rows."""
        if self.plan.query.estimated:
            return self.reduced()
        if self.plan.query.feeds:
            return self.united()
        if len(self.views) > 1:
            return self.joined()
        return self.grouped() if self.plan.query.of_groups else self.plain()

    def reduced(self) -> pa.Table:
        """Rows or groups of one stream of which the past is read in part; what came since registration is whole."""
        query, view, stretch, side = self.plan.query, self.views[0], self.stretches[0], self.plan.selection.sides[0]
        if stretch is NOTHING:
            stretch = Stretch(0, -1)
        elif self.within is not None:
            stretch = self.within
        registered = self.registered.registered_epoch
        live_from = None if registered is None else registered + 1
        answer = reduced_answer(self.ready.pond, view, query, side, stretch, self.moment, live_from)
        check_rows(answer.num_rows, self.most)
        return answer

    def rows(self, number: int, columns: tuple[str, ...], most: int) -> pa.Table | None:
        """A side's matching rows in total order with `columns`, from the archive and from hot blocks."""
        older, found = self._parts(number, columns, most)
        tables = [] if older is None else [older.select(list(columns))]
        if found:
            tables.append(in_order(found, columns))
        return pa.concat_tables(tables) if tables else None

    def _parts(
        self, number: int, columns: tuple[str, ...], most: int
    ) -> tuple[pa.Table | None, list[tuple[HotBlock, Rows]]]:
        view, stretch, wanted = self.views[number], self.stretches[number], self.wanted(number)
        if stretch is NOTHING or not wanted.side.boxes:
            return None, []
        found = hot_parts(view, matcher(self.ready.sets, view, wanted), hot_stretch(view, stretch))
        count = sum(len(rows) for _, rows in found)
        check_rows(count, most)
        older = archive_rows(self.ready.pond.archives, view, wanted, stretch, columns, most - count)
        return older, found

    def plain(self) -> pa.Table:
        """Rows of one stream."""
        plan = self.plan
        if plan.query.limit == 0:
            return plan.empty
        columns = plan.columns if plan.direct is None else tuple(dict.fromkeys(plan.direct))
        # LIMIT and DISTINCT leave less than what is read.
        most = ANSWER_ROWS if plan.query.limit is not None or plan.query.distinct else self.most
        # A table needs a column to know how many rows it has.
        table = self.rows(0, columns or ("_id",), most)
        if table is None:
            return plan.empty
        answer = plan.answer(table)
        check_rows(answer.num_rows, self.most)
        return answer

    def grouped(self) -> pa.Table:
        """Groups over the matching rows of one stream."""
        query, view, stretch = self._groups, self.views[0], self.stretches[0]
        if stretch is NOTHING:
            return aggregate_rows(query, view.stream, ())
        if self._much_is_cold():
            return self._from_archive()
        columns, wanted = self.plan.columns, self.wanted(0)
        older = archive_rows(self.ready.pond.archives, view, wanted, stretch, columns, ANSWER_ROWS)
        cold = () if older is None else (older,)
        hot, matching = hot_stretch(view, stretch), matcher(self.ready.sets, view, wanted)
        if wanted.query and wanted.keep and self.moment.epoch >= view.epoch:
            answer = self.ready.trees.answer(wanted.query, query, view.stream, view.blocks, matching, hot, cold)[0]
        else:
            names = tuple(dict.fromkeys([*columns, view.stream.options.time, "_id"]))
            found = hot_parts(view, matching, hot)
            answer = aggregate_rows(query, view.stream, [*cold, *([in_order(found, names)] if found else [])])
        check_rows(answer.num_rows, self.most)
        return answer

    def _much_is_cold(self) -> bool:
        """Whether so much lies behind the horizon that a job should aggregate it where it is read."""
        return cold_rows(self.ready.pond.storage, self.views[0], self.stretches[0], self.moment.epoch) > QUICK_ROWS

    def _from_archive(self) -> pa.Table:
        """Groups over the whole stretch, all of it read from the archive by a background job."""
        wanted = archive_range(self.views[0], self.stretches[0], self.moment.epoch)
        query = replace(self._groups, where=_tried(self.plan.selection.sides[0]))
        return whole(self.ready.pond, Asked(self.views[0].stream, query, wanted), Scan())[0]

    @property
    def _groups(self) -> GroupScan:
        """What is asked, of who asks for groups."""
        assert self.plan.query.of_groups
        return self.plan.query

    def united(self) -> pa.Table:
        """Rows of a union, or groups over them."""
        plan, query = self.plan, self.plan.query
        first = plan.streams[0]
        cold = sum(cold_rows(self.ready.pond.storage, v, s, self.moment.epoch) for v, s in self._pairs)
        if query.of_groups and self.within is None and cold > QUICK_ROWS:
            ranges = [archive_range(v, s, self.moment.epoch) for v, s in self._pairs]
            asked = Asked(first, replace(query, where=_tried(plan.selection.sides[0])), ranges)
            return whole(self.ready.pond, asked, Scan())[0]
        most = ANSWER_ROWS if query.of_groups or query.limit is not None or query.distinct else self.most
        parts = []
        for number in range(len(query.feeds)):
            names = own_columns(query, self.views[number].stream, plan.columns)
            rows = self.rows(number, (*names, "_id", "_bound"), most)
            if rows is not None:
                parts.append(entered(query, first, self.views[number].stream, rows, self.within))
        table = together(parts, first)
        check_rows(0 if table is None else table.num_rows, most)
        if query.of_groups:
            return aggregate_rows(query, first, () if table is None else [table])
        answer = plan.empty if table is None else plan.answer(table)
        check_rows(answer.num_rows, self.most)
        return answer

    @property
    def _pairs(self) -> list[tuple[View, Stretch]]:
        return list(zip(self.views, self.stretches, strict=True))

    def joined(self) -> pa.Table:
        """Joined rows of several streams."""
        streams = self.plan.streams
        pairs = len(streams) == 2 and self.wanted(0).keep and self.registered.id
        if pairs and self.moment.epoch >= self.views[0].epoch:
            kept = self._from_pairs((streams[0], streams[1]))
            if kept is not None:
                return kept
        tables = []
        for number, stream in enumerate(streams):
            names = [*join_columns(self.plan.selection, streams, number), stream.options.time, "_id"]
            tables.append(self.rows(number, tuple(dict.fromkeys(names)), ANSWER_ROWS))
        return join_rows(self.plan.selection, streams, tables, self.most)

    def _from_pairs(self, streams: tuple[StreamDefinition, StreamDefinition]) -> pa.Table | None:
        """The answer from kept pairs, where they can serve."""
        if any(s is NOTHING for s in self.stretches):
            return None
        sides = []
        for number, view in enumerate(self.views):
            match = matcher(self.ready.sets, view, self.wanted(number))
            floor = max(view.horizon, view.retained)
            sides.append(SideView(view.blocks, match, view.epoch, None if floor <= NEVER else floor))
        stretches = (self.stretches[0], self.stretches[1])
        selection = self.plan.selection
        pair = (sides[0], sides[1])
        return self.ready.pairs.answer(self.registered.id, selection, streams, pair, stretches, self.most)


def _tried(side: Side) -> Expression | None:
    """A side's condition for a job over the archive: a row on which it fails does not match."""
    return None if side.where is None else side.where.within("coalesce(TRY(", "), false)", "BOOLEAN")
