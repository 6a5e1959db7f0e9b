"""When tables are read, which versions the next epoch sees, and which nobody needs any more."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Sequence

from millpond.catalog import Catalog
from millpond.engine.jobs.backfill_queue import Backfills
from millpond.engine.pond_view import PondView
from millpond.manifests.records import Manifest, Published, read_manifest, read_published
from millpond.operators.relation.table_use import tables_read
from millpond.sources.table_sources.versions import TABLES, TableVersions
from millpond.types import TableDefinition

#: Seconds that a round of readings waits for databases.
PATIENCE = 0.2


def refresh_files(tables: TableVersions, catalog: Catalog, clock: int) -> None:
    """Read the tables in files that standing queries read, where their files have changed. clock: a reading."""
    for definition in tables_read(catalog):
        if definition.format is not None:
            tables.refresh(definition, clock)


def refresh_databases(
    tables: TableVersions, catalog: Catalog, clock: Callable[[], int], patience: float = PATIENCE
) -> None:
    """Ask the databases of tables that standing queries read, where that is due.

    All are asked at once, and what is not there after `patience` seconds is taken another time.
    """
    found = [t for t in tables_read(catalog) if t.format is None]
    until = time.monotonic() + patience
    for left in (0.0, None):  # none waits for the one before it
        for definition in found:
            wait = left if left is not None else max(0.0, until - time.monotonic())
            tables.refresh(definition, clock(), patience=wait)


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


def sweep_tables(pond: PondView, backfills: Backfills) -> None:
    """Remove versions that no epoch, no query and no kept publish record names, and what dropped tables left."""
    with pond.lock:
        epochs, catalog = pond.epochs, pond.catalog
        running = None if epochs.in_flight is None else read_manifest(pond.path, epochs.in_flight)
        if running is None and not pond.storage.pins:
            _sweep_dropped(pond.path, catalog)
        oldest = epochs.oldest_record
        records = [epochs.published, *([read_published(pond.path, oldest)] if oldest else [])]
        filling = {q for a in backfills.finished() for q in a.queries}
        named = named_versions(catalog, running, records)
        kept = [(d, named.get(d.id, pond.tables.state(d).version)) for d in settled_tables(catalog, filling)]
    for definition, version in kept:
        pond.tables.sweep(definition, version)


def _sweep_dropped(pond: str, catalog: Catalog) -> None:
    folder = os.path.join(pond, TABLES)
    for name in os.listdir(folder):
        if int(name.rsplit("-", 1)[1]) not in catalog.tables:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def settled_tables(catalog: Catalog, filling: Collection[int]) -> list[TableDefinition]:
    """The tables that no back-fill may read, in whatever version.

    Args:
        filling: queries whose back-fills are finished and not published yet.
    """
    waiting = [q for q in catalog.queries.values() if q.id in filling or "backfilling" in (q.status, q.reason)]
    names = {name for q in waiting for name in q.definition.query.table_names}
    return [t for t in catalog.tables.values() if t.name not in names]


def named_versions(catalog: Catalog, running: Manifest | None, records: Sequence[Published]) -> dict[int, int]:
    """The oldest version of each table that somebody may read; none of a table that nothing names.

    Args:
        running: the manifest of the epoch that runs. records: publish records that are kept.
    """
    published = records[0]
    progress = [*published.queries.values(), *(running.queries.values() if running is not None else ())]
    lookups = [*published.lookups.values(), *(running.lookups.values() if running is not None else ())]
    stretches = [s.versions for q in progress for s in q.tables] + [s.versions for each in lookups for s in each]
    known = [*stretches, *(r.versions for r in records), *([running.tables] if running is not None else [])]
    found: dict[int, int] = {}
    for number in catalog.tables:
        named = [versions[str(number)] for versions in known if str(number) in versions]
        if named:
            found[number] = min(named)
    return found


__all__ = ["refresh_databases", "refresh_files", "sweep_tables", "versions_now"]
