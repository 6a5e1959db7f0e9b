"""CREATE STREAM, ALTER STREAM: a stream that is declared, and how its past and its columns are from now on.

    ALTER STREAM reading SET (archive = 'replicate(0.5, 0.9 keep 730d) keep 30d')
    ALTER STREAM reading ALTER COLUMN mph SET TYPE DOUBLE

Upkeep brings what is there in line with another archive; columns are altered while queries run, and nothing that is
there is written again.
"""

from __future__ import annotations

from dataclasses import replace

from millpond import language as lang
from millpond.archive import parse_design
from millpond.archive.retention import is_cut
from millpond.commands.naming import NO_FILES, check_free, stream_named
from millpond.commands.planned import (
    AlterColumns,
    AlterStream,
    CheckColumns,
    CheckPath,
    Event,
    Ids,
    MakeStream,
    Plan,
    Record,
    Step,
)
from millpond.commands.pond_facts import Facts
from millpond.commands.summary_copies import set_summaries
from millpond.operators.registry import check_asked
from millpond.sources.formats.carriers import carriers
from millpond.support.errors import MillpondError, Refusal, SourceError, StatementError
from millpond.support.spelling import nearest
from millpond.support.sql import quote, text_literal
from millpond.types import Column, FileTable, StreamDefinition, to_json


def create_stream(facts: Facts, statement: lang.CreateStream, shown: str = "") -> Plan:
    """Plan CREATE STREAM. shown: what the message has before it. Raises: Refusal."""
    definition, asked = statement.definition, statement.definition.options.archive_at
    if statement.if_not_exists and isinstance(facts.catalog.lookup(definition.name), StreamDefinition):
        return Plan(f"stream {definition.name} exists")
    check_free(facts, definition.name)
    check_asked(definition)
    ids = Ids(facts)
    definition = replace(with_design(with_place(definition, facts.token)), id=ids.take())
    events: list[Event] = [{"do": "create_stream", "definition": to_json(definition)}]
    if summaries := parse_design(definition.options.archive).summaries:
        events.append(set_summaries(facts, ids, definition, summaries))
    steps: list[Step] = []
    message = f"{shown}stream {definition.name} created"
    if definition.options.source == "files":
        steps += [
            CheckPath(definition.options.path or ""),
            CheckColumns(definition, message),
        ]
    steps += [MakeStream(definition, asked), Record(tuple(events), (definition.name,))]
    return Plan(message, tuple(steps), ids.used)


#: Names of columns that are taken for the event time where several could be, the first that is there.
_TIMES = ("ts", "event_time", "eventtime", "timestamp", "time", "datetime", "at")


def create_stream_from(facts: Facts, statement: lang.CreateStreamFrom) -> Plan:
    """Plan CREATE STREAM … FROM: the CREATE STREAM with the columns of files, which the message shows.

    Raises: Refusal where there are no such files, or no event time among their columns; StatementError.
    """
    name = statement.name
    if statement.if_not_exists and isinstance(facts.catalog.lookup(name), StreamDefinition):
        return Plan(f"stream {name} exists")
    if not facts.files:
        raise Refusal(NO_FILES, words=(statement.path,))
    check_free(facts, name)
    try:
        text = _written_from(statement, facts.sight.stream_file(statement.path))
    except SourceError as error:
        raise Refusal(str(error), words=(statement.path,)) from None
    try:
        [made] = lang.parse(text)
    except StatementError as error:
        raise _as_written(error, statement) from None
    assert isinstance(made, lang.CreateStream)
    return create_stream(facts, made, f"{text};\n")


def _as_written(error: StatementError, statement: lang.CreateStreamFrom) -> MillpondError:
    """What is wrong with the CREATE STREAM that nobody wrote, at its place among the options that somebody did."""
    options, script = statement.options.strip(), statement.script
    behind = len(error.text) - error.text.rfind(options) if options else 0
    if not options or error.start < len(error.text) - behind:
        return Refusal(error.message, expected=error.expected, nearest=error.nearest)
    moved = script.index(options, statement.offset) - (len(error.text) - behind)
    return StatementError(error.message, script, error.start + moved, error.end + moved, error.expected, error.nearest)


def _written_from(statement: lang.CreateStreamFrom, files: FileTable) -> str:
    """The CREATE STREAM that a CREATE STREAM … FROM stands for."""
    is_written = {name.lower() for name in statement.patterned}
    columns = [(c.name, "VARCHAR" if c.name.lower() in is_written else c.type) for c in files.columns]
    fields = ",\n".join(f"  {quote(column)} {kind}" for column, kind in columns)
    options = [f"path = {text_literal(statement.path)}"]
    if "header" not in statement.given and not files.header:
        options.append("header = false")
    if "delimiter" not in statement.given and files.delimiter not in (",", "\t"):
        options.append(f"delimiter = {text_literal(files.delimiter)}")
    times = [column for column, kind in columns if kind.startswith("TIMESTAMP")]
    if "event_time" not in statement.given and times:
        known = {column.lower(): column for column in times}
        time = next((known[each] for each in _TIMES if each in known), times[0])
        options.append(f"event_time = {text_literal(time)}")
    options += [statement.options.strip()] if statement.options.strip() else []
    return f"CREATE STREAM {quote(statement.name)} (\n{fields}\n) WITH (\n  {(',' + chr(10) + '  ').join(options)}\n)"


def with_design(definition: StreamDefinition) -> StreamDefinition:
    """A stream with its design in canonical form."""
    design = parse_design(definition.options.archive)
    return replace(definition, options=replace(definition.options, archive=str(design)))


def with_place(definition: StreamDefinition, token: str) -> StreamDefinition:
    """A stream that is new, with a place of its own below the one in an object store that was asked for.

    Nobody else writes there, whatever ponds are sent to one place, and whichever of them are made of a backup.

    Args:
        token: letters that nobody has used yet.
    """
    at = definition.options.archive_at
    own = None if at is None else f"{at}/{definition.name.lower()}-{token}"
    return replace(definition, options=replace(definition.options, archive_at=own))


def alter_stream(facts: Facts, statement: lang.AlterStream) -> Plan:
    """Plan ALTER STREAM … SET.

    Raises:
        Refusal: queries rely on what would change, or a summary cannot be bound.
    """
    stream, catalog = stream_named(facts, statement.name), facts.catalog
    altered = with_design(replace(stream, options=replace(stream.options, **statement.options)))
    if altered == stream:
        return Plan(f"stream {stream.name} is like that already")
    if is_cut(altered) and not is_cut(stream):
        users = catalog.called(q for q in catalog.on_stream(stream.id) if not q.definition.retained)
        if users:
            raise Refusal(
                f"queries were registered while '{stream.name}' kept its rows for ever, and their answers cannot tell"
                f" which windows lack rows: {', '.join(users)}; drop them, alter the stream, create them again",
                "retention" if "retention" in statement.options else "archive",
            )
    ids = Ids(facts)
    events: list[Event] = [{"do": "alter_stream", "id": stream.id, "definition": to_json(altered)}]
    before, after = (parse_design(s.options.archive).summaries for s in (stream, altered))
    if after != before:
        events.append(set_summaries(facts, ids, altered, after))
    changed = [n for n in ("archive", "retention") if getattr(altered.options, n) != getattr(stream.options, n)]
    steps = (Record(tuple(events)), AlterStream(altered))
    return Plan(f"stream {stream.name} altered: {' and '.join(changed)}", steps, ids.used)


def alter_columns(facts: Facts, statement: lang.AlterColumns) -> Plan:
    """Plan ALTER STREAM … ADD COLUMN and … ALTER COLUMN … SET TYPE. Raises: Refusal."""
    stream = stream_named(facts, statement.name)
    if stream.derived is not None:
        what = f"stream '{stream.name}' is derived: its columns are those of its SELECT"
        raise _refused(what, "another derived stream with further columns")
    if stream.options.source == "system":
        raise _refused(f"the columns of '{stream.name}' are the system's", "another stream")
    return _add(statement, stream) if statement.action == "add" else _widen(facts, statement, stream)


def _add(statement: lang.AlterColumns, stream: StreamDefinition) -> Plan:
    column = statement.column
    if stream.column(column.name) is not None:
        if statement.if_not_exists:
            return Plan(f"stream {stream.name} has a column {column.name}")
        raise _refused(f"stream '{stream.name}' has a column '{column.name}'", "a new name")
    options = replace(stream.options, added=(*stream.options.added, column.name))
    definition = replace(stream, columns=(*stream.columns, column), options=options)
    try:
        carriers(definition)
    except MillpondError as error:
        raise _refused(str(error), "a type that streams carry") from None
    message = f"stream {stream.name} has a column {column.name}, which is NULL in the rows so far"
    return Plan(message, (AlterColumns(definition, _altered(definition)),))


def _widen(facts: Facts, statement: lang.AlterColumns, stream: StreamDefinition) -> Plan:
    name = statement.column.name
    old = next((c for c in stream.columns if c.name.lower() == name.lower()), None)
    if old is None:
        like = nearest(name, [c.name for c in stream.columns])
        raise _refused(f"there is no column '{name}' in {stream.name}", "a column of the stream", like)
    new = Column(old.name, statement.column.type)
    if old.type == new.type:
        return Plan(f"column {old.name} is {old.type} already")
    if old.name.lower() == stream.options.time.lower():
        raise _refused(f"'{old.name}' is the event time, whose type stays", "another column")
    if not lang.is_wider(old.type, new.type):
        wider = lang.wider_than(old.type)
        what = f"column '{old.name}' is {old.type}, of which {new.type} does not hold every value"
        raise _refused(what, wider or f"a stream of another name: nothing is wider than {old.type}")
    definition = replace(stream, columns=tuple(new if c is old else c for c in stream.columns))
    record = _altered(definition, column=old.name, type=old.type)
    before, after = facts.catalog, facts.with_events(*record.events).catalog
    going_on = after.called(q for n, q in after.queries.items() if q.definition != before.queries[n].definition)
    note = ""
    if going_on:
        go = "goes" if len(going_on) == 1 else "go"
        note = (
            f"; {', '.join(going_on)} {go} on with {old.type}, for which rows that need {new.type} are dead"
            " letters: CREATE OR REPLACE QUERY takes the new type up"
        )
    message = f"column {old.name} of stream {stream.name} is {new.type}{note}"
    return Plan(message, (AlterColumns(definition, record, old.name),))


def _altered(definition: StreamDefinition, **more: str) -> Record:
    return Record(({"do": "alter_stream", "id": definition.id, "definition": to_json(definition), **more},))


def _refused(message: str, expected: str, like: str = "") -> Refusal:
    return Refusal(message, "column", expected=expected, nearest=like)
