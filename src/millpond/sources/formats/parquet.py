"""Parquet files. Columns whose type is the stream's already come straight from the file."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.sources.formats.carriers import Carrier, carriers
from millpond.sources.formats.convert import never_unfit, without_wide_decimals
from millpond.sources.formats.opening import check_taken, columnar, vanished
from millpond.sources.formats.shape import (
    Found,
    Indices,
    Read,
    shape,
    shortened,
    value_texts,
    wanted,
    whole,
)
from millpond.sources.intake_log import Item
from millpond.types import StreamDefinition


def read(
    item: Item, definition: StreamDefinition, columns: Sequence[str] | None, db: duckdb.DuckDBPyConnection
) -> Read:
    """See `millpond.sources.formats.read.read`."""
    if item.size == 0:
        check_taken(item)
        return whole(definition, columns)
    with opened(item) as file, columnar(item, "Parquet"):
        names = match(file.schema_arrow.names, definition)
        needed = needed_columns(file.schema_arrow, names, definition, columns)
        table = file.read(columns=list(needed.values()), use_threads=False)
        length = file.metadata.num_rows
    return found_in(table, length, needed, file.schema_arrow.names, item, definition, columns, db)


def tail(item: Item, column: str, rows: int) -> pa.ChunkedArray | None:
    """The last `rows` values of a column, reading the last row groups only; None: there is no such column."""
    if item.size == 0:
        return None
    with opened(item) as file, columnar(item, "Parquet"):
        name = next((n for n in file.schema_arrow.names if n.lower() == column.lower()), None)
        if name is None:
            return None
        groups: list[int] = []
        count = 0
        for group in reversed(range(file.metadata.num_row_groups)):
            if count >= rows:
                break
            groups.insert(0, group)
            count += file.metadata.row_group(group).num_rows
        read: pa.Table = file.read_row_groups(groups, columns=[name], use_threads=False)
        return read.column(0).slice(max(0, len(read) - rows))


def opened(item: Item) -> pq.ParquetFile:
    """The file, with its footer read. Raises SourceError or Unreadable."""
    check_taken(item)
    with columnar(item, "Parquet"):
        try:
            source = pa.OSFile(item.path)
        except OSError as error:
            raise vanished(item, error) from error
        return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")


def match(names: Sequence[str], definition: StreamDefinition) -> dict[str, str]:
    """The stream's column (lower case) → the file's column. An exact name goes before one in other letters."""
    matched: dict[str, str] = {}
    for carrier in carriers(definition):
        same = [n for n in names if n.lower() == carrier.name.lower()]
        if same and not definition.makes(carrier.name):
            matched[carrier.name.lower()] = carrier.name if carrier.name in same else same[0]
    return matched


def needed_columns(
    schema: pa.Schema, names: dict[str, str], definition: StreamDefinition, columns: Sequence[str] | None
) -> dict[str, str]:
    """Which of the matched columns must be read: the asked ones, the event time, and all that could be unfit."""
    asked = {c.name.lower() for c in wanted(definition, columns)} | {definition.options.time.lower()}
    generated = bool(definition.options.generated)  # of any columns, and they may fail

    def needed(carrier: Carrier) -> bool:
        name = carrier.name.lower()
        if name not in names:
            return False
        if generated:
            return True
        return name in asked or not never_unfit(schema.field(schema.names.index(names[name])).type, carrier)

    return {c.name.lower(): names[c.name.lower()] for c in carriers(definition) if needed(c)}


def found_in(
    table: pa.Table,
    length: int,
    needed: dict[str, str],
    names: Sequence[str],
    item: Item,
    definition: StreamDefinition,
    columns: Sequence[str] | None,
    db: duckdb.DuckDBPyConnection,
) -> Read:
    """The stream's rows out of a table as the file holds it. names: all columns of the file."""

    def record(rows: Indices) -> pa.Array:
        if table.num_columns == 0:  # the file has no column of the stream: nothing to show, and no length either
            return pa.repeat("{}", len(rows))
        return shortened(_records(table.take(pa.array(rows)), db))

    found = {name: table.column(table.schema.names.index(own)) for name, own in needed.items()}
    unknown = len(names) - len(match(names, definition))
    return shape(Found(found, length, record, unknown=unknown, names=names), item, definition, columns, db)


def _records(rows: pa.Table, db: duckdb.DuckDBPyConnection) -> pa.Array:
    """Rows as JSON text."""
    if rows.num_columns == 0:
        return pa.repeat("{}", len(rows))
    # DuckDB dies of instants that microseconds do not reach; as text they do no harm.
    for at, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit in ("s", "ms"):
            rows = rows.set_column(at, field.name, value_texts(rows.column(at), db))
        else:
            rows = rows.set_column(at, field.name, without_wide_decimals(rows.column(at)))
    db.register("millpond_records", rows)
    try:
        return db.sql("SELECT CAST(to_json(r) AS VARCHAR) AS c FROM millpond_records r").to_arrow_table().column(0)
    except duckdb.Error:  # text that is not UTF-8, or a type without JSON
        texts = [shortened(value_texts(column, db)).fill_null("NULL") for column in rows.columns]
        return pc.binary_join_element_wise(*texts, ", ")
    finally:
        db.unregister("millpond_records")


__all__ = ["found_in", "match", "needed_columns", "opened", "read", "tail"]
