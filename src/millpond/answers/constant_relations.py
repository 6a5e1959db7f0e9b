"""Relations that are no streams, as Arrow tables: tables, answers, late rows and dead letters."""

from __future__ import annotations

import os
from typing import TypeVar, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.finals import final_answers
from millpond.answers.relation_answers import current_relation
from millpond.answers.standing_answers import all_revisions, latest_answers
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.catalog import Catalog, Standing
from millpond.engine.pond_view import PondView
from millpond.progress import FOREVER
from millpond.support.errors import QueryError
from millpond.tables.storage_types import from_storage
from millpond.tables.stored_files import read_parquet
from millpond.types import ConstantInput, StreamDefinition, TableDefinition
from millpond.types.relation_queries import (
    AnswersInput,
    DeadInput,
    FinalInput,
    LateInput,
    RevisionsInput,
    TableInput,
)

#: The timestamp `infinity`, in microseconds.
INFINITE = 2**63 - 1


def relation_of(pond: PondView, ref: ConstantInput, ends: tuple[int, int] | None = None) -> pa.Table:
    """The rows of a relation that is no stream; of answers those of windows with these ends, where they are given."""
    match ref:
        case TableInput():
            return pond.tables.rows(_found(pond.catalog, ref, TableDefinition), pond.now())
        case LateInput():
            return late_rows(pond.archives, _found(pond.catalog, ref, StreamDefinition))
        case DeadInput():
            return dead_letters(pond.archives, _found(pond.catalog, ref, StreamDefinition))
        case RevisionsInput():
            return all_revisions(pond, _answered(pond.catalog, ref), ends)
        case FinalInput():
            return final_answers(pond, _answered(pond.catalog, ref))
        case AnswersInput():
            standing = _answered(pond.catalog, ref)
            if standing.definition.is_relation:
                return current_relation(pond, standing)
            return latest_answers(pond, standing, windows=ends)
        case _:
            assert_never(ref)


D = TypeVar("D")


def _found(catalog: Catalog, ref: ConstantInput, kind: type[D]) -> D:
    found = catalog.lookup(ref.name)
    assert isinstance(found, kind)
    return found


def _answered(catalog: Catalog, ref: ConstantInput) -> Standing:
    standing = catalog.query(ref.name)
    if standing is None:
        raise QueryError(f"there is no query '{ref.name}'")
    return standing


def late_rows(archives: Archives, stream: StreamDefinition) -> pa.Table:
    """The rows of a stream that were late when they came, each with the watermark that it was behind, in total order.

    It is infinite for rows that count nowhere, whatever window they belong to.
    """
    runtime = archives.streams[stream.id]
    wanted = Range(epoch=archives.published.epoch)
    with archives.pinned():
        split = whole_files(segments_in(runtime.archive.segments, wanted), wanted)
        parts = [t.filter(pc.is_valid(t["_bound"])) for t in ArchiveReader(archives.path, stream).rows([split])]
    table = pa.concat_tables(parts) if parts else runtime.schema.empty_table()
    ordered = table.sort_by([(stream.options.time, "ascending"), ("_id", "ascending")])
    *own, watermark = stream.late_columns
    shown = ordered.select([c.name for c in own])
    behind = pc.if_else(pc.less(ordered["_bound"], FOREVER), ordered["_bound"], pa.scalar(INFINITE, pa.int64()))
    return shown.append_column(watermark.name, behind.cast(pa.timestamp("us")))


def dead_letters(archives: Archives, stream: StreamDefinition) -> pa.Table:
    """The records of a stream that could not be taken, with reason, source and position."""
    runtime, epoch = archives.streams[stream.id], archives.published.epoch
    # Letters of a back-fill are of earlier epochs than the one that brings them.
    files = sorted((s for s in runtime.dead.segments if s.first_epoch <= epoch), key=lambda s: s.path)
    paths = [os.path.join(runtime.dead.folder, s.path) for s in files]
    tables = [from_storage(read_parquet(p), runtime.dead.schema) for p in paths]
    table = pa.concat_tables(tables) if tables else runtime.dead.schema.empty_table()
    return table.filter(pc.less_equal(table["epoch"], epoch))
