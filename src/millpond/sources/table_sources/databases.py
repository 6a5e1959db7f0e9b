"""Tables that live in databases: asked through a Python module that DB-API 2.0 (PEP 249) describes, or ADBC.

An ADBC driver gives Arrow (`fetch_record_batch` or `fetch_arrow_table`, as other modules do by now); what any other
module gives is rows of Python values, which are made columns piece by piece. Only modules that who opened the pond has
allowed are imported: a statement that comes over HTTP names a module, and importing one runs it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from millpond.support.errors import SourceError, without_secrets
from millpond.support.sql import quote
from millpond.synopses import connection, query_table
from millpond.types import TableDefinition

#: Rows that are taken from a cursor at a time.
PIECE = 50_000

#: Rows that a table may have: it is read into memory.
MOST_ROWS = 50_000_000

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def read_database(definition: TableDefinition, uri: str, allowed: Sequence[str]) -> pa.Table:
    """What a database answers now, in the table's columns.

    Arguments:
        uri: what the module's `connect` takes; `${NAME}` stands for an environment variable.
        allowed: the modules that may be imported.
    Raises: SourceError: the module may not be imported or is not there, the database cannot be reached or refuses, or
        its answer does not fit the columns. The message has no password.
    """
    name = f"table '{definition.name}'"
    check_driver(definition, allowed)
    place, secrets = _resolved(name, uri)
    try:
        module = importlib.import_module(definition.driver)
    except ImportError as error:
        raise SourceError(f"{name}: there is no module {definition.driver} here ({error})") from None
    if not callable(getattr(module, "connect", None)):
        raise SourceError(f"{name}: {definition.driver} has no connect(), so it is no module for databases")
    try:
        with contextlib.closing(module.connect(place)) as link, contextlib.closing(link.cursor()) as cursor:
            cursor.execute(definition.query)
            if hasattr(cursor, "fetch_record_batch"):
                found = _read(name, cursor.fetch_record_batch())
            elif hasattr(cursor, "fetch_arrow_table"):
                found = cursor.fetch_arrow_table()
            else:
                found = _fetched(name, cursor)
    except SourceError:
        raise
    except Exception as error:  # every module has exceptions of its own
        raise SourceError(f"{name}: {_told(error, secrets)}") from None
    return _in_columns(definition, found)


def check_driver(definition: TableDefinition, allowed: Sequence[str]) -> None:
    """Raises: SourceError for a module that this pond may not import."""
    if definition.driver not in allowed:
        known = ", ".join(allowed) or "none"
        raise SourceError(
            f"table '{definition.name}': the driver {definition.driver} is not allowed here (allowed: {known});"
            f" who opens the pond allows it: drivers='{definition.driver}'"
        )


def _resolved(name: str, uri: str) -> tuple[str, list[str]]:
    """The URI with its variables, and what no message may show."""
    missing = [v for v in _VARIABLE.findall(uri) if v not in os.environ]
    if missing:
        raise SourceError(f"{name}: its uri needs the environment variable {missing[0]}, which is not set")
    values = [os.environ[v] for v in _VARIABLE.findall(uri)]
    full = _VARIABLE.sub(lambda m: os.environ[m[1]], uri)
    return full, [full, *(v for v in values if v)]


def _told(error: Exception, secrets: Sequence[str]) -> str:
    """What a module says went wrong, on one line and without secrets."""
    text = " ".join(str(error).split()) or type(error).__name__
    for secret in secrets:
        text = text.replace(secret, "…")
    return without_secrets(text)[:500]


def _read(name: str, reader: pa.RecordBatchReader) -> pa.Table:
    """The rows of a cursor that gives Arrow batch by batch."""
    batches: list[pa.RecordBatch] = []
    count = 0
    for batch in reader:
        batches.append(batch)
        count += batch.num_rows
        if count > MOST_ROWS:
            raise SourceError(f"{name}: it has more than {MOST_ROWS:,} rows")
    return pa.Table.from_batches(batches, reader.schema)


def _fetched(name: str, cursor: Any) -> pa.Table:
    """The rows of a cursor."""
    names = [str(column[0]) for column in cursor.description or ()]
    if not names:
        raise SourceError(f"{name}: its query gives no rows")
    pieces: list[list[Sequence[Any]]] = []
    count = 0
    while rows := cursor.fetchmany(PIECE):
        pieces.append(list(zip(*rows, strict=True)))
        count += len(rows)
        if count > MOST_ROWS:
            raise SourceError(f"{name}: it has more than {MOST_ROWS:,} rows")
    columns = [_column([piece[n] for piece in pieces]) for n in range(len(names))]
    return pa.table(columns, names=names)


def _column(pieces: Sequence[Sequence[Any]]) -> pa.ChunkedArray:
    """Values of one column; where they are of types that do not go together, as texts."""
    try:
        arrays = [pa.array(piece) for piece in pieces]
        return pa.chunked_array(arrays) if arrays else pa.chunked_array([], pa.null())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):  # no type has them all
        texts = [[None if v is None else str(v) for v in piece] for piece in pieces]
        return pa.chunked_array([pa.array(t, pa.string()) for t in texts], pa.string())


def _in_columns(definition: TableDefinition, found: pa.Table) -> pa.Table:
    """An answer in the columns as they are declared: by name, else in their order."""
    name = f"table '{definition.name}'"
    if found.num_rows > MOST_ROWS:
        raise SourceError(f"{name}: it has more than {MOST_ROWS:,} rows")
    places: Mapping[str, int] = {n.lower(): at for at, n in reversed(list(enumerate(found.column_names)))}
    missing = [c.name for c in definition.columns if c.name.lower() not in places]
    if missing:
        given = ", ".join(found.column_names)
        raise SourceError(f"{name}: its query gives no column '{missing[0]}' (it gives {given})")
    columns = [_plain(found.column(places[c.name.lower()])) for c in definition.columns]
    given = pa.table(columns, names=[f"v{n}" for n in range(len(columns))])
    casts = ", ".join(_cast(f"v{n}", c.type) + f" AS {quote(c.name)}" for n, c in enumerate(definition.columns))
    try:
        return query_table(connection(), f"SELECT {casts} FROM given", given=given)
    except duckdb.Error as error:
        raise SourceError(f"{name}: an answer does not fit its columns: {' '.join(str(error).split())[:300]}") from None


def _cast(column: str, kind: str) -> str:
    text = f"CAST({column} AS {kind})"
    return f"CAST({text} AS VARCHAR)" if kind.startswith("ENUM(") else text


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without types of its database that only their names tell from what they are stored as."""
    if isinstance(column.type, pa.OpaqueType):
        chunks = [c.storage for c in column.chunks]
        return pa.chunked_array(chunks, column.type.storage_type)
    return pa.chunked_array(column.chunks, column.type) if column.num_chunks != 1 else column
