"""SELECTs over answers, tables and side streams: each relation as an Arrow table, the SQL in DuckDB."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.engine.core import Core
from millpond.engine.history import Range, batches, segments_in
from millpond.errors import QueryError, SourceError
from millpond.language import RelationQuery, RelationRef
from millpond.results.answers import all_revisions, latest_answers
from millpond.results.finals import final_answers
from millpond.sources.intake import Item
from millpond.sources.read import read
from millpond.synopses import connection, query_table
from millpond.tables.storage import from_storage
from millpond.types import StreamDefinition, StreamOptions, TableDefinition


def select_relations(core: Core, query: RelationQuery) -> pa.Table:
    """The answer of a SELECT without streams."""
    tables = {ref.alias: _relation(core, ref) for ref in query.relations}
    return query_table(connection(), query.sql, **tables).rename_columns([c.name for c in query.columns])


def _relation(core: Core, ref: RelationRef) -> pa.Table:
    if ref.kind in ("query", "revisions", "final"):
        standing = core.catalog.query(ref.name)
        if standing is None:
            raise QueryError(f"there is no query '{ref.name}'")
        if ref.kind == "final":
            return final_answers(core, standing)
        return latest_answers(core, standing) if ref.kind == "query" else all_revisions(core, standing)
    found = core.catalog.lookup(ref.name)
    if isinstance(found, TableDefinition):
        return read_table(found)
    assert isinstance(found, StreamDefinition)
    return late_rows(core, found) if ref.kind == "late" else dead_letters(core, found)


def late_rows(core: Core, stream: StreamDefinition) -> pa.Table:
    """The rows of a stream that were late when they came, in total order."""
    runtime = core.streams[stream.id]
    wanted = Range(epoch=core.published.epoch)
    with core.pinned():
        parts = [
            t.filter(pc.is_valid(t["_bound"]))
            for t in batches(core.path, stream, segments_in(runtime.archive.segments, wanted), wanted)
        ]
    table = pa.concat_tables(parts) if parts else runtime.schema.empty_table()
    ordered = table.sort_by([(stream.options.time, "ascending"), ("_id", "ascending")])
    return ordered.select([c.name for c in stream.all_columns])


def dead_letters(core: Core, stream: StreamDefinition) -> pa.Table:
    """The records of a stream that could not be taken, with reason, source and position."""
    runtime = core.streams[stream.id]
    paths = [os.path.join(runtime.dead.folder, s.path) for s in sorted(runtime.dead.segments, key=lambda s: s.path)]
    tables = [from_storage(pq.read_table(p, partitioning=None), runtime.dead.schema) for p in paths]
    table = pa.concat_tables(tables) if tables else runtime.dead.schema.empty_table()
    return table.filter(pc.less_equal(table["epoch"], core.published.epoch))


def read_table(definition: TableDefinition) -> pa.Table:
    """All rows of a table's files, as they are now.

    Raises: SourceError when there is no file, or a record does not fit the declared columns.
    """
    paths = _table_files(definition.path)
    if not paths:
        raise SourceError(f"table '{definition.name}': there is no file at {definition.path}")
    as_stream = StreamDefinition(
        definition.name,
        definition.columns,
        StreamOptions(
            "files",
            definition.path,
            definition.format,
            header=definition.header,
            delimiter=definition.delimiter,
            null=definition.null,
        ),
    )
    tables = []
    for number, path in enumerate(paths):
        stat = os.stat(path)
        item = Item(number, "file", path, definition.format, stat.st_size, stat.st_mtime_ns, "", None, "", 0)
        result = read(item, as_stream, None, connection())
        if result.rejected.num_rows:
            first = result.rejected.slice(0, 1).to_pylist()[0]
            raise SourceError(f"table '{definition.name}': {path}, record {first['position']}: {first['reason']}")
        tables.append(result.rows.select([c.name for c in definition.columns]))
    return pa.concat_tables(tables, promote_options="permissive")


def _table_files(path: str) -> Sequence[str]:
    full = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(full):
        return sorted(
            p for p in glob.glob(os.path.join(full, "*")) if os.path.isfile(p) and os.path.basename(p)[0] not in "._"
        )
    return sorted(p for p in glob.glob(full, recursive=True) if os.path.isfile(p))
