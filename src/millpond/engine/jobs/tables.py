"""When tables are read, which versions the next epoch sees, and which nobody needs any more."""

from __future__ import annotations

import os
import shutil
import time

from millpond.catalog import Catalog
from millpond.engine.core import Core
from millpond.engine.jobs.backfill import ready_backfills
from millpond.manifests.records import last_record, read_manifest, read_published
from millpond.operators.relation.table_use import table_names, tables_read
from millpond.sources.tables.versions import TABLES, TableVersions
from millpond.types import TableDefinition

#: Seconds that a round of readings waits for databases.
PATIENCE = 0.2


def refresh_files(core: Core) -> None:
    """Read the tables in files that standing queries read, where their files have changed."""
    for definition in tables_read(core.catalog):
        if definition.format is not None:
            core.tables.refresh(definition, core.now())


def refresh_databases(core: Core, patience: float = PATIENCE) -> None:
    """Ask the databases of tables that standing queries read, where that is due.

    All are asked at once, and what is not there after `patience` seconds is taken another time.
    """
    found = [t for t in tables_read(core.catalog) if t.format is None]
    until = time.monotonic() + patience
    for left in (0.0, None):  # none waits for the one before it
        for definition in found:
            wait = left if left is not None else max(0.0, until - time.monotonic())
            core.tables.refresh(definition, core.now(), patience=wait)


def versions_now(tables: TableVersions, catalog: Catalog, clock: int) -> tuple[dict[str, int], dict[str, str]]:
    """The last versions of the tables that standing queries read, by id; of those that never could be read, why.

    Args:
        clock: a reading (microseconds).
    """
    versions: dict[str, int] = {}
    unread: dict[str, str] = {}
    for definition in tables_read(catalog):
        state = tables.state(definition)
        if not state.version and not state.problem:
            state = tables.refresh(definition, clock)
        if state.version:
            versions[str(definition.id)] = state.version
        else:
            unread[str(definition.id)] = state.problem
    return versions, unread


def sweep_tables(core: Core) -> None:
    """Remove versions that no epoch, no query and no kept publish record names, and what dropped tables left."""
    with core.lock:
        busy = core.last_manifest > core.published.epoch
        manifest = read_manifest(core.path, core.last_manifest) if busy else None
        catalog, published = core.catalog, core.published
        if not busy and not core.pins:
            folder = os.path.join(core.path, TABLES)
            for name in os.listdir(folder):
                if int(name.rsplit("-", 1)[1]) not in catalog.tables:
                    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        oldest = _oldest_record(core)
        records = [read_published(core.path, oldest)] if oldest else []
        waiting = {q for a in ready_backfills(core, published=False) for q in a.queries}
        filling = {q.id for q in catalog.queries.values() if "backfilling" in (q.status, q.reason)} | waiting
        read_by_filling = {
            name for q in catalog.queries.values() if q.id in filling for name in table_names(q.definition.query)
        }
        kept: dict[int, int] = {}
        for definition in catalog.tables.values():
            key = str(definition.id)
            progress = [*published.queries.values(), *(manifest.queries.values() if manifest is not None else ())]
            named = [s.versions[key] for q in progress for s in q.tables if key in s.versions]
            looked = [*published.lookups.values(), *(manifest.lookups.values() if manifest is not None else ())]
            named += [s.versions[key] for each in looked for s in each if key in s.versions]
            named += [r.versions[key] for r in (*records, published) if key in r.versions]
            named += [manifest.tables[key]] if manifest is not None and key in manifest.tables else []
            if definition.name not in read_by_filling:
                kept[definition.id] = min(named, default=core.tables.state(definition).version)
    for definition in _living(core, kept):
        core.tables.sweep(definition, kept[definition.id])


def _living(core: Core, kept: dict[int, int]) -> list[TableDefinition]:
    return [t for t in core.catalog.tables.values() if t.id in kept]


def _oldest_record(core: Core) -> int:
    """The oldest publish record that is kept; 0: there is none."""
    names = [n for n in os.listdir(os.path.join(core.path, "published")) if n.endswith(".json")]
    return min((int(n[:-5]) for n in names), default=last_record(core.path, "published"))


__all__ = ["refresh_databases", "refresh_files", "sweep_tables", "versions_now"]
