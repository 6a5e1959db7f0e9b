"""Selections over several streams: each side's matching rows joined set-at-a-time on the join factors (P7).

`join_rows` is the whole answer as a function of all sides' rows; `pair_caches.py` keeps matching pairs of two streams
between invocations. Joined rows are ordered by (earliest constituent time, ids of side 0, 1, …). Of three streams and
more one after the other comes in, each by a comparison with one that is there; what is joined so far goes on in pieces,
so that memory depends on the answer and not on what was joined on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    Expression,
    JoinFactor,
    RowQuery,
    StreamDefinition,
    StreamOptions,
    columns_read,
)

#: Rows that satisfy a join factor, before further conditions, that an invocation may look at.
CANDIDATES = 500_000_000

#: Joined rows that are made at a time.
JOINED_AT_ONCE = 262_144

#: Columns of joined rows beside "0.…", "1.…", …: the earliest and the latest constituent time.
EARLIEST, LATEST = "_earliest", "_latest"


#: What joined rows are made from: the streams of the sides, and a table of rows of each.
Streams = Sequence[StreamDefinition]
Tables = Sequence[pa.Table]


@dataclass(frozen=True)
class Places:
    """Joined rows as row numbers of each side's table, by side; sides that have not come in yet are missing.

    >>> Places({0: np.array([4, 5]), 1: np.array([6, 7])}).take(np.array([1])).rows[1].tolist()
    [7]
    """

    rows: Mapping[int, Ints]

    def __len__(self) -> int:
        return len(self.rows[0])

    def take(self, at: Ints | slice) -> Places:
        """Some of the joined rows."""
        return Places({side: rows[at] for side, rows in self.rows.items()})

    def small(self) -> Places:
        """In half of the memory."""
        return Places({side: rows.astype(np.int32) for side, rows in self.rows.items()})

    @staticmethod
    def none(sides: int) -> Places:
        """No joined row."""
        return Places(dict.fromkeys(range(sides), np.empty(0, np.int64)))

    @staticmethod
    def together(parts: Sequence[Places], sides: int) -> Places:
        """All of several."""
        if not parts:
            return Places.none(sides)
        return Places({side: np.concatenate([p.rows[side] for p in parts]) for side in range(sides)})


def joined_stream(streams: Streams) -> StreamDefinition:
    """The joined rows as a stream: columns "0.column", "1.column", …; its event time is the earliest of all."""
    columns = tuple(Column(f"{i}.{c.name}", c.type) for i, s in enumerate(streams) for c in s.all_columns)
    times = (Column(EARLIEST, "TIMESTAMP"), Column(LATEST, "TIMESTAMP"))
    return StreamDefinition("joined", (*columns, *times), StreamOptions(time=EARLIEST))


def join_rows(
    selection: RowQuery, streams: Streams, tables: Sequence[pa.Table | None], most: int = ANSWER_ROWS
) -> pa.Table:
    """The answer of a selection over several streams.

    Arguments:
        selection: with two sides and more; without join factors every row is joined with every row.
        streams: the streams of side 0, side 1, … (the same one twice for a self join).
        tables: each side's matching rows in its own window, in total order, with event time and `_id` and all columns
            that `join_columns` names; None: no row.
        most: rows that the answer may have.

    Returns:
        The select list's columns: plain rows in the order of joined rows or as ORDER BY says, or groups.

    Raises:
        QueryError: too many joined rows, said before they are made, or an expression fails on one.
    """
    sides = [t for t in tables if t is not None and t.num_rows]
    if len(sides) < len(tables):
        return answer_of(selection, streams, (), Places.none(len(streams)), most)
    query = selection.query
    try:
        if not order_matters(query, EARLIEST) if query.of_groups else query.distinct:
            # The order of joined rows does not show, so nothing but one piece is in memory.
            pieces = joined_places(selection, streams, sides)
            made = (joined_rows(streams, sides, p, needed(selection, streams), start) for start, p in pieces)
            if query.of_groups:
                return aggregate_rows(query, joined_stream(streams), made)
            return _plain(selection, joined_stream(streams), made, most)
        found: list[Places] = []
        total = 0
        for _, piece in joined_places(selection, streams, sides, None if query.where or query.limit else most):
            total += len(piece)
            if total > most:
                raise _too_many(f"more than {most} joined rows")
            found.append(piece.small())
        places = _in_order(streams, sides, found)
    except FAULTS as error:
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    return answer_of(selection, streams, sides, places, most)


def answer_of(
    selection: RowQuery, streams: Streams, tables: Tables, places: Places, most: int = ANSWER_ROWS
) -> pa.Table:
    """The answer from joined rows in order that satisfy all conditions: groups, select list, DISTINCT, ORDER BY, LIMIT.

    Arguments:
        tables: of each side; none of any where there is no joined row.
    """
    query, stream = selection.query, joined_stream(streams)
    columns = needed(selection, streams)

    def pieces() -> Iterator[pa.Table]:
        for start in range(0, len(places), JOINED_AT_ONCE):
            part = places.take(slice(start, start + JOINED_AT_ONCE))
            yield joined_rows(streams, tables, part, columns, start)

    if query.of_groups:
        return aggregate_rows(query, stream, pieces())
    if query.limit is not None and not query.order_by and not query.distinct:
        places = places.take(slice(query.limit + query.offset))
    try:
        return _plain(selection, stream, pieces(), most)
    except FAULTS as error:
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error


def join_columns(selection: RowQuery, streams: Streams, side: int) -> list[str]:
    """The columns that the rows of one side must have, event time and `_id` included."""
    stream = streams[side]
    own = selection.reads_joined(side) | {stream.options.time}
    return [*(c.name for c in stream.all_columns if c.name in own), "_id"]


def needed(selection: RowQuery, streams: Streams) -> list[list[str]]:
    """The columns of each side that the joined rows must have."""
    read = columns_read(*selection.expressions)
    return [[c.name for c in s.all_columns if f"{i}.{c.name}" in read] for i, s in enumerate(streams)]


def joined_places(
    selection: RowQuery, streams: Streams, tables: Tables, most: int | None = None
) -> Iterator[tuple[int, Places]]:
    """Joined rows that satisfy all join factors and conditions, in pieces: (ordinal of its first one, piece).

    Arguments:
        most: joined rows that are allowed, when no further condition takes some away; None: only `CANDIDATES` counts.

    Raises:
        QueryError: there are too many, before they are made.
    """
    found: Iterator[Places] = iter([Places({0: np.arange(tables[0].num_rows)})])
    factors = selection.factors or (None,)
    for number, factor in enumerate(factors):
        last = number == len(factors) - 1
        where = selection.query.where if last or factor is None else factor.where
        found = _step(found, _Partners(factor, streams, tables), most if last else None)
        if where is not None:
            found = _only(found, where, streams, tables)
    ordinal = 0
    for piece in found:
        if len(piece):
            yield ordinal, piece
            ordinal += len(piece)


def _step(found: Iterator[Places], partners: _Partners, most: int | None) -> Iterator[Places]:
    """Joined rows with those of one more side, in pieces."""
    total = 0
    for part in found:
        matches = partners.of(part)
        total += int(matches.counts().sum())
        if most is not None and total > most:
            raise _too_many(f"{total} joined rows")
        if total > CANDIDATES:
            raise _too_many(f"the join factor alone gives {total} joined rows", CANDIDATES)
        for at, rows in matches.pieces(JOINED_AT_ONCE):
            yield Places({**part.take(at).rows, partners.side: rows})


def _only(found: Iterator[Places], where: Expression, streams: Streams, tables: Tables) -> Iterator[Places]:
    """The joined rows on which a condition is true."""
    for piece in found:
        yield piece.take(satisfying(where, streams, tables, piece))


def _too_many(what: str, most: int | None = None) -> QueryError:
    limit = f", at most {most} are allowed" if most is not None else ""
    return QueryError(f"the answer has too many rows: {what}{limit}; narrow a window or add a condition")


class _Partners:
    """The rows of one side that satisfy its join factor with rows that are there; without one all of them do."""

    def __init__(self, factor: JoinFactor | None, streams: Streams, tables: Tables) -> None:
        first, self.side = (0, 1) if factor is None else (factor.first, factor.second)
        self.first = first
        if factor is None:
            self.keys, self.some = np.zeros(tables[first].num_rows, np.int64), np.ones(tables[first].num_rows, bool)
            self.index = Index.of("=", np.zeros(tables[self.side].num_rows, np.int64))
            return
        asked = ((first, factor.left), (self.side, factor.right))
        keys, some = numbers(*(key_values(streams[n], tables[n], value, factor.kind) for n, value in asked))
        rows = np.flatnonzero(some[1])
        self.keys, self.some = keys[0], some[0]
        self.index = Index.of(factor.operator, keys[1][rows], rows)

    def of(self, part: Places) -> Matches:
        """Those of each joined row."""
        rows = part.rows[self.first]
        known = np.flatnonzero(self.some[rows])
        found = self.index.partners(self.keys[rows[known]])
        return found if len(known) == len(rows) else found.spread(known, len(rows))


def satisfying(where: Expression, streams: Streams, tables: Tables, places: Places) -> Ints:
    """Numbers of the joined rows on which a condition is true; where it fails it counts as not true."""
    stream = joined_stream(streams)
    read = columns_read(where)
    columns = [[c.name for c in s.all_columns if f"{i}.{c.name}" in read] for i, s in enumerate(streams)]
    table = joined_rows(streams, tables, places, columns, 0)
    sql = f"SELECT _id FROM {_source(stream, table)} WHERE "
    try:
        found = query_ordered(connection(), f"{sql}({where})", joined=table)
    except duckdb.Error:
        found = query_ordered(connection(), f"{sql}TRY(({where}))", joined=table)
    return np.sort(found["_id"].to_numpy())


def _source(stream: StreamDefinition, table: pa.Table) -> str:
    return as_declared("joined", casts_of(stream), table.column_names)


def joined_rows(
    streams: Streams, tables: Tables, places: Places, columns: Sequence[Sequence[str]], start: int
) -> pa.Table:
    """Joined rows: columns "0.…", "1.…", …, earliest and latest time, and `_id`, numbers from `start`."""
    arrays: dict[str, Any] = {}
    times = []
    for side, rows in sorted(places.rows.items()):
        taken = tables[side].select(list(columns[side])).take(pa.array(rows))
        arrays |= {f"{side}.{name}": taken[name] for name in columns[side]}
        times.append(event_times(tables[side], streams[side].options.time)[rows])
    arrays[EARLIEST] = pa.array(np.minimum.reduce(times), pa.timestamp("us"))
    arrays[LATEST] = pa.array(np.maximum.reduce(times), pa.timestamp("us"))
    arrays["_id"] = pa.array(np.arange(start, start + len(places)), pa.int64())
    return pa.table(arrays)


def _in_order(streams: Streams, tables: Tables, found: Sequence[Places]) -> Places:
    places = Places.together(found, len(streams))
    rows = [places.rows[side] for side in range(len(streams))]
    times = [event_times(t, s.options.time)[r] for t, s, r in zip(tables, streams, rows, strict=True)]
    ids = [np.asarray(t["_id"].to_numpy(), np.int64)[r] for t, r in zip(tables, rows, strict=True)]
    return places.take(np.lexsort((*reversed(ids), np.minimum.reduce(times))))


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
