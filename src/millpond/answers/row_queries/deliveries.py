"""Subscriptions of selections: the rows that match, epoch by epoch as they are published, resumable by cursor.

What an epoch delivers is a function of that epoch's rows, so that nothing needs to be kept for a client that is away:
it comes back with its cursor and gets what it has missed from hot rows and the archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from millpond.answers.archive_jobs import ANSWER_ROWS
from millpond.answers.row_queries.hot import Outdated, View
from millpond.answers.row_queries.matched_rows import (
    Wanted,
    archive_rows,
    check_rows,
    hot_parts,
    hot_stretch,
    in_order,
    matcher,
)
from millpond.answers.row_queries.plans import Plan, plan_of
from millpond.answers.row_queries.ready import Ready, ready_of
from millpond.answers.row_queries.selection import pinned_views, plan_for
from millpond.answers.row_queries.stretch import Stretch
from millpond.answers.row_queries.united import entered, own_columns, together
from millpond.answers.subscription import of_another
from millpond.catalog.register_lines import Registered
from millpond.engine.pond_view import PondView
from millpond.support.errors import QueryError
from millpond.synopses.blocks import event_times
from millpond.types import RowQuery
from millpond.types.results import AnswerBatch, Cursor

#: Rows that are looked up at a time, as long as they are of more than one epoch.
AT_ONCE = 1_000_000


def subscribe_selection(
    pond: PondView, query: int, since: Cursor | str | None = None, timeout: float | None = None
) -> Iterator[AnswerBatch]:
    """Iterate over the rows that match a selection, in the order in which epochs published them.

    Every matching row comes once, however late it is. Constant edges of the window apply, edges that move with NOW
    don't; DISTINCT, ORDER BY and LIMIT are for invocations. While the query is paused nothing is delivered, and
    what it missed comes when it is resumed.

    Arguments:
        since: a cursor of an earlier batch; 'id:0:0' starts with the oldest row; None: rows after the registration.
        timeout: end when nothing new came for so many seconds; None: wait for ever.
    Raises:
        QueryError: there is no such query, it has groups or joins, or the cursor is another query's.
    """
    registered = pond.register.get(query)
    grouped = registered.selection.query.of_groups
    if grouped or (len(registered.selection.sides) > 1 and not registered.selection.query.feeds):
        what = "groups" if grouped else "pairs of rows"
        raise QueryError(f"query '{registered.name}' answers with {what}, which an epoch can change: invoke it instead")
    return _deliver(pond, registered, _start(registered, since), timeout)


def _start(registered: Registered, since: Cursor | str | None) -> Cursor:
    cursor = Cursor.parse(since) if isinstance(since, str) else since
    if cursor is None:
        return Cursor(registered.registered_epoch, 0, registered.id)
    if cursor.query not in (0, registered.id, *registered.previous):
        raise of_another(cursor, registered.id, registered.name)
    return cursor


def _deliver(pond: PondView, registered: Registered, cursor: Cursor, timeout: float | None) -> Iterator[AnswerBatch]:
    ready = ready_of(pond)
    query = registered.id
    selection = _without_tail(registered.selection)
    plan = plan_of(selection, plan_for(ready, registered).streams)
    epoch, ordinal = cursor.epoch, cursor.ordinal
    if cursor.query in registered.previous:
        ordinal = 0
        yield AnswerBatch(_with_op(plan.empty), Cursor(epoch, 0, query), epoch, False, replaced=True)
    while True:
        until = epoch
        if query in pond.register and pond.register.get(query).status == "live":
            until = ready.hot.snapshot([plan.streams[0].id]).published.epoch
            after = epoch - 1 if ordinal else epoch
            for number, rows in _epochs(ready, query, plan, after, until):
                skipped = ordinal if number == epoch else 0
                if rows.num_rows > skipped:
                    end = Cursor(number, rows.num_rows, query)
                    yield AnswerBatch(_with_op(plan.answer(rows.slice(skipped))), end, number, False)
            epoch, ordinal = max(epoch, until), 0 if until > epoch else ordinal

        def more(seen: int = epoch) -> bool:
            if query not in pond.register:
                return True
            return pond.published.epoch > seen and pond.register.get(query).status == "live"

        if not pond.epochs.wait(more, timeout) or query not in pond.register:
            return


def _epochs(ready: Ready, query: int, plan: Plan, after: int, until: int) -> Iterator[tuple[int, pa.Table]]:
    """(epoch, its matching rows in total order) of the epochs after < e <= until that have any."""
    while after < until:
        last, most = until, AT_ONCE
        while True:
            try:
                rows = _rows(ready, query, plan, after, last, most if last > after + 1 else ANSWER_ROWS)
                break
            except Outdated:
                continue
            except _TooMany:
                last = after + (last - after) // 2
        after = last
        if rows is None:
            continue
        epochs = np.asarray(rows["_epoch"].to_numpy(), np.int64)
        order = np.lexsort((rows["_id"].to_numpy(), event_times(rows, plan.streams[0].options.time), epochs))
        rows, epochs = rows.take(pa.array(order)), epochs[order]
        numbers, starts = np.unique(epochs, return_index=True)
        for number, start, stop in zip(numbers, starts, [*starts[1:], len(epochs)], strict=True):
            yield int(number), rows.slice(int(start), int(stop - start))


class _TooMany(Exception):
    """More rows than shall be in memory at once."""


def _rows(ready: Ready, query: int, plan: Plan, after: int, until: int, most: int) -> pa.Table | None:
    """The matching rows of the epochs after < e <= until."""
    _, views = pinned_views(ready, plan)
    if not plan.query.feeds:
        wanted = Wanted(query, plan.selection.sides[0], 0, until, after)
        return _rows_of(ready, plan, views[0], wanted, plan.columns, most)
    parts: list[pa.Table] = []
    for number, (view, side) in enumerate(zip(views, plan.selection.sides, strict=True)):
        wanted = Wanted(query, side, number, until, after)
        names = (*own_columns(plan.query, view.stream, plan.columns), "_bound")
        rows = _rows_of(ready, plan, view, wanted, names, most - sum(p.num_rows for p in parts))
        if rows is not None:
            parts.append(entered(plan.query, plan.streams[0], view.stream, rows))
    return together(parts, plan.streams[0])


def _rows_of(ready: Ready, plan: Plan, view: View, wanted: Wanted, names: Sequence[str], most: int) -> pa.Table | None:
    """The matching rows of one stream."""
    after = wanted.after
    stretch = _constant(plan.selection)
    columns = list(dict.fromkeys([*names, view.stream.options.time, "_id", "_epoch"]))
    found = hot_parts(view, matcher(ready.sets, view, wanted), hot_stretch(view, stretch), after)
    count = sum(len(rows) for _, rows in found)
    if most < ANSWER_ROWS and count > most:
        raise _TooMany
    check_rows(count, most)
    try:
        older = archive_rows(ready.pond.archives, view, wanted, stretch, columns, most - count)
    except QueryError:
        if most < ANSWER_ROWS:
            raise _TooMany from None
        raise
    tables = [] if older is None else [older.select(columns)]
    if found:
        tables.append(in_order(found, columns))
    return pa.concat_tables(tables) if tables else None


def _constant(selection: RowQuery) -> Stretch:
    """The part of a window that does not move."""
    span = selection.sides[0].span
    return Stretch(span.begin.constant, span.end.constant)


def _without_tail(selection: RowQuery) -> RowQuery:
    query = replace(selection.query, distinct=False, order_by=(), limit=None, offset=0)
    return replace(selection, query=query)


def _with_op(rows: pa.Table) -> pa.Table:
    """A matching row never ceases to match: every one is a '+'. Rows of answers may have an `op` of their own."""
    if "op" in rows.column_names:
        return rows
    return rows.append_column("op", pa.array(["+"] * rows.num_rows, pa.string()))
