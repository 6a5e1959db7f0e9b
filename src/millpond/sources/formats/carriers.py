"""How the columns of a stream are carried in Arrow: one canonical type for every declared type.

Most types are carried as DuckDB exports them. Timestamps are microseconds (with zone: UTC). Types that Arrow cannot
hold without loss are carried as their DuckDB text: ENUM, UUID, BIT, BIGNUM, JSON, TIME WITH TIME ZONE; 128-bit
integers as DECIMAL(38,0). `typed_select` gives a kernel the declared types back.

    >>> from millpond.types import Column
    >>> arrow_schema(StreamDefinition("s", (Column("ts", "TIMESTAMP"), Column("e", "ENUM('a', 'b')"))))
    ts: timestamp[us]
    e: string
    arrival_ts: timestamp[us]
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import duckdb
import pyarrow as pa

from millpond.support.errors import SourceError
from millpond.support.sql import cast_item, quote
from millpond.types import Column, StreamDefinition

#: What the declared types, by the identifier that DuckDB gives them, are carried as.
_CARRIED_AS: Final = {
    "enum": "VARCHAR",
    "uuid": "VARCHAR",
    "json": "VARCHAR",
    "bit": "VARCHAR",
    "bignum": "VARCHAR",
    "varint": "VARCHAR",
    "time with time zone": "VARCHAR",
    "hugeint": "DECIMAL(38,0)",
    "uhugeint": "DECIMAL(38,0)",
    "timestamp_s": "TIMESTAMP",
    "timestamp_ms": "TIMESTAMP",
    "timestamp_ns": "TIMESTAMP",
    "time_ns": "TIME",
}
_PARSED_AS: Final = {
    kind: "TIMESTAMP WITH TIME ZONE" for kind in ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
}
_REFUSED: Final = frozenset({"union", "variant", "geometry"})

#: The nested types.
NESTED: Final = frozenset({"list", "array", "struct", "map"})


@dataclass(frozen=True)
class Carrier:
    """How one column is carried.

    declared: the DuckDB type as declared. carried: the DuckDB type of what carries it. arrow: the Arrow type.
    checked: values of that Arrow type may still not fit (text that is not a UUID), so they must be looked at.
    kind: DuckDB's identifier of the declared type ('timestamp', 'struct', …).
    parsed: the DuckDB type that text is parsed as: `declared` with zones, so that offsets in timestamps count.
    """

    name: str
    declared: str
    carried: str
    arrow: pa.DataType
    checked: bool
    kind: str
    parsed: str

    @property
    def nested(self) -> bool:
        """Whether it is a list, an array, a struct or a map."""
        return self.kind in NESTED


_local = threading.local()


def scratch() -> duckdb.DuckDBPyConnection:
    """A private connection of this thread (UTC, one thread, no external access), for callers that have none."""
    connection: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if connection is None:
        connection = duckdb.connect(config={"enable_external_access": "false"})
        connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
        _local.connection = connection
    return connection


def carriers(definition: StreamDefinition) -> tuple[Carrier, ...]:
    """How each of the stream's columns (`all_columns`) is carried.

    Raises:
        SourceError: a column has a type that streams cannot carry.
    """
    return _carriers(definition.all_columns)


def arrow_schema(definition: StreamDefinition, db: duckdb.DuckDBPyConnection | None = None) -> pa.Schema:
    """The stream's columns (`all_columns`, in order) as a canonical Arrow schema.

    `db` is not needed (types are asked of a connection of our own, once per process); it is there for symmetry.
    """
    return pa.schema([pa.field(c.name, c.arrow) for c in carriers(definition)])


def typed_select(definition: StreamDefinition, columns: Sequence[str] | None = None) -> str:
    """A SELECT list over a canonical table that gives every column its declared type.

    >>> typed_select(StreamDefinition("s", (Column("u", "UUID"), Column("ts", "TIMESTAMP"))), ["u", "ts"])
    'CAST("u" AS UUID) AS "u", "ts"'
    """
    wanted = None if columns is None else {c.lower() for c in columns}
    parts = []
    for carrier in carriers(definition):
        if wanted is None or carrier.name.lower() in wanted:
            name = quote(carrier.name)
            same = carrier.carried == carrier.declared
            parts.append(name if same else cast_item(name, carrier.declared))
    return ", ".join(parts)


@lru_cache(maxsize=1024)
def _carriers(columns: tuple[Column, ...]) -> tuple[Carrier, ...]:
    return tuple(_carrier(column) for column in columns)


def _carrier(column: Column) -> Carrier:
    try:
        kind = duckdb.sqltype(column.type)
        carried, checked = _carry(kind, _CARRIED_AS)
        parsed, _ = _carry(kind, _PARSED_AS)
        result: pa.Table = scratch().sql(f"SELECT CAST(NULL AS {carried}) AS c LIMIT 0").to_arrow_table()
    except duckdb.Error as error:
        raise SourceError(f"column '{column.name}': type {column.type} is not known: {error}") from error
    except KeyError as error:
        raise SourceError(
            f"column '{column.name}': a stream cannot carry {error.args[0]} values; declare it VARCHAR or BLOB"
        ) from error
    arrow = result.schema.field(0).type
    if carried == str(kind):
        carried = column.type
    return Carrier(column.name, column.type, carried, arrow, checked, str(kind.id), parsed)


def _carry(kind: Any, replaced: Mapping[str, str]) -> tuple[str, bool]:
    """The SQL text of `kind` with its leaves replaced, and whether values of the result may not fit `kind`."""
    name = str(kind.id)
    if str(kind).upper() == "JSON":
        return replaced.get("json", "JSON"), True
    if name in _REFUSED:
        raise KeyError(str(kind))
    if name not in NESTED:
        carried = replaced.get(name, str(kind))
        return carried, name == "uhugeint" or (carried == "VARCHAR" and name != "varchar")
    children = kind.children[:1] if name == "array" else kind.children  # an array's second child is its length
    fields = [(field, inner, *_carry(inner, replaced)) for field, inner in children]
    checked = any(c for *_, c in fields)
    texts = [sql for _, _, sql, _ in fields]
    if all(sql == str(inner) for _, inner, sql, _ in fields):
        return str(kind), checked
    if name == "struct":
        return f"STRUCT({', '.join(f'{quote(f)} {sql}' for f, _, sql, _ in fields)})", checked
    if name == "map":
        return f"MAP({texts[0]}, {texts[1]})", checked
    size = kind.children[1][1] if name == "array" else ""
    return f"{texts[0]}[{size}]", checked
