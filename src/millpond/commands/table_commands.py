"""CREATE, ALTER and REFRESH TABLE."""

from __future__ import annotations

from dataclasses import replace

from millpond import language as lang
from millpond.commands.naming import check_free, table_named
from millpond.commands.planned import CheckColumns, CheckPath, Ids, KeepUri, MakeTable, Plan, Record, RefreshTable, Step
from millpond.commands.pond_facts import Facts
from millpond.language.with_options.table_options import NO_SIGNS, SPANS
from millpond.sources.table_sources.table_files import as_stream
from millpond.support.errors import Refusal
from millpond.types import TableDefinition, to_json


def create_table(facts: Facts, statement: lang.CreateTable) -> Plan:
    """Plan CREATE TABLE. Raises: Refusal."""
    definition = statement.definition
    if statement.if_not_exists and isinstance(facts.catalog.lookup(definition.name), TableDefinition):
        return Plan(f"table {definition.name} exists")
    check_free(facts, definition.name)
    ids = Ids(facts)
    steps: list[Step] = []
    if definition.format is not None:
        steps.append(CheckPath(definition.path))
        definition = replace(definition, path=facts.sight.absolute(definition.path))
        steps.append(CheckColumns(as_stream(definition), f"table {definition.name} created"))
    definition = replace(definition, id=ids.take())
    record = Record(({"do": "create_table", "definition": to_json(definition)},), (definition.name,))
    asked = "query" if "query" in statement.places else "uri"
    steps.append(MakeTable(definition, statement.uri, asked, record))
    return Plan(f"table {definition.name} created", tuple(steps), ids.used)


def alter_table(facts: Facts, statement: lang.AlterTable) -> Plan:
    """Plan ALTER TABLE: when a table is read, or how its database is reached. Raises: Refusal."""
    table = table_named(facts, statement.name)
    if table.format is not None and statement.uri is not None:
        raise Refusal(f"table '{table.name}' is read from files", option="uri")
    if table.format is None and statement.options.get("reload") == "on change":
        raise Refusal(NO_SIGNS, "reload", (), SPANS)
    if table.format is None and "missing" in statement.options:
        raise Refusal(f"table '{table.name}' is in a database, whose answers have every column", option="missing")
    changed = replace(table, **statement.options)
    steps: list[Step] = [] if statement.uri is None else [KeepUri(table, statement.uri)]
    steps.append(Record(({"do": "alter_table", "definition": to_json(changed)},)))
    return Plan(f"table {table.name} altered", tuple(steps))


def refresh_table(facts: Facts, statement: lang.RefreshTable) -> Plan:
    """Plan REFRESH TABLE. Raises: Refusal."""
    return Plan("", (RefreshTable(table_named(facts, statement.name)),))
