"""ENUMs between kernels: Arrow carries them as dictionaries, which DuckDB reads as plain text, in text's order.

DuckDB writes an ENUM as a dictionary of all its values in their declared order, so the type can be had back from the
data wherever values are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from millpond.support.sql import cast_item, quote, text_literal
from millpond.synopses.kernel import query_table
from millpond.synopses.standing_views import visible


def query_ordered(db: duckdb.DuckDBPyConnection, sql: str, **tables: pa.Table) -> pa.Table:
    """As `query_table`, with ENUMs where the tables have dictionaries, also inside lists, structs and maps.

    Not for SQL that hashes: the shards of groups are chosen by the hashes of texts.
    """
    views: list[str] = []
    for name, table in tables.items():
        if not any(_has_dictionary(field.type) for field in table.schema):
            continue
        tables[name] = table = _readable(table)
        casts = _casts(db, table)
        if casts:
            views.append(f"{name} AS (SELECT * REPLACE ({', '.join(casts)}) FROM {name})")
    if views:
        rest = f", {sql.removeprefix('WITH ')}" if sql.startswith("WITH ") else f" {sql}"
        sql = f"WITH {', '.join(views)}{rest}"
    return query_table(db, sql, **tables)


def put_together(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of the same columns as one; where an ENUM stands beside texts, all of it is text.

    SQL that hashes gives texts for ENUMs, and so does SQL over no rows.

    >>> put_together([pa.table({"k": pa.array(["a"]).dictionary_encode()}), pa.table({"k": ["b"]})])["k"].to_pylist()
    ['a', 'b']
    """
    fields = [
        name for name in tables[0].column_names if len({t[name].type for t in tables if name in t.schema.names}) > 1
    ]
    for name in fields:
        if any(_has_dictionary(t[name].type) for t in tables):
            tables = [t.set_column(t.column_names.index(name), name, _as_texts(t[name])) for t in tables]
    return pa.concat_tables(tables, promote_options="permissive")


def _as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(_without_dictionary(column.type))


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if not _has_dictionary(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_without_dictionary(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_without_dictionary(kind.key_type), _without_dictionary(kind.item_type))
    return pa.list_(kind.value_field.with_type(_without_dictionary(kind.value_type)))


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


def _readable(table: pa.Table) -> pa.Table:
    """The table without lists of a fixed size that hold dictionaries, of which DuckDB reads the indices as values."""
    for i, field in enumerate(table.schema):
        if pa.types.is_fixed_size_list(field.type) and _has_dictionary(field.type):
            table = table.set_column(i, field.name, table[field.name].cast(pa.list_(field.type.value_type)))
    return table


def _casts(db: duckdb.DuckDBPyConnection, table: pa.Table) -> list[str]:
    """`CAST(column AS type) AS column` for the columns that hold dictionaries."""
    read = query_types(db, table)
    found = []
    for name, kind in zip(table.column_names, read, strict=True):
        column = table[name]
        if _has_dictionary(column.type) and (wanted := _type(kind, column.type, column.chunks)) != str(kind):
            quoted = quote(name)
            found.append(cast_item(quoted, wanted))
    return found


def query_types(db: duckdb.DuckDBPyConnection, table: pa.Table) -> list[Any]:
    """The types that DuckDB reads the columns of a table as."""
    with visible(db, {"typed": table}):
        return list(db.sql("SELECT * FROM typed").types)


def _type(read: Any, kind: pa.DataType, chunks: list[pa.Array]) -> str:
    """The declared type of values that DuckDB reads as `read`."""
    if pa.types.is_dictionary(kind):
        return _enum(chunks) or str(read)
    if not _has_dictionary(kind):
        return str(read)
    inner = dict(read.children)
    if pa.types.is_map(kind):
        key = _type(inner["key"], kind.key_type, [c.keys for c in chunks])
        return f"MAP({key}, {_type(inner['value'], kind.item_type, [c.items for c in chunks])})"
    if pa.types.is_struct(kind):
        fields = ", ".join(
            f"{quote(f.name)} {_type(inner[f.name], f.type, [c.field(i) for c in chunks])}" for i, f in enumerate(kind)
        )
        return f"STRUCT({fields})"
    return f"{_type(inner['child'], kind.value_type, [c.values for c in chunks])}[]"


def _enum(chunks: list[pa.Array]) -> str | None:
    """The ENUM of dictionary arrays; None when they have no values, or differ."""
    values: list[str] | None = None
    for each in _dictionaries(chunks):
        if values is not None and each != values:
            return None
        values = each
    if not values:
        return None
    listed = ", ".join(map(text_literal, values))
    return f"ENUM({listed})"


def _dictionaries(chunks: list[pa.Array]) -> Iterator[list[str]]:
    last: pa.Array | None = None
    for chunk in chunks:
        if len(chunk.dictionary) and (last is None or not chunk.dictionary.equals(last)):
            last = chunk.dictionary
            yield last.to_pylist()
