"""From `CREATE STREAM x AS SELECT …` to the definition of a derived stream: its columns, event time and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from millpond import language as lang
from millpond.catalog import Standing
from millpond.commands.inner_streams import revised_for
from millpond.sources.formats.carriers import carriers
from millpond.support.errors import MillpondError, StatementError
from millpond.types import (
    ARRIVAL,
    COVERED,
    EXACT,
    Column,
    Derivation,
    Edge,
    GroupScan,
    QueryOptions,
    RelationalQuery,
    RowQuery,
    Span,
    StandingQuery,
    StreamDefinition,
    StreamOptions,
)

#: Columns of answers that say when they count, the first that is there.
_TIMES = ("at", "window_end")


def check_sources(statement: lang.DeriveStream) -> None:
    """Refuse a stream that reads itself. Other cycles cannot come about: a stream is made of what is there.

    Raises: StatementError with the place.
    """
    for table in statement.select.tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.name.lower() == statement.name.lower():
            raise _fault(statement, f"stream '{statement.name}' cannot be made of itself", "another stream", table.name)


def streams_read(query: StandingQuery) -> list[str]:
    """The names of the streams that a query of answers reads."""
    if isinstance(query, RelationalQuery):
        return [n for i in query.inputs for n in i.names]
    return [f.name for f in query.feeds] or [query.stream]


def answer_options(
    statement: lang.DeriveStream, query: StandingQuery, sources: Sequence[StreamDefinition]
) -> QueryOptions:
    """The options of the standing query over `sources` whose answers become rows."""
    if isinstance(query, RelationalQuery) and not query.makes_stream:
        message = "a relation without ISTREAM, DSTREAM or RSTREAM is no stream"
        raise _fault(statement, message, "ISTREAM(SELECT …) for what comes in, RSTREAM for all of it", "SELECT")
    if statement.revisions == "retract":
        return replace(statement.options, pairs=not isinstance(query, RelationalQuery))
    union = not isinstance(query, RelationalQuery) and query.feeds
    drops = not union and all(s.options.late == "drop" for s in sources)
    if statement.revisions != "final" or drops:
        return statement.options
    options = statement.options
    return replace(options, delay=revised_for(query, options))


def stream_of_answers(statement: lang.DeriveStream, standing: Standing, sources: Sequence[int]) -> StreamDefinition:
    """The stream whose rows are the answers of a query over `sources`; its id is still to be given.

    Raises: StatementError when two columns have one name, or a type cannot be carried.
    """
    revisions = statement.revisions or "forward"
    dropped = (COVERED, EXACT) if revisions == "forward" else (COVERED, EXACT, "revision")
    columns = [c for c in standing.definition.columns if c.name not in dropped]
    columns += [Column("op", "VARCHAR")] if revisions in ("forward", "retract") else []
    if revisions == "retract" and statement.late == "drop":
        raise _fault(statement, "what takes an answer back is late, and late='drop' would leave it out", "", "late")
    time = next(t for t in _TIMES if any(c.name == t for c in columns))
    derivation = Derivation(
        tuple(sources), standing.id, revisions=revisions, first_epoch=standing.first_epoch, text=statement.text
    )
    return _checked(statement, tuple(columns), time, derivation, statement.late or "revise")


def stream_of_rows(
    statement: lang.DeriveStream, selection: RowQuery, source: StreamDefinition, first_epoch: int, history: bool
) -> StreamDefinition:
    """The stream of the rows of another one that pass a condition; its id is still to be given.

    Arguments:
        first_epoch: the first epoch whose rows it gets. history: whether the source has had rows before.
    Raises: StatementError when the SELECT is more than a filter and a projection, or leaves out the event time.
    """
    query, options = selection.query, statement.options
    if len(selection.sides) > 1:
        raise _fault(statement, "a derived stream without a window reads one stream", "a filter of one stream", "FROM")
    if isinstance(query, GroupScan) or query.distinct or query.order_by or query.limit is not None or query.offset:
        raise _fault(
            statement, "groups, DISTINCT, ORDER BY and LIMIT need a window: a stream's rows never end",
            f"FROM {source.name} [RANGE … SLIDE …]", "SELECT",
        )  # fmt: skip
    if query.reduce is not None:
        raise _fault(statement, "a derived stream has every row of its source", "no REDUCE", "REDUCE")
    if selection.sides[0].span != Span(Edge(), Edge("now")):
        raise _fault(statement, "BEGIN … END is for queries that are invoked", "WHERE", "BEGIN")
    plain = QueryOptions()
    for name in ("empty", "revise_for", "every"):
        if getattr(options, name) != getattr(plain, name):
            raise _fault(statement, f"'{name}' is for streams of windows, and this one has none", "", name)
    if statement.revisions is not None:
        raise _fault(statement, "'revisions' is for streams of answers: rows do not change", "", "revisions")
    if source.takes_back and not any(o.name == "op" and o.expression == '"op"' for o in query.select):
        message = f"rows of {source.name} take others back, which their column op says: it has to be handed on"
        raise _fault(statement, message, "SELECT …, op", "SELECT")
    columns = tuple(Column(o.name, o.type) for o in query.select)
    own = '"' + source.options.time.replace('"', '""') + '"'
    time = next((o.name for o in query.select if o.expression == own), None)
    if time is None:
        what = f"the event time '{source.options.time}' is not among the columns of stream '{statement.name}'"
        raise _fault(statement, what, f"SELECT {source.options.time}, …", "SELECT")
    since = options.since if isinstance(options.since, int) else None
    derivation = Derivation(
        (source.id,), None, selection.sides[0].where, query.select, first_epoch=first_epoch,
        history=history and options.since is not None, since=since, text=statement.text,
        revisions="retract" if source.takes_back else "forward", options=options,
    )  # fmt: skip
    return _checked(statement, columns, time, derivation, statement.late or source.options.late)


def _checked(
    statement: lang.DeriveStream, columns: tuple[Column, ...], time: str, derivation: Derivation, late: Any
) -> StreamDefinition:
    names: set[str] = set()
    for column in columns:
        if column.name.lower() == ARRIVAL:
            message = f"a derived stream has no '{ARRIVAL}' of its own"
            raise _fault(statement, message, f"SELECT {ARRIVAL} AS arrived, …", "SELECT")
        if column.name.lower() in names:
            message = f"stream '{statement.name}' would have two columns '{column.name}'"
            raise _fault(statement, message, "AS with another name", column.name)
        names.add(column.name.lower())
    options = StreamOptions(source="derived", time=time, late=late, retention=statement.retention)
    definition = StreamDefinition(statement.name, columns, options, 0, derivation)
    try:
        carriers(definition)
    except MillpondError as error:
        raise _fault(statement, str(error), "a CAST to a type that streams carry", "SELECT") from None
    return definition


def _fault(statement: lang.DeriveStream, message: str, expected: str, at: str) -> StatementError:
    """An error that points at a word of the statement."""
    start, end = statement.places.get(at) or lang.token_place(statement, at)
    return StatementError(message, statement.script, start, end, expected)
