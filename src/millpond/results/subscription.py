"""Subscriptions: answers in the order in which they are published, resumable by cursor without gap or double."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.engine.core import Core
from millpond.errors import QueryError
from millpond.results.answers import order_terms, quoted, read_log, spans_of
from millpond.synopses import connection, query_table

#: Answers that are read at a time, as long as they are of more than one epoch.
AT_ONCE = 250_000


@dataclass(frozen=True, order=True)
class Cursor:
    """A place in a query's published answers: after `ordinal` rows of epoch `epoch`.

    `query` is the query's id: a cursor of a dropped and recreated query is refused.
    """

    epoch: int = 0
    ordinal: int = 0
    query: int = 0

    def __str__(self) -> str:
        return f"{self.query}:{self.epoch}:{self.ordinal}"

    @staticmethod
    def parse(text: str) -> Cursor:
        """The cursor from its text.

        >>> Cursor.parse("3:7:2")
        Cursor(epoch=7, ordinal=2, query=3)
        """
        try:
            query, epoch, ordinal = (int(part) for part in text.split(":"))
        except ValueError:
            raise QueryError(f"'{text}' is not a cursor; pass one that a batch of answers carried") from None
        return Cursor(epoch, ordinal, query)


@dataclass(frozen=True)
class AnswerBatch:
    """Rows that one epoch published for a query.

    rows: the query's columns, then `op` ('+' a row, '-' a row that no longer holds). cursor: where to go on after it.
    backfilled: the rows are older windows that a registration or RESUME caught up on.
    replaced: a marker without rows: CREATE OR REPLACE made a new version, whose answers follow.
    """

    rows: pa.Table
    cursor: Cursor
    epoch: int
    backfilled: bool
    replaced: bool = False


def subscribe(core: Core, name: str, since: Cursor | str | None, timeout: float | None) -> Iterator[AnswerBatch]:
    """Iterate over a query's answers from `since` on (None: from the first), waiting for new ones.

    Ends when nothing new came for `timeout` seconds (None: waits for ever), or when the query is dropped.
    """
    standing = core.catalog.query(name)
    if standing is None:
        raise QueryError(f"there is no query '{name}'")
    cursor = Cursor.parse(since) if isinstance(since, str) else since or Cursor(0, 0, standing.id)
    if cursor.query not in (0, standing.id, *standing.previous):
        raise QueryError(f"the cursor {cursor} belongs to an earlier query '{name}'; subscribe from the start")
    epoch, ordinal = cursor.epoch, cursor.ordinal
    if cursor.query in standing.previous:
        ordinal = 0
        empty = read_log(core, standing, core.published.epoch).select(
            [*(c.name for c in standing.definition.columns), "op"]
        )
        yield AnswerBatch(empty, Cursor(epoch, 0, standing.id), epoch, False, replaced=True)
    while True:
        until = core.published.epoch
        for number, rows in _epochs(core, standing, epoch - 1 if ordinal else epoch, until):
            skipped = ordinal if number == epoch else 0
            total, rows = rows.num_rows, rows.slice(skipped)
            if rows.num_rows:
                backfilled = bool(rows["_backfilled"][0].as_py())
                yield AnswerBatch(
                    rows.drop_columns(["_backfilled"]), Cursor(number, total, standing.id), number, backfilled
                )
        epoch, ordinal = max(epoch, until), 0 if until > epoch else ordinal
        seen = until

        def more(seen: int = seen) -> bool:
            return core.published.epoch > seen or standing.id not in core.catalog.queries

        if not core.wait(more, timeout) or standing.id not in core.catalog.queries:
            return


def _epochs(core: Core, standing: Standing, after: int, until: int) -> Iterator[tuple[int, pa.Table]]:
    """(epoch, its answers in their order) of the epochs after < e <= until that have any."""
    shown = ", ".join([*(quoted(c.name) for c in standing.definition.columns), "op"])
    order = order_terms(standing.definition)
    for last in spans_of(core, standing, after, until, AT_ONCE):
        log = read_log(core, standing, after, last)
        after = last
        for number in sorted(pc.unique(log["_epoch"]).to_pylist()):
            sql = f"SELECT {shown}, _backfilled FROM log WHERE _epoch = {number} ORDER BY {order}"
            yield number, query_table(connection(), sql, log=log)
