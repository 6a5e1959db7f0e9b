"""Which versions of tables the rows of windows see.

A new version of a table holds for rows from behind the largest event time that had come when it was read. So which
version a row sees depends on its event time alone: not on whether it was late, and not on the epoch that took it; a
back-fill and an INVOKE join it as it was joined when it came (decision 0051).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from millpond.catalog import Catalog, Synopsis
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.windowed.needs import keep_since
from millpond.progress import NEVER, StreamProgress
from millpond.sources.table_sources.versions import TableVersions
from millpond.support.errors import QueryError
from millpond.types import StreamQuery, TableDefinition, TableStretch


def stretches_now(
    catalog: Catalog,
    known: Mapping[str, tuple[TableStretch, ...]],
    progress: Mapping[str, StreamProgress],
    queries: Mapping[str, QueryProgress],
    current: Mapping[str, int],
    failures: Failures,
) -> dict[str, tuple[TableStretch, ...]]:
    """Which versions the rows of an epoch see, by synopsis; nothing for one of whose tables there is no version.

    Arguments:
        known: what was recorded last. current: the last version of each table, by id.
    """
    found: dict[str, tuple[TableStretch, ...]] = {}
    for owner, synopsis in catalog.synopses.items():
        lookup = synopsis.spec.lookup
        if lookup is None or any(not current.get(str(t.id)) for t in lookup.tables):
            continue
        versions = {str(t.id): current[str(t.id)] for t in lookup.tables}
        high = max(progress.get(str(s), StreamProgress()).high for s in synopsis.spec.streams)
        stretches = with_version(known.get(owner, ()), versions, high)
        found[owner] = _trimmed(stretches, _needed(catalog, synopsis, queries, high, failures))
    return found


def with_version(known: tuple[TableStretch, ...], versions: dict[str, int], high: int) -> tuple[TableStretch, ...]:
    """The stretches when these are the current versions, and `high` is the largest event time so far.

    >>> with_version((), {"1": 1}, 50)[0].versions
    {'1': 1}
    >>> [s.since for s in with_version((TableStretch(0, {"1": 1}),), {"1": 2}, 50)]
    [0, 51]
    """
    if not known:
        return (TableStretch(NEVER, versions),)
    last = known[-1]
    if last.versions == versions:
        return known
    since = high + 1 if high > NEVER else NEVER
    if since <= last.since:  # no row has seen the last one
        return (*known[:-1], TableStretch(last.since, versions))
    return (*known, TableStretch(since, versions))


def _needed(
    catalog: Catalog, synopsis: Synopsis, queries: Mapping[str, QueryProgress], high: int, failures: Failures
) -> int:
    """The event time from which rows of a synopsis may still be read or come late."""
    stream = catalog.streams[synopsis.spec.stream]
    users = catalog.served(synopsis.owner)
    if not users or any(str(q.id) not in queries for q in users):
        return NEVER
    return min(failures.each(users, lambda q: keep_since(synopsis, q, stream, queries[str(q.id)].closed, high), NEVER))


def _trimmed(stretches: tuple[TableStretch, ...], since: int) -> tuple[TableStretch, ...]:
    while len(stretches) > 1 and stretches[1].since <= since:
        stretches = (replace(stretches[1], since=NEVER), *stretches[2:])
    return stretches


Q = TypeVar("Q", bound=StreamQuery)


def seen_by(tables: TableVersions, catalog: Catalog, clock: int, query: Q, known: tuple[TableStretch, ...] = ()) -> Q:
    """A query as a job answers it: with the versions that rows of its synopsis see, else with the last ones.

    Args:
        clock: a reading (microseconds), for tables that are to be read first.
        known: what is published of the query's synopsis.

    Raises: QueryError when a table was never read.
    """
    if query.lookup is None or query.lookup.seen:
        return query
    if not known:
        versions = {}
        for each in query.lookup.tables:
            definition = catalog.lookup(each.name)
            if not isinstance(definition, TableDefinition):
                raise QueryError(f"the table '{each.name}' was dropped")
            state = tables.refresh(definition, clock)
            if not state.version:
                raise QueryError(state.problem)
            versions[str(each.id)] = state.version
        known = (TableStretch(NEVER, versions),)
    return replace(query, lookup=replace(query.lookup, seen=known))
