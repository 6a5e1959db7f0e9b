"""Which versions of its tables a query sees: an instant is answered with those that held when it was first reported.

So what is reported of an instant fits together: a row that leaves a join leaves with the row of the table that it came
with, and a late row is joined as it would have been in time. Where a new version begins, the relation changes by what
it makes of the rows that are in the windows then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from millpond.catalog import Catalog
from millpond.manifests.query_progress import P, QueryProgress
from millpond.progress import NEVER
from millpond.relations import TablesInTime
from millpond.sources.table_sources.versions import table_version
from millpond.support.errors import SourceError
from millpond.types import (
    Relational,
    TableDefinition,
    TableStretch,
)


@dataclass(frozen=True)
class TableUse:
    """The tables of one query, in one epoch.

    current: versions of the pond's tables, by id; unread: of those that never could be read, why.
    """

    pond: str
    catalog: Catalog
    relation: Relational
    current: Mapping[str, int]
    unread: Mapping[str, str]

    def definitions(self) -> dict[str, TableDefinition]:
        """The tables by alias. Raises: ValueError for one that is not there any more."""
        found = {}
        for each in self.relation.tables:
            definition = next((t for t in self.catalog.tables.values() if t.name == each.name), None)
            if definition is None:
                raise ValueError(f"the table '{each.name}' was dropped")
            found[each.alias] = definition
        return found

    def versions(self) -> dict[str, int]:
        """The versions that instants are reported with from now on. Raises: SourceError when a table was never read."""
        found = {}
        for definition in self.definitions().values():
            key = str(definition.id)
            if not self.current.get(key):
                raise SourceError(self.unread.get(key) or f"table '{definition.name}' was not read yet")
            found[key] = self.current[key]
        return found

    def rows(self, versions: Mapping[str, int]) -> dict[str, pa.Table]:
        """The rows of each table, by alias."""
        return {a: table_version(self.pond, d, versions[str(d.id)]) for a, d in self.definitions().items()}

    def stretches(self, progress: QueryProgress) -> tuple[TableStretch, ...]:
        """The stretches of a query when instants that are not reported yet have the current versions."""
        if not self.relation.tables:
            return ()
        versions = self.versions()
        if not progress.tables:
            return (TableStretch(NEVER, versions),)
        last = progress.tables[-1]
        if last.versions == versions:
            return progress.tables
        since = max(progress.closed, progress.start)
        kept = progress.tables if last.since < since else progress.tables[:-1]
        return (*kept, TableStretch(since if kept else NEVER, versions))

    def in_time(self, stretches: Sequence[TableStretch]) -> TablesInTime:
        """The rows of the tables in each of some stretches."""
        return TablesInTime(tuple((s.since, self.rows(s.versions)) for s in stretches) or ((NEVER, {}),))

    def changes(self, progress: QueryProgress) -> bool:
        """Whether the next instants are reported with other versions than the last ones."""
        current = {str(d.id): self.current.get(str(d.id)) for d in self.definitions().values()}
        return bool(progress.tables) and progress.tables[-1].versions != current


def trimmed(progress: QueryProgress[P], horizon: int) -> QueryProgress[P]:
    """A query's progress without stretches of instants that nobody looks at again: those before `horizon` - 1."""
    found = progress.tables
    while len(found) > 1 and found[1].since <= horizon - 1:
        found = found[1:]
    if found and found is not progress.tables:
        found = (replace(found[0], since=NEVER), *found[1:])
    return progress if found is progress.tables else replace(progress, tables=found)


def version_at(progress: QueryProgress, instant: int) -> Mapping[str, int]:
    """The versions that an instant was reported with, as far as they are known; none of instants to come."""
    if not progress.tables or instant >= progress.closed:
        return {}
    return next((s.versions for s in reversed(progress.tables) if s.since <= instant), progress.tables[0].versions)


def tables_read(catalog: Catalog) -> list[TableDefinition]:
    """The tables that standing queries read."""
    if not catalog.tables:
        return []
    names = {name for q in catalog.queries.values() for name in q.definition.query.table_names}
    return [t for _, t in sorted(catalog.tables.items()) if t.name in names]


__all__ = ["TableUse", "tables_read", "trimmed", "version_at"]
