"""Arrow IPC files: what `ingest` lands. They are mapped, not copied."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from millpond.sources.formats.opening import check_taken, columnar, vanished
from millpond.sources.formats.parquet import found_in, match, needed_columns
from millpond.sources.formats.shape import Read, whole
from millpond.sources.intake_log import Item
from millpond.tables.stored_files import read_arrow
from millpond.types import StreamDefinition


def read(
    item: Item, definition: StreamDefinition, columns: Sequence[str] | None, db: duckdb.DuckDBPyConnection
) -> Read:
    """See `millpond.sources.formats.read.read`."""
    table = _table(item)
    if table is None:
        return whole(definition, columns)
    names = match(table.schema.names, definition)
    needed = needed_columns(table.schema, names, definition, columns)
    return found_in(table, len(table), needed, table.schema.names, item, definition, columns, db)


def tail(item: Item, column: str, rows: int) -> pa.ChunkedArray | None:
    """The last `rows` values of a column; None: there is no such column."""
    table = _table(item)
    name = None if table is None else next((n for n in table.schema.names if n.lower() == column.lower()), None)
    if table is None or name is None:
        return None
    return table.column(name).slice(max(0, len(table) - rows))


def _table(item: Item) -> pa.Table | None:
    if item.kind == "landing":
        return read_arrow(item.path)
    check_taken(item)
    if item.size == 0:
        return None
    with columnar(item, "Arrow"):
        try:
            # a file that others may truncate must not be mapped: reading behind its end would kill the process
            source = pa.OSFile(item.path)
        except OSError as error:
            raise vanished(item, error) from error
        table: pa.Table = pa.ipc.open_file(source).read_all()
        return table
