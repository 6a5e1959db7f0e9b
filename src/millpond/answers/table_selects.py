"""SELECTs over answers, tables and side streams: each relation as an Arrow table, the SQL in DuckDB."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.answers.adhoc import select_stream
from millpond.answers.archive_jobs import ANSWER_ROWS, TooManyRows
from millpond.answers.bounded_sql import bounded_table
from millpond.answers.finals import final_answers
from millpond.answers.relation_answers import current_relation
from millpond.answers.standing_answers import all_revisions, latest_answers
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.engine.core import Core
from millpond.language import RelationRef, TableQuery
from millpond.progress import FOREVER
from millpond.support.errors import QueryError
from millpond.tables.storage_types import from_storage
from millpond.types import ConstantInput, StreamDefinition, TableDefinition

#: The timestamp `infinity`, in microseconds.
INFINITE = 2**63 - 1


def select_relations(core: Core, query: TableQuery) -> pa.Table:
    """The answer of a SELECT over tables, answers, and streams as tables.

    Raises: QueryError when an expression of it fails on a row, or when it would read or give too many rows.
    """
    with core.pinned():  # all streams at one publish record
        tables = {ref.alias: _read(core, query, ref) for ref in query.relations if ref.file is None}
    files = {ref.alias: ref.file for ref in query.relations if ref.file is not None}
    answer = bounded_table(query.sql, ANSWER_ROWS, core.settings.select_timeout, tables, files)
    return answer if query.columns is None else answer.rename_columns([c.name for c in query.columns])


def _read(core: Core, query: TableQuery, ref: RelationRef) -> pa.Table:
    """The rows of one of its relations."""
    asked = query.asked.get(ref.alias)
    if asked is None:
        return relation_of(core, ref, query.ends.get(ref.alias))
    try:
        return select_stream(core, asked).select([c.name for c in ref.columns])
    except TooManyRows:
        raise QueryError(
            f"more than {ANSWER_ROWS:,} rows of '{ref.name}' would be needed as a table; a condition on them, or a"
            f" subquery with GROUP BY over {ref.name} alone, needs fewer"
        ) from None


def relation_of(core: Core, ref: RelationRef | ConstantInput, ends: tuple[int, int] | None = None) -> pa.Table:
    """The rows of a relation that is no stream; of answers those of windows with these ends, where they are given."""
    if ref.kind in ("query", "revisions", "final"):
        standing = core.catalog.query(ref.name)
        if standing is None:
            raise QueryError(f"there is no query '{ref.name}'")
        if ref.kind == "final":
            return final_answers(core, standing)
        if ref.kind == "query" and standing.definition.is_relation:
            return current_relation(core, standing)
        if ref.kind == "query":
            return latest_answers(core, standing, windows=ends)
        return all_revisions(core, standing, ends)
    found = core.catalog.lookup(ref.name)
    if isinstance(found, TableDefinition):
        return core.tables.rows(found, core.now())
    assert isinstance(found, StreamDefinition)
    return late_rows(core, found) if ref.kind == "late" else dead_letters(core, found)


def late_rows(core: Core, stream: StreamDefinition) -> pa.Table:
    """The rows of a stream that were late when they came, each with the watermark that it was behind, in total order.

    It is infinite for rows that count nowhere, whatever window they belong to.
    """
    runtime = core.streams[stream.id]
    wanted = Range(epoch=core.published.epoch)
    with core.pinned():
        split = whole_files(segments_in(runtime.archive.segments, wanted), wanted)
        parts = [t.filter(pc.is_valid(t["_bound"])) for t in ArchiveReader(core.path, stream).rows([split])]
    table = pa.concat_tables(parts) if parts else runtime.schema.empty_table()
    ordered = table.sort_by([(stream.options.time, "ascending"), ("_id", "ascending")])
    *own, watermark = stream.late_columns
    shown = ordered.select([c.name for c in own])
    behind = pc.if_else(pc.less(ordered["_bound"], FOREVER), ordered["_bound"], pa.scalar(INFINITE, pa.int64()))
    return shown.append_column(watermark.name, behind.cast(pa.timestamp("us")))


def dead_letters(core: Core, stream: StreamDefinition) -> pa.Table:
    """The records of a stream that could not be taken, with reason, source and position."""
    runtime, epoch = core.streams[stream.id], core.published.epoch
    # Letters of a back-fill are of earlier epochs than the one that brings them.
    files = sorted((s for s in runtime.dead.segments if s.first_epoch <= epoch), key=lambda s: s.path)
    paths = [os.path.join(runtime.dead.folder, s.path) for s in files]
    tables = [from_storage(pq.read_table(p, partitioning=None), runtime.dead.schema) for p in paths]
    table = pa.concat_tables(tables) if tables else runtime.dead.schema.empty_table()
    return table.filter(pc.less_equal(table["epoch"], epoch))
