"""DESCRIBE, SHOW COLUMNS and SHOW CREATE: what there is, from the catalog alone."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import language as lang
from millpond.catalog import Registered, Standing
from millpond.commands.answer_commands import AskRows, Bound
from millpond.commands.asking.created_as import query_as_created, stream_as_created, table_as_created
from millpond.commands.naming import (
    NO_FILES,
    Names,
    NamesAndFiles,
    described_query,
    query_named,
    stream_named,
    table_named,
)
from millpond.commands.pond_facts import Facts
from millpond.support.errors import Refusal
from millpond.support.file_names import is_file_name
from millpond.types import (
    Column,
    RowQuery,
    Staged,
    StreamDefinition,
    TableDefinition,
)


def ask_describe(facts: Facts, statement: lang.Describe) -> AskRows:
    """What columns something has. Raises: StatementError where a SELECT cannot be bound; Refusal."""
    time = ""
    if not isinstance(statement.target, str):
        columns = _columns_of(lang.bind_select(statement.target, NamesAndFiles(facts)))
    else:
        found = NamesAndFiles(facts).lookup(statement.target)
        if found is None and is_file_name(statement.target) and facts.row_query(statement.target) is None:
            raise Refusal(NO_FILES, words=(statement.target,))
        if isinstance(found, StreamDefinition):
            columns, time = found.all_columns, found.options.time
        elif isinstance(found, TableDefinition):
            columns = found.columns
        else:
            columns = _shown(described_query(facts, statement.target))
    rows = tuple((c.name, c.type, "event time" if c.name == time else "") for c in columns)
    return AskRows(("column", "type", "about"), rows)


def ask_create(facts: Facts, statement: lang.ShowCreate) -> AskRows:
    """The statement that makes something. Raises: Refusal; QueryError where there is none."""
    name, kind = statement.name, statement.kind
    found = Names(facts).lookup(name)
    if kind == "stream" or (kind is None and isinstance(found, StreamDefinition)):
        text = stream_as_created(stream_named(facts, name))
    elif kind == "table" or (kind is None and isinstance(found, TableDefinition)):
        text = table_as_created(table_named(facts, name))
    else:
        text = query_as_created(described_query(facts, name) if kind is None else query_named(facts, name))
    return AskRows(("statement",), ((text,),))


def _shown(query: Standing | Registered) -> Sequence[Column]:
    if isinstance(query, Standing):
        definition = query.definition
        # Only ALL REVISIONS shows more of a relation.
        own = [Column(o.name, o.type) for o in definition.query.select]
        return own if definition.is_relation else definition.columns
    return [Column(o.name, o.type) for o in query.selection.query.select]


def _columns_of(bound: Bound) -> Sequence[Column]:
    """The columns of the answer of a SELECT."""
    match bound:
        case lang.TableQuery():
            return bound.columns or ()
        case RowQuery():
            return [Column(o.name, o.type) for o in bound.query.select]
        case Staged():
            return _columns_of(bound.query)
        case _:  # what a relation is at one instant has no column for it
            times = () if bound.change_columns else bound.time_columns
            return [*times, *(Column(o.name, o.type) for o in bound.select)]


__all__ = ["ask_create", "ask_describe"]
