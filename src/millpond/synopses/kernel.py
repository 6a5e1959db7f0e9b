"""The DuckDB connection of a worker: one per thread, without access to anything outside the data handed to it."""

from __future__ import annotations

import os
import threading

import duckdb
import pyarrow as pa

from millpond.functions import install
from millpond.synopses.standing_views import StandingViews, views_of, visible

_local = threading.local()

#: After these DuckDB refuses everything on a connection.
BROKEN = (duckdb.FatalException, duckdb.InternalException)

#: What no statement is to blame for: a disk, an interrupt.
OUTSIDE = (duckdb.IOException, duckdb.InterruptException)

#: What no row is to blame for: the statement itself cannot be planned.
UNPLANNABLE = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.SyntaxException)


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection: one DuckDB thread, UTC, no external access, configuration locked.

    Names of tables are declared with `query_table` or `standing_views.visible`, which know of each other.
    """
    return _connection("db")


def asking_connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection for SQL that a user has thought of: as `connection`, with less of the memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _connection("asking", f"SET memory_limit = '{memory // 3} B'")


def _connection(name: str, *more: str) -> duckdb.DuckDBPyConnection:
    known: dict[str, tuple[StandingViews, int]] = _local.__dict__.setdefault("known", {})
    views, functions = known.get(name, (None, 0))
    if views is None:
        db = duckdb.connect(":memory:")
        for setting in (
            "SET threads = 1",
            "SET TimeZone = 'UTC'",
            "SET preserve_insertion_order = true",
            "SET python_enable_replacements = false",
            *more,
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            db.execute(setting)
        views = StandingViews(db)
    known[name] = views, install(views.db, functions)
    return views.db


def query_table(db: duckdb.DuckDBPyConnection, sql: str, **tables: pa.Table) -> pa.Table:
    """The result of `sql` over the named Arrow tables, which are visible for this call only."""
    try:
        views = views_of(db)
        if views is not None:
            return views.query(sql, tables)
        with visible(db, tables):
            result: pa.Table = db.sql(sql).to_arrow_table()
            return result
    except BROKEN:
        reset()
        raise


def reset() -> None:
    """Give this thread new connections: DuckDB refuses everything after a fatal or an internal error."""
    _local.known = {}
