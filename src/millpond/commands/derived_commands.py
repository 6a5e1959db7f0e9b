"""CREATE STREAM … AS SELECT: a stream of a query's answers, or of another stream's rows; they begin together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from millpond import language as lang
from millpond.catalog import Standing
from millpond.commands.inner_streams import settle
from millpond.commands.naming import Names, check_free
from millpond.commands.planned import Event, Ids, MakeStream, Plan, Record, Step
from millpond.commands.pond_facts import Facts
from millpond.commands.query_checks import check_options
from millpond.commands.query_state import Wanted, plan_standing
from millpond.language.inference.column_types import TIMES
from millpond.operators.registry import answering_kind
from millpond.sources.formats.carriers import carriers
from millpond.support.errors import MillpondError, Refusal
from millpond.support.spelling import nearest
from millpond.types import (
    ARRIVAL,
    COVERED,
    EXACT,
    AnswerDerivation,
    Column,
    Derivation,
    QueryOptions,
    RowDerivation,
    RowQuery,
    Span,
    Staged,
    StandingQuery,
    StreamDefinition,
    StreamOptions,
    to_json,
)

#: Columns of answers that say when they count, the first that is there.
_TIMES = ("at", "window_end")


def derive_stream(facts: Facts, statement: lang.DeriveStream) -> Plan:
    """Plan CREATE STREAM … AS. Raises: Refusal; StatementError where the SELECT cannot be bound."""
    if statement.if_not_exists and isinstance(facts.catalog.lookup(statement.name), StreamDefinition):
        return Plan(f"stream {statement.name} exists")
    check_free(facts, statement.name)
    check_sources(statement)
    bound = lang.bind_standing(statement.select, Names(facts))
    return _of_rows(facts, statement, bound) if bound.in_register else _of_answers(facts, statement, bound)


def _of_rows(facts: Facts, statement: lang.DeriveStream, selection: RowQuery) -> Plan:
    source = facts.catalog.stream(selection.sides[0].stream)
    assert source is not None
    history = facts.sight.has_history(source.id)
    definition = stream_of_rows(statement, selection, source, facts.next_epoch, history)
    waits = definition.derived is not None and definition.derived.has_past
    ids = Ids(facts)
    return _made(replace(definition, id=ids.take()), (), (), {}, waits, ids)


def _of_answers(facts: Facts, statement: lang.DeriveStream, bound: StandingQuery | Staged) -> Plan:
    ids = Ids(facts)
    settled = settle(facts, ids, bound, statement.options)
    facts = facts.with_events(*settled.events)
    sources = facts.catalog.streams_named(settled.query.stream_names)
    options = answer_options(replace(statement, options=settled.options), settled.query, sources)
    check_options(facts.catalog, settled.query, options)
    for name in ("event_time", "lateness"):
        if getattr(statement, name):
            message = f"'{name}' is for streams of rows, and these are answers, which have a time"
            raise _refused(message, f"CREATE STREAM … AS SELECT … FROM {statement.name}", name)
    planned = plan_standing(facts, Wanted(ids.take(), statement.name, settled.query, options, statement.text))
    marks = answering_kind(settled.query).marked_columns(settled.query, options, sources)
    definition = stream_of_answers(statement, planned.standing, sorted({s.id for s in sources}), marks)
    steps, waits = (*settled.steps, *planned.checks), planned.standing.status == "backfilling"
    return _made(replace(definition, id=ids.take()), steps, settled.events, planned.event, waits, ids)


def _made(
    definition: StreamDefinition,
    steps: tuple[Step, ...],
    before: tuple[Event, ...],
    query: Event,
    waits: bool,
    ids: Ids,
) -> Plan:
    """The plan that makes a stream. before: what is recorded first. query: the event that registers its query."""
    event = query | {"do": "create_stream", "definition": to_json(definition)}
    record = Record((*before, event), (definition.name,))
    message = f"stream {definition.name} created" + ("; back-filling from the archive" if waits else "")
    return Plan(message, (*steps, MakeStream(definition), record), ids.used)


def check_sources(statement: lang.DeriveStream) -> None:
    """Refuse a stream that reads itself. Other cycles cannot come about: a stream is made of what is there.

    Raises: Refusal with the place.
    """
    for table in statement.select.tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.name.lower() == statement.name.lower():
            raise _refused(f"stream '{statement.name}' cannot be made of itself", "another stream", table.name)


def answer_options(
    statement: lang.DeriveStream, query: StandingQuery, sources: Sequence[StreamDefinition]
) -> QueryOptions:
    """The options of the standing query over `sources` whose answers become rows."""
    if query.change_columns:
        message = "a relation without ISTREAM, DSTREAM or RSTREAM is no stream"
        raise _refused(message, "ISTREAM(SELECT …) for what comes in, RSTREAM for all of it", "SELECT")
    if statement.revisions == "retract":
        return replace(statement.options, pairs=query.keyed)
    drops = not query.union_names and all(s.options.late == "drop" for s in sources)
    if statement.revisions != "final" or drops:
        return statement.options
    options = statement.options
    return replace(options, delay=query.revised_for(options))


def stream_of_answers(
    statement: lang.DeriveStream, standing: Standing, sources: Sequence[int], marks: Sequence[str]
) -> StreamDefinition:
    """The stream whose rows are the answers of a query over `sources`; its id is still to be given.

    Arguments:
        marks: the columns by whose groups answers go out.
    Raises: Refusal when two columns have one name, or a type cannot be carried.
    """
    revisions = statement.revisions or "forward"
    dropped = (COVERED, EXACT) if revisions == "forward" else (COVERED, EXACT, "revision")
    columns = [c for c in standing.definition.columns if c.name not in dropped]
    columns += [Column("op", "VARCHAR")] if revisions in ("forward", "retract") else []
    if revisions == "retract" and statement.late == "drop":
        raise _refused("what takes an answer back is late, and late='drop' would leave it out", "", "late")
    time = next(t for t in _TIMES if any(c.name == t for c in columns))
    derivation = AnswerDerivation(
        sources=tuple(sources), query=standing.id, revisions=revisions, first_epoch=standing.first_epoch,
        text=statement.text,
    )  # fmt: skip
    definition = _checked(statement, tuple(columns), time, derivation, statement.late or "revise")
    return replace(definition, options=definition.options.with_marks(marks))


def stream_of_rows(
    statement: lang.DeriveStream, selection: RowQuery, source: StreamDefinition, first_epoch: int, history: bool
) -> StreamDefinition:
    """The stream of the rows of another one that pass a condition; its id is still to be given.

    Arguments:
        first_epoch: the first epoch whose rows it gets. history: whether the source has had rows before.
    Raises: Refusal when the SELECT is more than a filter and a projection, or leaves out the event time.
    """
    query, options = selection.query, statement.options
    if len(selection.sides) > 1:
        raise _refused("a derived stream without a window reads one stream", "a filter of one stream", "FROM")
    if query.of_groups or query.distinct or query.order_by or query.limit is not None or query.offset:
        raise _refused(
            "groups, DISTINCT, ORDER BY and LIMIT need a window: a stream's rows never end",
            f"FROM {source.name} [RANGE … SLIDE …]", "SELECT",
        )  # fmt: skip
    if query.reduce is not None:
        raise _refused("a derived stream has every row of its source", "no REDUCE", "REDUCE")
    if selection.sides[0].span != Span():
        raise _refused("BEGIN … END is for queries that are invoked", "WHERE", "BEGIN")
    plain = QueryOptions()
    for name in ("empty", "revise_for", "every"):
        if getattr(options, name) != getattr(plain, name):
            raise _refused(f"'{name}' is for streams of windows, and this one has none", "", name)
    if statement.revisions is not None:
        raise _refused("'revisions' is for streams of answers: rows do not change", "", "revisions")
    if source.takes_back and not any(o.name == "op" and o.expression.column == "op" for o in query.select):
        message = f"rows of {source.name} take others back, which their column op says: it has to be handed on"
        raise _refused(message, "SELECT …, op", "SELECT")
    columns = tuple(Column(o.name, o.type) for o in query.select)
    time = next((o.name for o in query.select if o.expression.column == source.options.time), None)
    retimed = statement.event_time != "" and statement.event_time.lower() != (time or "").lower()
    if retimed:
        time = _other_time(statement, columns)
    elif statement.lateness is not None:
        message = f"a stream by '{source.options.time}' is as far as {source.name}, which has a lateness of its own"
        raise _refused(message, "event_time='<another column>' beside it", "lateness")
    if time is None:
        what = f"the event time '{source.options.time}' is not among the columns of stream '{statement.name}'"
        raise _refused(what, f"SELECT {source.options.time}, …", "SELECT")
    since = options.since if isinstance(options.since, int) else None
    derivation = RowDerivation(
        sources=(source.id,), where=selection.sides[0].where, select=query.select, first_epoch=first_epoch,
        history=history and options.since is not None, since=since, text=statement.text,
        revisions="retract" if source.takes_back else "forward", options=options, retimed=retimed,
        whole=not history or options.since == "start",
    )  # fmt: skip
    definition = _checked(statement, columns, time, derivation, statement.late or source.options.late)
    marks = () if retimed else source.options.marked_as({o.expression.column: o.name for o in query.select})
    return replace(definition, options=definition.options.with_marks(marks))


def _other_time(statement: lang.DeriveStream, columns: Sequence[Column]) -> str:
    """The event time of a stream that has another one than its source. Raises: Refusal."""
    found = next((c for c in columns if c.name.lower() == statement.event_time.lower()), None)
    times = [c.name for c in columns if c.type in TIMES]
    if found is None:
        message = f"there is no column '{statement.event_time}' in the SELECT list"
        like = nearest(statement.event_time, [c.name for c in columns])
        raise Refusal(message, "event_time", expected="a timestamp column", nearest=like)
    if found.type not in TIMES:
        like = next(iter(times), "")
        message = f"column {found.name} is {found.type}, which cannot be an event time"
        raise Refusal(message, "event_time", expected="a column of type TIMESTAMP or TIMESTAMPTZ", nearest=like)
    if statement.lateness is None or statement.lateness.share is not None:
        message = f"how far may a row lag behind the newest one by '{found.name}'?"
        raise Refusal(message, "event_time", expected="lateness='30s', or a count such as '100 rows', beside it")
    return found.name


def _checked(
    statement: lang.DeriveStream, columns: tuple[Column, ...], time: str, derivation: Derivation, late: Any
) -> StreamDefinition:
    names: set[str] = set()
    for column in columns:
        if column.name.lower() == ARRIVAL:
            message = f"a derived stream has no '{ARRIVAL}' of its own"
            raise _refused(message, f"SELECT {ARRIVAL} AS arrived, …", "SELECT")
        if column.name.lower() in names:
            message = f"stream '{statement.name}' would have two columns '{column.name}'"
            raise _refused(message, "AS with another name", column.name)
        names.add(column.name.lower())
    options = StreamOptions(source="derived", time=time, late=late, retention=statement.retention)
    if derivation.own_progress and (lateness := statement.lateness) is not None:
        options = replace(options, lateness=lateness.time, lateness_rows=lateness.rows)
    definition = StreamDefinition(statement.name, columns, options, 0, derivation)
    try:
        carriers(definition)
    except MillpondError as error:
        raise _refused(str(error), "a CAST to a type that streams carry", "SELECT") from None
    return definition


def _refused(message: str, expected: str, at: str) -> Refusal:
    """An error that points at an option, or a word, of the statement."""
    return Refusal(message, at, (at,), expected)
