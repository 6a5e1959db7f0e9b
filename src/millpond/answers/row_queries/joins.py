"""Two-stream selections: each side's matching rows joined set-at-a-time on the join factor (P7).

`join_rows` is the whole answer as a function of both sides' rows; `pair_caches.py` keeps matching pairs between
invocations. Pairs are ordered by (earliest constituent time, left id, right id).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millpond.answers.archive_jobs import ANSWER_ROWS
from millpond.answers.row_queries.join_keys import key_values
from millpond.answers.row_queries.pairing import Index
from millpond.answers.row_queries.trees import FAULTS, aggregate_rows, order_matters
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, query_ordered
from millpond.synopses.blocks import event_times
from millpond.synopses.finish import empty_answers
from millpond.synopses.partials.specs import as_declared, casts_of
from millpond.synopses.partners.finding import Matches
from millpond.synopses.partners.keys import numbers
from millpond.synopses.partners.orders import Ints
from millpond.synopses.tolerance import one_line
from millpond.types import (
    Column,
    GroupScan,
    JoinFactor,
    RowQuery,
    RowScan,
    StreamDefinition,
    StreamOptions,
    columns_read,
)

#: Pairs that satisfy the join factor, before further conditions, that an invocation may look at.
CANDIDATES = 500_000_000

#: Joined rows that are made at a time.
JOINED_AT_ONCE = 262_144

#: Columns of joined rows beside "0.…" and "1.…": the earliest and the latest constituent time.
EARLIEST, LATEST = "_earliest", "_latest"


@dataclass(frozen=True)
class Places:
    """Pairs as row numbers of the left and of the right table, in the order of joined rows."""

    left: Ints
    right: Ints

    def __len__(self) -> int:
        return len(self.left)


def joined_stream(streams: tuple[StreamDefinition, StreamDefinition]) -> StreamDefinition:
    """The joined rows as a stream: columns "0.column" and "1.column"; its event time is the earliest of both."""
    columns = tuple(Column(f"{i}.{c.name}", c.type) for i, s in enumerate(streams) for c in s.all_columns)
    times = (Column(EARLIEST, "TIMESTAMP"), Column(LATEST, "TIMESTAMP"))
    return StreamDefinition("joined", (*columns, *times), StreamOptions(time=EARLIEST))


def join_rows(
    selection: RowQuery,
    streams: tuple[StreamDefinition, StreamDefinition],
    left: pa.Table | None,
    right: pa.Table | None,
    most: int = ANSWER_ROWS,
) -> pa.Table:
    """The answer of a two-stream selection.

    Arguments:
        selection: with two sides; `join` None pairs every row with every row.
        streams: the streams of side 0 and side 1 (the same one twice for a self join).
        left, right: each side's matching rows in its own window, in total order, with event time and `_id` and all
            columns that `join_columns` names; None: no row.
        most: rows that the answer may have.

    Returns:
        The select list's columns: plain rows in the order of pairs or as ORDER BY says, or groups.

    Raises:
        QueryError: too many pairs, said before they are made, or an expression fails on a pair.
    """
    if left is None or right is None or not left.num_rows or not right.num_rows:
        return answer_of(selection, streams, left, right, Places(np.empty(0, np.int64), np.empty(0, np.int64)), most)
    query = selection.query
    try:
        if query.distinct if isinstance(query, RowScan) else not order_matters(query, EARLIEST):
            # The order of pairs does not show, so nothing but one piece is in memory.
            pieces = pairs_of(selection, streams, left, right)
            tables = (joined_rows(streams, left, right, p, needed(selection, streams), start) for start, p in pieces)
            if isinstance(query, GroupScan):
                return aggregate_rows(query, joined_stream(streams), tables)
            return _plain(selection, joined_stream(streams), tables, most)
        found: list[Places] = []
        total = 0
        for _, piece in pairs_of(selection, streams, left, right, None if query.where or query.limit else most):
            total += len(piece)
            if total > most:
                raise _too_many(f"more than {most} pairs")
            found.append(Places(piece.left.astype(np.int32), piece.right.astype(np.int32)))
        places = _in_order(streams, left, right, found)
    except FAULTS as error:
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    return answer_of(selection, streams, left, right, places, most)


def answer_of(
    selection: RowQuery,
    streams: tuple[StreamDefinition, StreamDefinition],
    left: pa.Table | None,
    right: pa.Table | None,
    places: Places,
    most: int = ANSWER_ROWS,
) -> pa.Table:
    """The answer from pairs that satisfy all conditions, in order: groups, select list, DISTINCT, ORDER BY, LIMIT."""
    query, stream = selection.query, joined_stream(streams)
    columns = needed(selection, streams)

    def pieces() -> Iterator[pa.Table]:
        if left is None or right is None:
            return
        for start in range(0, len(places), JOINED_AT_ONCE):
            part = Places(places.left[start : start + JOINED_AT_ONCE], places.right[start : start + JOINED_AT_ONCE])
            yield joined_rows(streams, left, right, part, columns, start)

    if isinstance(query, GroupScan):
        return aggregate_rows(query, stream, pieces())
    if query.limit is not None and not query.order_by and not query.distinct:
        wanted = query.limit + query.offset
        places = Places(places.left[:wanted], places.right[:wanted])
    try:
        return _plain(selection, stream, pieces(), most)
    except FAULTS as error:
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error


def join_columns(selection: RowQuery, streams: tuple[StreamDefinition, StreamDefinition], side: int) -> list[str]:
    """The columns that the rows of one side must have, event time and `_id` included."""
    stream = streams[side]
    read = columns_read(*selection.expressions)
    factor = None if selection.join is None else (selection.join.left, selection.join.right)[side]
    own = columns_read(factor) | {stream.options.time}
    names = [c.name for c in stream.all_columns if f"{side}.{c.name}" in read or c.name in own]
    return [*names, "_id"]


def needed(selection: RowQuery, streams: tuple[StreamDefinition, StreamDefinition]) -> tuple[list[str], list[str]]:
    """The columns of each side that the joined rows must have."""
    read = columns_read(*selection.expressions)
    left, right = ([c.name for c in s.all_columns if f"{i}.{c.name}" in read] for i, s in enumerate(streams))
    return left, right


def pairs_of(
    selection: RowQuery,
    streams: tuple[StreamDefinition, StreamDefinition],
    left: pa.Table,
    right: pa.Table,
    most: int | None = None,
) -> Iterator[tuple[int, Places]]:
    """Pairs that satisfy the join factor and the rest of the condition, in pieces: (ordinal of its first pair, piece).

    Arguments:
        most: pairs that are allowed, when no further condition takes some away; None: only `CANDIDATES` counts.

    Raises:
        QueryError: there are too many, before they are made.
    """
    candidates = _candidates(selection.join, streams, left, right)
    total = int(candidates.counts().sum())
    if most is not None and total > most:
        raise _too_many(f"{total} pairs")
    if total > CANDIDATES:
        raise _too_many(f"the join factor alone gives {total} pairs", CANDIDATES)
    ordinal = 0
    for piece in itertools.starmap(Places, candidates.pieces(JOINED_AT_ONCE)):
        if selection.query.where:
            at = satisfying(selection, streams, left, right, piece)
            piece = Places(piece.left[at], piece.right[at])
        if len(piece):
            yield ordinal, piece
            ordinal += len(piece)


def _too_many(what: str, most: int | None = None) -> QueryError:
    limit = f", at most {most} are allowed" if most is not None else ""
    return QueryError(f"the answer has too many rows: {what}{limit}; narrow a window or add a condition")


def _candidates(
    join: JoinFactor | None, streams: tuple[StreamDefinition, StreamDefinition], left: pa.Table, right: pa.Table
) -> Matches:
    """For each left row the right rows with which it satisfies the join factor."""
    if join is None:
        none, rows = np.zeros(left.num_rows, np.int64), np.zeros(right.num_rows, np.int64)
        return Index.of("=", rows).partners(none)
    keys, some = numbers(
        key_values(streams[0], left, join.left, join.kind), key_values(streams[1], right, join.right, join.kind)
    )
    known, rows = np.flatnonzero(some[0]), np.flatnonzero(some[1])
    found = Index.of(join.operator, keys[1][rows], rows).partners(keys[0][known])
    return found if len(known) == left.num_rows else found.spread(known, left.num_rows)


def satisfying(
    selection: RowQuery,
    streams: tuple[StreamDefinition, StreamDefinition],
    left: pa.Table,
    right: pa.Table,
    places: Places,
) -> Ints:
    """Numbers of the pairs on which the rest of the condition is true; where it fails it counts as not true."""
    where = selection.query.where
    assert where is not None
    stream = joined_stream(streams)
    table = joined_rows(streams, left, right, places, needed(conditions_of(selection), streams), 0)
    sql = f"SELECT _id FROM {_source(stream, table)} WHERE "
    try:
        found = query_ordered(connection(), f"{sql}({where})", joined=table)
    except duckdb.Error:
        found = query_ordered(connection(), f"{sql}TRY(({where}))", joined=table)
    return np.sort(found["_id"].to_numpy())


def conditions_of(selection: RowQuery) -> RowQuery:
    """The selection with its conditions only: no select list, groups or order."""
    query = selection.query
    return replace(selection, query=RowScan(stream=query.stream, select=(), where=query.where))


def _source(stream: StreamDefinition, table: pa.Table) -> str:
    return as_declared("joined", casts_of(stream), table.column_names)


def joined_rows(
    streams: tuple[StreamDefinition, StreamDefinition],
    left: pa.Table,
    right: pa.Table,
    places: Places,
    columns: tuple[Sequence[str], Sequence[str]],
    start: int,
) -> pa.Table:
    """Joined rows: columns "0.…" and "1.…", earliest and latest time, and `_id`, numbers from `start`."""
    arrays: dict[str, Any] = {}
    times = []
    for number, (table, rows) in enumerate(((left, places.left), (right, places.right))):
        taken = table.select(list(columns[number])).take(pa.array(rows))
        arrays |= {f"{number}.{name}": taken[name] for name in columns[number]}
        times.append(event_times(table, streams[number].options.time)[rows])
    arrays[EARLIEST] = pa.array(np.minimum(*times), pa.timestamp("us"))
    arrays[LATEST] = pa.array(np.maximum(*times), pa.timestamp("us"))
    arrays["_id"] = pa.array(np.arange(start, start + len(places)), pa.int64())
    return pa.table(arrays)


def _in_order(
    streams: tuple[StreamDefinition, StreamDefinition], left: pa.Table, right: pa.Table, found: Sequence[Places]
) -> Places:
    if not found:
        return Places(np.empty(0, np.int64), np.empty(0, np.int64))
    rows = np.concatenate([p.left for p in found]), np.concatenate([p.right for p in found])
    times = [event_times(t, s.options.time)[r] for t, s, r in zip((left, right), streams, rows, strict=True)]
    ids = [np.asarray(t["_id"].to_numpy(), np.int64)[r] for t, r in zip((left, right), rows, strict=True)]
    order = np.lexsort((ids[1], ids[0], np.minimum(*times)))
    return Places(rows[0][order], rows[1][order])


def _plain(selection: RowQuery, stream: StreamDefinition, pieces: Iterator[pa.Table], most: int) -> pa.Table:
    query = selection.query
    db = connection()
    shown = [quote(o.name) for o in query.select]
    outputs = [o.sql for o in query.select]
    order = [f"({t.expression}) AS __o{i}" for i, t in enumerate(query.order_by)]
    distinct = "DISTINCT " if query.distinct else ""
    hidden = [] if query.distinct else ["_id AS __n"]
    tables: list[pa.Table] = []
    for joined in pieces:
        sql = f"SELECT {distinct}{', '.join([*outputs, *order, *hidden])} FROM {_source(stream, joined)}"
        tables.append(query_ordered(db, sql, joined=joined))
    if not tables:
        return empty_answers(db, [Column(o.name, o.type) for o in query.select])
    table = pa.concat_tables(tables, promote_options="permissive")
    terms = [t.by(f"__o{i}") for i, t in enumerate(query.order_by)]
    terms += shown if query.distinct else ["__n"]
    limit = f" LIMIT {query.limit}" if query.limit is not None else ""
    limit += f" OFFSET {query.offset}" if query.offset else ""
    if query.distinct or query.order_by or limit:
        found = "(SELECT DISTINCT * FROM rows)" if query.distinct else "rows"
        sql = f"SELECT {', '.join(shown)} FROM {found} ORDER BY {', '.join(terms)}{limit}"
        table = query_ordered(db, sql, rows=table)
    if table.num_rows > most:
        raise _too_many(f"{table.num_rows} rows", most)
    return table.select([o.name for o in query.select])
