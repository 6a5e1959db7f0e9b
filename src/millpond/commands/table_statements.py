"""Statements about tables: what CREATE, ALTER, REFRESH and DROP TABLE do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from millpond import language as lang
from millpond.answers.describe.explain_windows import moment
from millpond.engine.core import Core
from millpond.language.with_options.table_options import NO_SIGNS, SPANS
from millpond.operators.relation.table_use import table_names
from millpond.sources.tables.files import table_files
from millpond.support.errors import Refusal, SourceError, StatementError
from millpond.types import TableDefinition, to_json


class TableStatements:
    """Executes statements about tables on an open pond."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._ahead: dict[int, pa.Table | SourceError] = {}

    def read_ahead(self, statements: Sequence[lang.Statement]) -> None:
        """Ask the databases of tables that are about to be created, while nobody waits for the pond's lock."""
        self._ahead = {}
        for each in statements:
            if isinstance(each, lang.CreateTable) and each.uri is not None:
                if self.core.catalog.lookup(each.definition.name) is not None:
                    continue
                self._ahead[id(each)] = self._asked(each.definition, each.uri)

    def _asked(self, definition: TableDefinition, uri: str) -> pa.Table | SourceError:
        try:
            return self.core.tables.ask(definition, uri)
        except SourceError as error:
            return error

    def create(self, statement: lang.CreateTable, number: int) -> None:
        """Record a table; one in a database has been read, so that what is wrong with it is said at once."""
        definition = replace(statement.definition, id=number)
        if statement.uri is None:
            definition = replace(definition, path=os.path.abspath(os.path.expanduser(definition.path)))
        else:
            found = self._ahead.pop(id(statement), None)
            found = self._asked(definition, statement.uri) if found is None else found
            if isinstance(found, SourceError):
                raise Refusal(str(found), option="query" if "query" in statement.places else "uri")
            self.core.tables.keep_uri(definition, statement.uri)
            self.core.tables.take(definition, found, self.core.now())
        self.core.catalog_log.record({"do": "create_table", "definition": to_json(definition)})
        if definition.format is not None and not table_files(definition.path):
            self.core.tables.refresh(definition, self.core.now())  # fails, and SHOW TABLES says so

    def alter(self, table: TableDefinition, statement: lang.AlterTable) -> str:
        """Change when a table is read, or how its database is reached."""
        if table.format is not None and statement.uri is not None:
            raise Refusal(f"table '{table.name}' is read from files", option="uri")
        if table.format is None and statement.options.get("reload") == "on change":
            raise Refusal(NO_SIGNS, "reload", (), SPANS)
        if statement.uri is not None:
            self.core.tables.keep_uri(table, statement.uri)
        changed = replace(table, **statement.options)
        self.core.catalog_log.record({"do": "alter_table", "definition": to_json(changed)})
        return f"table {table.name} altered"

    def refresh(self, table: TableDefinition) -> str:
        """Read a table now. Raises: SourceError when it cannot be read; what was read before stays."""
        before = self.core.tables.state(table).version
        state = self.core.tables.refresh(table, self.core.now(), force=True)
        if state.problem:
            kept = f"; version {state.version} stays" if state.version else ""
            raise SourceError(state.problem + kept)
        same = ", as before" if state.version == before else ""
        return f"table {table.name} read: version {state.version}, {state.rows} rows{same}"

    def drop(self, table: TableDefinition, statement: lang.Drop) -> None:
        """Drop a table that no standing query reads."""
        catalog = self.core.catalog
        users = {
            name
            for q in catalog.queries.values()
            if table.name in table_names(q.definition.query)
            for name in catalog.known_as(q)
        }
        if users:
            start, end = lang.token_place(statement, statement.name)
            raise StatementError(
                f"table '{table.name}' is read by {', '.join(sorted(users))}", statement.script, start, end,
                "DROP QUERY first",
            )  # fmt: skip
        self.core.catalog_log.record({"do": "drop_table", "id": table.id})
        self.core.tables.drop(table)


def table_note(core: Core, names: Sequence[str]) -> str:
    """What is to be said of the tables that an answer was made of: that one could not be read anew."""
    notes = []
    for name in names:
        table = core.catalog.lookup(name)
        if isinstance(table, TableDefinition) and (state := core.tables.state(table)).problem:
            at = "never" if state.read_at is None else moment(state.read_at)
            notes.append(f"table {table.name} is as it was read at {at}: {state.problem}")
    return "; ".join(notes)


__all__ = ["TableStatements", "table_note"]
