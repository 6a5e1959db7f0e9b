"""ALTER STREAM: a column more, or a wider one, while queries run and nothing that is there is written again."""

from __future__ import annotations

import os
from dataclasses import replace

from millpond import language as lang
from millpond.answers.row_queries.ready import ready_of
from millpond.commands.row_queries import fitted
from millpond.engine.core import Core
from millpond.language.syntax.source_text import nearest
from millpond.sources.formats.carriers import carriers
from millpond.support.errors import MillpondError, QueryError, StatementError
from millpond.tables import read_json, remove_file, write_json
from millpond.types import Column, StreamDefinition, to_json


def alter_columns(core: Core, statement: lang.AlterColumns, stream: StreamDefinition) -> str:
    """Change the columns of a stream; `core.lock` must be held. What there is to say.

    Raises: StatementError with the place, when it cannot be done; then nothing has changed.
    """
    if stream.derived is not None:
        what = f"stream '{stream.name}' is derived: its columns are those of its SELECT"
        raise _fault(statement, what, "another derived stream with further columns")
    if stream.options.source == "system":
        raise _fault(statement, f"the columns of '{stream.name}' are the system's", "another stream")
    with core.catalogs.altering():
        return _add(core, statement, stream) if statement.action == "add" else _widen(core, statement, stream)


def _add(core: Core, statement: lang.AlterColumns, stream: StreamDefinition) -> str:
    column = statement.column
    if stream.column(column.name) is not None:
        if statement.if_not_exists:
            return f"stream {stream.name} has a column {column.name}"
        raise _fault(statement, f"stream '{stream.name}' has a column '{column.name}'", "a new name")
    definition = replace(stream, columns=(*stream.columns, column))
    try:
        carriers(definition)
    except MillpondError as error:
        raise _fault(statement, str(error), "a type that streams carry") from None
    _record(core, definition, {})
    return f"stream {stream.name} has a column {column.name}, which is NULL in the rows so far"


def _widen(core: Core, statement: lang.AlterColumns, stream: StreamDefinition) -> str:
    name = statement.column.name
    old = next((c for c in stream.columns if c.name.lower() == name.lower()), None)
    if old is None:
        like = nearest(name, [c.name for c in stream.columns])
        raise _fault(statement, f"there is no column '{name}' in {stream.name}", "a column of the stream", like)
    new = Column(old.name, statement.column.type)
    if old.type == new.type:
        return f"column {old.name} is {old.type} already"
    if old.name.lower() == stream.options.time.lower():
        raise _fault(statement, f"'{old.name}' is the event time, whose type stays", "another column")
    if not lang.is_wider(old.type, new.type):
        wider = lang.wider_than(old.type)
        what = f"column '{old.name}' is {old.type}, of which {new.type} does not hold every value"
        raise _fault(statement, what, wider or f"a stream of another name: nothing is wider than {old.type}")
    definition = replace(stream, columns=tuple(new if c is old else c for c in stream.columns))
    reading = core.register.reading(stream.id, old.name)
    try:
        selections = fitted(core, reading, definition)
    except QueryError as error:
        raise _fault(statement, str(error), "DROP QUERY first") from None
    before = core.catalog
    if selections:  # a crash between the two leaves it to the next opening
        write_json(_pending(core), {"queries": reading})
    _record(core, definition, {"column": old.name, "type": old.type})
    if selections:
        core.register.fit(selections)
        remove_file(_pending(core))
        ready_of(core).fitted(stream.id, list(selections))
    catalog = core.catalog
    going_on = catalog.called(q for n, q in catalog.queries.items() if q.definition != before.queries[n].definition)
    note = ""
    if going_on:
        go = "goes" if len(going_on) == 1 else "go"
        note = (
            f"; {', '.join(going_on)} {go} on with {old.type}, for which rows that need {new.type} are dead"
            " letters: CREATE OR REPLACE QUERY takes the new type up"
        )
    return f"column {old.name} of stream {stream.name} is {new.type}{note}"


def _record(core: Core, definition: StreamDefinition, more: dict[str, str]) -> None:
    core.catalog_log.record({"do": "alter_stream", "id": definition.id, "definition": to_json(definition), **more})
    core.storage.alter_columns(definition)
    ready_of(core).altered(definition.id)


def finish_columns(core: Core) -> None:
    """At opening: bind the row queries anew that a crash has left with the columns of before."""
    try:
        queries = read_json(_pending(core))["queries"]
    except FileNotFoundError:
        return
    with core.lock:
        core.register.fit(fitted(core, [q for q in queries if q in core.register]))
    remove_file(_pending(core))


def _pending(core: Core) -> str:
    return os.path.join(core.path, "catalog", "columns.json")


def _fault(statement: lang.AlterColumns, message: str, expected: str, like: str = "") -> StatementError:
    return StatementError(message, statement.script, *statement.place, expected, like)


__all__ = ["alter_columns", "finish_columns"]
