"""Subscriptions: answers in the order in which they are published, resumable by cursor without gap or double."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.finals import final_rows, final_until, spans
from millpond.answers.standing_answers import end_column, order_terms, read_log, spans_of
from millpond.catalog import Standing
from millpond.engine.pond_view import PondView
from millpond.manifests.records import Published
from millpond.progress import NEVER
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, query_table
from millpond.types import STATUS
from millpond.types.results import AnswerBatch, Cursor, Wanted

#: Answers that are read at a time, as long as they are of more than one epoch.
AT_ONCE = 250_000


def wanted_of(final: bool, status: str | None, since: Cursor | str | None) -> Wanted:
    """Which answers a subscriber asks for: by its arguments, else by the cursor it comes with.

    Raises: QueryError when they contradict each other.
    """
    if status not in (None, "all", "closed", "final"):
        raise QueryError(
            f"status = '{status}': 'closed' leaves out early answers, 'final' is what can no longer change"
        )
    if final and status not in (None, "final"):
        raise QueryError(f"final answers are those with status 'final', not '{status}'; leave one of the two out")
    asked = "final" if final else status
    cursor = Cursor.parse(since) if isinstance(since, str) else since
    if cursor is None or cursor == Cursor(0, 0, cursor.query):  # the beginning is the same for all
        return asked or "all"  # type: ignore[return-value]  # one of the words
    if asked is not None and asked != cursor.wanted:
        raise QueryError(f"the cursor {cursor} is of a subscription to {cursor.wanted} answers, not to {asked} ones")
    return cursor.wanted


def of_another(cursor: Cursor, query: int, name: str) -> QueryError:
    """The error for a cursor that another query gave."""
    what = f"the cursor {cursor} is of query {cursor.query}, and '{name}' is query {query}"
    return QueryError(f"{what}; leave the cursor out to begin with its first answer")


def subscribe(
    pond: PondView,
    name: str,
    since: Cursor | str | None,
    timeout: float | None,
    final: bool = False,
    status: str | None = None,
) -> Iterator[AnswerBatch]:
    """Iterate over a query's answers from `since` on (None: from the first), waiting for new ones.

    Ends when nothing new came for `timeout` seconds (None: waits for ever), or when the query is dropped.

    Arguments:
        final: only rows that can no longer change, each once, in order of the windows' ends.
        status: 'closed': no early answers; 'final': as `final`.
    """
    standing = pond.catalog.query(name)
    if standing is None:
        raise QueryError(f"there is no query '{name}'")
    wanted = wanted_of(final, status, since)
    cursor = Cursor.parse(since) if isinstance(since, str) else since
    if cursor is not None and cursor.query not in (0, standing.id, *standing.previous):
        raise of_another(cursor, standing.id, name)
    if cursor is None or cursor == Cursor(0, 0, cursor.query):
        cursor = Cursor(NEVER if wanted == "final" else 0, 0, standing.id, wanted)
    if cursor.query in standing.previous:
        columns = [*(c.name for c in standing.definition.columns), "op"]
        cursor = Cursor(cursor.epoch, 0, standing.id, wanted)
        empty = read_log(pond, standing, pond.published.epoch).select(columns)
        epoch = pond.published.epoch if wanted == "final" else cursor.epoch
        yield AnswerBatch(empty, cursor, epoch, False, replaced=True)
    done = NEVER
    while True:
        published = pond.published
        seen = published.epoch
        if wanted == "final":
            until = final_until(pond.catalog, standing, published)
            following = _final(pond, standing, cursor, published, until) if until > done else iter(())
            done = max(done, until)
        else:
            following = _published(pond, standing, cursor, seen)
        for batch in following:
            cursor = batch.cursor
            yield batch
        if wanted != "final" and seen > cursor.epoch:
            cursor = Cursor(seen, 0, standing.id, wanted)

        def more(seen: int = seen) -> bool:
            return pond.published.epoch > seen or standing.id not in pond.catalog.queries

        if not pond.epochs.wait(more, timeout) or standing.id not in pond.catalog.queries:
            return


def _published(pond: PondView, standing: Standing, cursor: Cursor, until: int) -> Iterator[AnswerBatch]:
    """What epochs up to `until` published, from a cursor on."""
    after = cursor.epoch - 1 if cursor.ordinal else cursor.epoch
    for number, rows in _epochs(pond, standing, after, until, cursor.wanted):
        total, rows = rows.num_rows, rows.slice(cursor.ordinal if number == cursor.epoch else 0)
        if rows.num_rows:
            backfilled = bool(rows["_backfilled"][0].as_py())
            place = Cursor(number, total, standing.id, cursor.wanted)
            yield AnswerBatch(rows.drop_columns(["_backfilled"]), place, number, backfilled)


def _final(
    pond: PondView, standing: Standing, cursor: Cursor, published: Published, until: int
) -> Iterator[AnswerBatch]:
    """What has become final until `until` behind a cursor: one batch per span of windows."""
    # The window that the cursor stands in may have been given in part.
    after, skipped = (cursor.epoch - 1 if cursor.ordinal else cursor.epoch), cursor.ordinal
    for last in spans(pond.archives, standing, after, until):
        rows = final_rows(pond, standing, after, last).slice(skipped)
        after, skipped = last, 0
        if rows.num_rows:
            cursor = final_cursor(rows, cursor)
            yield AnswerBatch(rows, cursor, published.epoch, False)


def final_cursor(rows: pa.Table, before: Cursor) -> Cursor:
    """The place behind `rows` of a subscription to final answers that stood at `before`."""
    if not rows.num_rows:
        return before
    ends = rows[end_column(rows)].cast(pa.int64())
    last = ends[-1].as_py()
    given = pc.sum(pc.equal(ends, last)).as_py()
    return Cursor(last, given + (before.ordinal if last == before.epoch else 0), before.query, "final")


def _epochs(
    pond: PondView, standing: Standing, after: int, until: int, wanted: Wanted = "all"
) -> Iterator[tuple[int, pa.Table]]:
    """(epoch, its answers in their order) of the epochs after < e <= until that have any."""
    shown = ", ".join([*(quote(c.name) for c in standing.definition.columns), "op"])
    order = order_terms(standing.definition)
    # Without the option `early` all answers are of closed windows, and there is no such column.
    only = f" AND {STATUS} = 'closed'" if wanted == "closed" and standing.definition.options.early is not None else ""
    for last in spans_of(pond.archives, standing, after, until, AT_ONCE):
        log = read_log(pond, standing, after, last)
        after = last
        for number in sorted(pc.unique(log["_epoch"]).to_pylist()):
            sql = f"SELECT {shown}, _backfilled FROM log WHERE _epoch = {number}{only} ORDER BY {order}"
            yield number, query_table(connection(), sql, log=log)
