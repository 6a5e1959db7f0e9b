"""SQL that a user has thought of, run within bounds: of rows, of time and of memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import duckdb
import pyarrow as pa

from millpond.sources.local_files import reading
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses.kernel import BROKEN, asking_connection, reset
from millpond.synopses.standing_views import visible
from millpond.synopses.tolerance import one_line
from millpond.types import FileTable

#: Rows of an answer that are fetched at once.
_AT_ONCE = 100_000


def bounded_table(
    sql: str, most: int, seconds: float, tables: Mapping[str, pa.Table], files: Mapping[str, FileTable] | None = None
) -> pa.Table:
    """The result of a user's SQL over Arrow tables, and files, by name.

    Arguments:
        most: rows that it may have; they are counted as they come. seconds: for how long it may run.
    Raises: QueryError when it has more rows, or runs for longer.
    """
    db = reading(*files.values()) if files else asking_connection()
    for name, file in (files or {}).items():
        db.execute(f"CREATE VIEW {quote(name)} AS SELECT * FROM {file.scan}")
    watch = threading.Timer(seconds, db.interrupt)
    watch.daemon = True
    watch.start()
    try:
        with visible(db, tables):
            return _read(db.sql(sql).to_arrow_reader(_AT_ONCE), most)
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # what comes later comes by way of Arrow
        if isinstance(error, BROKEN):
            reset()
        if "INTERRUPT" in str(error).upper()[:20]:
            limit = f"its SQL ran for longer than {seconds:g} s (ALTER SYSTEM SET select_timeout = …)"
            raise QueryError(f"the query was stopped: {limit}") from None
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    finally:
        watch.cancel()


def _read(reader: pa.RecordBatchReader, most: int) -> pa.Table:
    """All rows. Raises: QueryError when they are more than `most`."""
    batches, rows = [], 0
    for batch in reader:
        rows += batch.num_rows
        if rows > most:
            raise QueryError(f"the answer has more than {most:,} rows, which is the most; add a filter or LIMIT")
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)
