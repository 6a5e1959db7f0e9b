"""Relations of CQL when somebody asks: R(τ) from the archive, for who invokes or reads a standing query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa

from millpond.answers.expired_history import check_reach
from millpond.answers.row_queries.moments import Inputs, now_of, progress_of, record_of
from millpond.archive.open_archives import Archives
from millpond.archive.planning.scans import Scan, described
from millpond.catalog import Catalog, Standing
from millpond.engine.pond_view import PondView
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Published
from millpond.operators.registry import relations_over
from millpond.operators.relation.table_use import version_at
from millpond.operators.relational.history import InputReader
from millpond.operators.relational.readers import FAULTS, Constants
from millpond.progress import FOREVER, NEVER
from millpond.sources.table_sources.versions import table_version
from millpond.support.errors import QueryError
from millpond.synopses import connection, query_table
from millpond.synopses.finish import empty_answers
from millpond.synopses.tolerance import one_line
from millpond.types import (
    Column,
    QueryOptions,
    RelationalQuery,
    RelationInput,
    StreamDefinition,
    TableDefinition,
)
from millpond.types.as_of import AsOf

T = TypeVar("T")

#: Rows that a window may hold when somebody asks for a relation: they are read in the pond's process.
INPUT_ROWS = 20_000_000


def invoke_relation(pond: PondView, standing: Standing, as_of: AsOf = None) -> pa.Table:
    """R(τ) of a relational query: at, the select list, final (whether progress has passed τ).

    Arguments:
        as_of: None: τ is NOW, the largest event time admitted. 'watermark': τ is the last final instant.
            ('timestamp', t): τ is t, with all that is known today. ('epoch', n): NOW when epoch n was published.
    """
    query = standing.relational
    inputs = inputs_of(pond.catalog, query)
    now, published = _moment(pond.path, pond.published, inputs, as_of)
    columns = [Column("at", "TIMESTAMP"), *(Column(o.name, o.type) for o in query.select), Column("final", "BOOLEAN")]
    if now is None:
        return empty_answers(connection(), columns)
    for item in query.inputs:
        streams = pond.catalog.streams_named(item.names)
        begin = relations_over(query).reach(query, item, now)
        check_reach(pond.archives, streams, begin, now, item.reduce is not None)
    reader = InputReader(pond.archives, query, published, most=INPUT_ROWS, live_from=standing.first_epoch)
    final = "true" if progress_of(pond.published, inputs) > now else "false"
    versions = _versions(pond.published, standing, published, now)
    found = relation_at(reader, query, now, partial(_tables, pond, query, versions))
    sql = f'SELECT make_timestamp(_at) AS "at", {outputs_of(query)}, {final} AS final FROM f{in_order(query)}'
    return told(query_table(connection(), sql, f=found), reader.scans)


def told(table: pa.Table, scans: Sequence[Scan]) -> pa.Table:
    """An answer that tells what reduced scans it was made of: of the first one, with what all of them read."""
    if not scans:
        return table
    first, *others = scans
    for other in others:
        first.counters.add(other.counters)
        first.rows += other.rows
        first.stretches += other.stretches
    return described(table, first)


def relation_moment(
    archives: Archives, published: Published, standing: Standing, as_of: AsOf
) -> tuple[int, int, int | None, int | None, bool]:
    """now, progress, begin, end, final of an invocation, as an `Answer` has them."""
    inputs = inputs_of(archives.catalog, standing.relational)
    now, _ = _moment(archives.path, archives.published, inputs, as_of)
    progress = progress_of(published, inputs)
    return (NEVER if now is None else now), progress, now, now, now is not None and progress > now


def current_relation(pond: PondView, standing: Standing) -> pa.Table:
    """R at the last final instant: what `SELECT … FROM query` sees of a relation."""
    query = standing.relational
    known = pond.published.queries.get(str(standing.id), QueryProgress())
    if known.closed <= NEVER:
        return empty_answers(connection(), [Column(o.name, o.type) for o in query.select])
    last = max((_end(pond.catalog, i, pond.published) for i in query.inputs), default=NEVER)
    instant = known.closed - 1 if known.closed < FOREVER else last
    reader = InputReader(pond.archives, query, pond.published, most=INPUT_ROWS, live_from=standing.first_epoch)
    versions = _versions(pond.published, standing, pond.published, instant)
    found = relation_at(reader, query, instant, partial(_tables, pond, query, versions), standing.definition.options)
    return query_table(connection(), f"SELECT {outputs_of(query)} FROM f{in_order(query)}", f=found)


def inputs_of(catalog: Catalog, query: RelationalQuery) -> Inputs:
    """The streams that a relation is over, unions together."""
    found: list[StreamDefinition | Sequence[StreamDefinition]] = []
    for item in query.inputs:
        streams = catalog.streams_named(item.names)
        found += [streams] if item.feeds else streams
    return found


def _moment(pond: str, published: Published, streams: Inputs, as_of: AsOf) -> tuple[int | None, Published]:
    """The instant that is asked about, and the epoch whose rows are seen."""
    if as_of is None:
        return now_of(published, streams), published
    if as_of == "watermark":
        progress = progress_of(published, streams)
        if progress >= FOREVER:
            return now_of(published, streams), published
        return (progress - 1 if progress > NEVER else None), published
    kind, value = as_of
    if kind == "timestamp":
        return value, published
    record = record_of(pond, published, value)
    return now_of(record, streams), record


def relation_at(
    reader: InputReader,
    query: RelationalQuery,
    instant: int,
    tables: Constants,
    options: QueryOptions | None = None,
) -> pa.Table:
    """What holds at an instant, columns `_at`, c0, c1, …; arguments as of `RowReader.past_at`."""
    with reader.archives.pinned():
        return answered(lambda: relations_over(query).past_at(reader, query, instant, tables, options))


def answered(part: Callable[[], T]) -> T:
    """What a part of an answer gives. Raises: QueryError when the query's own data cannot be evaluated."""
    try:
        return part()
    except FAULTS as error:
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error


def _tables(pond: PondView, query: RelationalQuery, versions: Mapping[str, int]) -> dict[str, pa.Table]:
    """The tables of a standing query; those that have no version here as they are now."""
    found = {}
    for each in query.tables:
        definition = pond.catalog.lookup(each.name)
        assert isinstance(definition, TableDefinition)  # nothing else that is constant is part of a standing query
        version = versions.get(str(definition.id))
        now = pond.tables.rows(definition, pond.now()) if version is None else None
        found[each.alias] = now if version is None else table_version(pond.path, definition, version)
    return found


def _versions(last: Published, standing: Standing, published: Published, instant: int) -> Mapping[str, int]:
    """The versions of tables that an instant of a standing query is looked at with: those it was reported with."""
    known = last.queries.get(str(standing.id), QueryProgress())
    return version_at(known, instant) or published.versions


def outputs_of(query: RelationalQuery) -> str:
    """The SELECT list as DuckDB SQL over c0, c1, …"""
    return ", ".join(o.sql for o in query.select)


def in_order(query: RelationalQuery) -> str:
    """Behind SELECT: what sorts the rows of a relation that do not lie as its own ORDER BY says."""
    return "" if query.in_order else " ORDER BY ALL"


def _end(catalog: Catalog, item: RelationInput, published: Published) -> int:
    streams = catalog.streams_named(item.names)
    high = max((published.progress[str(s.id)].high for s in streams if str(s.id) in published.progress), default=NEVER)
    if high <= NEVER:
        return NEVER
    reach = item.window.reach
    return high if reach is None else high + reach + 1
