"""ALTER STREAM: a column more, or a wider one, while queries run and nothing that is there is written again."""

from __future__ import annotations

import json
from dataclasses import replace

from millpond import language as lang
from millpond.engine.core import Core
from millpond.errors import MillpondError, StatementError
from millpond.language.places import nearest
from millpond.results.ready import ready_of
from millpond.sources.carriers import carriers
from millpond.types import Column, StreamDefinition, to_json

#: Names of queries that a message lists.
_SHOWN = 10


def alter_columns(core: Core, statement: lang.AlterColumns, stream: StreamDefinition) -> str:
    """Change the columns of a stream; `core.lock` must be held. What there is to say.

    Raises: StatementError with the place, when it cannot be done; then nothing has changed.
    """
    if stream.derived is not None:
        what = f"stream '{stream.name}' is derived: its columns are those of its SELECT"
        raise _fault(statement, what, "another derived stream with further columns")
    if stream.options.source == "system":
        raise _fault(statement, f"the columns of '{stream.name}' are the system's", "another stream")
    if statement.action == "add":
        return _add(core, statement, stream)
    return _widen(core, statement, stream)


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
    users = _row_queries(core, stream, old.name)
    if users:
        more = " and others" if len(users) > _SHOWN else ""
        raise _fault(
            statement, f"column '{old.name}' is read by {', '.join(sorted(users[:_SHOWN]))}{more} as {old.type}",
            "DROP QUERY first and CREATE QUERY afterwards: row queries answer over everything, old or new",
        )  # fmt: skip
    definition = replace(stream, columns=tuple(new if c is old else c for c in stream.columns))
    before = core.catalog
    _record(core, definition, {"column": old.name, "type": old.type})
    going_on = [
        q.definition.name for n, q in core.catalog.queries.items() if q.definition != before.queries[n].definition
    ]
    note = ""
    if going_on:
        go = "goes" if len(going_on) == 1 else "go"
        note = (
            f"; {', '.join(sorted(going_on))} {go} on with {old.type}, for which rows that need {new.type} are dead"
            " letters: CREATE OR REPLACE QUERY takes the new type up"
        )
    return f"column {old.name} of stream {stream.name} is {new.type}{note}"


def _record(core: Core, definition: StreamDefinition, more: dict[str, str]) -> None:
    core.catalog_log.record({"do": "alter_stream", "id": definition.id, "definition": to_json(definition), **more})
    core.alter_columns(definition)
    ready_of(core).altered(definition.id)


def _row_queries(core: Core, stream: StreamDefinition, column: str) -> list[str]:
    """Names of row queries that read a column, some more than are shown at most."""
    marks = [json.dumps(mark + column.replace('"', '""') + '"')[1:-1] for mark in ('"', ".")]
    found = []
    for number in core.register.on_stream(stream.id).tolist():
        query = core.register.get(number)
        text = json.dumps(to_json(query.selection), ensure_ascii=True)
        if any(mark in text for mark in marks):
            found.append(query.name)
            if len(found) > _SHOWN:
                break
    return found


def _fault(statement: lang.AlterColumns, message: str, expected: str, like: str = "") -> StatementError:
    return StatementError(message, statement.script, *statement.place, expected, like)


__all__ = ["alter_columns"]
