"""Which plan, or which question, a statement is: by its type, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from millpond import language as lang
from millpond.commands import answer_commands as answers
from millpond.commands import lifecycle_commands as lives
from millpond.commands import query_commands as queries
from millpond.commands import setting_commands as settings
from millpond.commands import stream_commands as streams
from millpond.commands import table_commands as tables
from millpond.commands.answer_commands import Question
from millpond.commands.asking import description_commands as descriptions
from millpond.commands.derived_commands import derive_stream
from millpond.commands.planned import Plan
from millpond.commands.pond_facts import Facts

#: ALTER QUERY, by what it does.
_ALTERED: Final[Mapping[str, Callable[[Facts, lang.AlterQuery], Plan]]] = {
    "pause": lives.pause,
    "resume": lives.resume,
    "window": queries.alter_window,
    "set": settings.alter_options,
}

#: Statements that change the catalog: planned and carried out under the pond's lock.
CHANGES: Final[Mapping[type[lang.Statement], Callable[[Facts, Any], Plan]]] = {
    lang.CreateStream: streams.create_stream,
    lang.CreateStreamFrom: streams.create_stream_from,
    lang.AlterStream: streams.alter_stream,
    lang.AlterColumns: streams.alter_columns,
    lang.DeriveStream: derive_stream,
    lang.CreateTable: tables.create_table,
    lang.AlterTable: tables.alter_table,
    lang.CreateQuery: queries.create_query,
    lang.AlterQuery: lambda facts, statement: _ALTERED[statement.action](facts, statement),
    lang.AlterSystem: settings.alter_system,
    lang.Drop: lives.drop,
}

#: Statements that do something which takes its time, and change no catalog.
WAITS: Final[Mapping[type[lang.Statement], Callable[[Facts, Any], Plan]]] = {
    lang.RefreshTable: tables.refresh_table,
    lang.Drain: lambda _facts, statement: lives.drain(statement),
}

#: Statements that ask.
QUESTIONS: Final[Mapping[type[lang.Statement], Callable[[Facts, Any], Question]]] = {
    lang.Select: answers.ask_select,
    lang.Invoke: answers.ask_invoke,
    lang.Show: answers.ask_show,
    lang.ShowCreate: descriptions.ask_create,
    lang.Copy: answers.ask_copy,
    lang.Describe: descriptions.ask_describe,
    lang.Explain: answers.ask_explain,
}


def plan(facts: Facts, statement: lang.Statement) -> Plan | Question:
    """What a statement does, or asks. Nothing is done, read or waited for.

    Raises:
        StatementError: it cannot be, and where it is wrong. QueryError: what it is about is not in that state.
    """
    kind = type(statement)
    found = CHANGES.get(kind) or WAITS.get(kind) or QUESTIONS[kind]
    with lang.pointing(statement):
        return found(facts, statement)
