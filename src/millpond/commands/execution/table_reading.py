"""Reading tables for statements: databases ahead of the lock, what CREATE TABLE finds, REFRESH, notes on answers."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millpond import language as lang
from millpond.catalog import Catalog
from millpond.commands.planned import MakeTable
from millpond.engine.pond_view import PondView
from millpond.sources.table_sources.table_files import table_files
from millpond.sources.table_sources.versions import TableVersions
from millpond.support.errors import Refusal, SourceError
from millpond.types import TableDefinition
from millpond.types.instants import moment


class TablesAhead:
    """What databases said of tables that are about to be created, while nobody waited for the pond's lock."""

    def __init__(self) -> None:
        self._found: dict[str, pa.Table | SourceError] = {}

    def read(self, tables: TableVersions, catalog: Catalog, statements: Sequence[lang.Statement]) -> None:
        """Ask the databases of the tables that these statements create."""
        for each in statements:
            if isinstance(each, lang.CreateTable) and each.uri is not None:
                name = each.definition.name
                if catalog.lookup(name) is None:
                    self._found[name.lower()] = _asked(tables, each.definition, each.uri)

    def take(self, tables: TableVersions, definition: TableDefinition, uri: str) -> pa.Table | SourceError:
        """What the database of a table said, or says now."""
        found = self._found.pop(definition.name.lower(), None)
        return _asked(tables, definition, uri) if found is None else found


def _asked(tables: TableVersions, definition: TableDefinition, uri: str) -> pa.Table | SourceError:
    try:
        return tables.ask(definition, uri)
    except SourceError as error:
        return error


def make_table(pond: PondView, step: MakeTable, ahead: TablesAhead) -> None:
    """Record a table; one in a database has been read, so that what is wrong with it is said at once.

    Raises:
        Refusal: it cannot be read.
    """
    definition = step.definition
    if step.uri is not None:
        found = ahead.take(pond.tables, definition, step.uri)
        if isinstance(found, SourceError):
            raise Refusal(str(found), option=step.asked)
        pond.tables.keep_uri(definition, step.uri)
        pond.tables.take(definition, found, pond.now())
    pond.archives.catalogs.log.record(*step.record.events)
    if definition.format is not None and not table_files(definition.path):
        pond.tables.refresh(definition, pond.now())  # fails, and SHOW TABLES says so


def refresh(tables: TableVersions, table: TableDefinition, clock: int) -> str:
    """Read a table now. Raises: SourceError when it cannot be read; what was read before stays."""
    before = tables.state(table).version
    state = tables.refresh(table, clock, force=True)
    if state.problem:
        kept = f"; version {state.version} stays" if state.version else ""
        raise SourceError(state.problem + kept)
    same = ", as before" if state.version == before else ""
    return f"table {table.name} read: version {state.version}, {state.rows} rows{same}"


def table_note(tables: TableVersions, catalog: Catalog, names: Sequence[str]) -> str:
    """What is to be said of the tables that an answer was made of: that one could not be read anew."""
    notes = []
    for name in names:
        table = catalog.lookup(name)
        if isinstance(table, TableDefinition) and (state := tables.state(table)).problem:
            at = "never" if state.read_at is None else moment(state.read_at)
            notes.append(f"table {table.name} is as it was read at {at}: {state.problem}")
    return "; ".join(notes)
