"""Final answers: each row once, when it can no longer change, in order of the windows' ends.

A window is final when progress has passed it by more than late rows can revise (`revise_for`; under late='drop' when it
is closed), or when its stream has ended and takes nothing in any more. The horizon only rises, and behind it nothing
appears or changes: so final rows are one sequence, of which a consumer has seen a beginning, whatever epochs were. The
same of the instants that a relational query reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa

from millpond.answers.standing_answers import latest_changes_sql, log_columns, order_terms, read_log
from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Standing
from millpond.engine.pond_view import PondView
from millpond.manifests.places import query_owner, results_folder
from millpond.manifests.records import Published
from millpond.operators.registry import answering_kind, operators_of
from millpond.progress import NEVER
from millpond.support.sql import quote
from millpond.synopses import connection, query_table
from millpond.synopses.finish import empty_answers, identity
from millpond.tables.chunks import read_heads
from millpond.types import STATUS, QueryDefinition, StreamDefinition

#: Rows that are read at a time, as long as they are of more than one window.
AT_ONCE = 250_000

#: The value of the column `status` of rows that can no longer change.
FINAL = "final"


def final_until(catalog: Catalog, standing: Standing, published: Published) -> int:
    """The event time until which answers are final: windows that end, or instants that lie, at or before it; NEVER if
    none is."""
    progress = published.queries.get(str(standing.id))
    if progress is None:
        return NEVER
    answering = operators_of(catalog).answering
    if standing.id not in answering:  # it is quarantined, and what it has answered stays so
        return answering_kind(standing.definition.query).answered(progress) - 1
    ended = all(_ends_for_good(catalog, s) for s in catalog.streams_of(standing))
    return answering[standing.id].final_until(standing, progress, published.progress, ended)


def _ends_for_good(catalog: Catalog, stream: StreamDefinition) -> bool:
    """Whether a stream that has ended takes nothing in any more; files that come then are late rows."""
    if stream.derived is None:
        return stream.options.source == "ingest"
    streams = catalog.streams
    return all(s in streams and _ends_for_good(catalog, streams[s]) for s in stream.derived.sources)


def final_rows(pond: PondView, standing: Standing, after: int, until: int) -> pa.Table:
    """Final rows of the windows with after < end <= until (microseconds), in order, with the query's columns and op."""
    definition = standing.definition
    log = read_log(pond, standing, windows=(after, until))
    query = definition.query
    if not query.keyed:
        return _final_changes(definition, log)
    columns = ", ".join([*_shown(definition), "op"])
    key = ", ".join([query.end_column, *identity(query)])
    latest = f"SELECT * FROM log QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY revision DESC) = 1"
    sql = f"SELECT {columns} FROM ({latest}) WHERE op = '+' ORDER BY {order_terms(definition)}"
    if not log.num_rows:
        log = empty_answers(connection(), log_columns(definition))
    return query_table(connection(), sql, log=log)


def _final_changes(definition: QueryDefinition, log: pa.Table) -> pa.Table:
    """The rows of a relational query that remain of a log, each as often as it does."""
    columns = ", ".join([*_shown(definition), "'+' AS op"])
    return query_table(connection(), f"SELECT {columns} FROM ({latest_changes_sql(definition)})", log=log)


def _shown(definition: QueryDefinition) -> list[str]:
    """The columns of final answers; with early ones there is a status beside those that the query selects."""
    own = {STATUS: f"'{FINAL}' AS {STATUS}"} if definition.options.early is not None else {}
    return [own.get(column.name, quote(column.name)) for column in definition.columns]


def final_answers(pond: PondView, standing: Standing) -> pa.Table:
    """All rows that can no longer change: `SELECT … FROM query FINAL`."""
    with pond.pinned():
        until = final_until(pond.catalog, standing, pond.published)
        return final_rows(pond, standing, NEVER - 1, until).drop_columns(["op"])


def spans(archives: Archives, standing: Standing, after: int, until: int) -> Iterator[int]:
    """The windows with after < end <= until cut into spans of at most about `AT_ONCE` answers; the last end of each."""
    ends: list[tuple[int, int]] = []
    with archives.pinned():
        for segment in archives.storage.results.segments:
            path = os.path.join(results_folder(archives.path), segment.path)
            if segment.high > after and segment.low <= until:
                ends += [(segment.high, rows) for _, _, rows in read_heads(path, query_owner(standing.id))]
    held = 0
    for high, rows in sorted(ends):
        held += rows
        if held > AT_ONCE and after < high < until:
            yield high
            after, held = high, 0
    if until > after:
        yield until


__all__ = ["FINAL", "final_answers", "final_rows", "final_until", "spans"]
