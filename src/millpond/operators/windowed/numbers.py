"""Revision numbers: how often each answer was given, kept as chunks of state under the query's name."""

from __future__ import annotations

import os
from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.places import state_folder
from millpond.synopses import query_table
from millpond.tables import Chunk, read_chunks

#: Chunks of state that are revision numbers.
REVISIONS = "revisions"


def numbers_in(
    db: duckdb.DuckDBPyConnection, pond: str, files: Sequence[str], owner: str, low: int, high: int
) -> pa.Table | None:
    """The latest revision numbers of a query in some state files, of ends from `low` to `high`; None if none."""
    paths = [os.path.join(state_folder(pond), f) for f in files]
    chunks = read_chunks(paths, {owner}, lambda _o, kind, _e, a, b: kind == REVISIONS and b >= low and a <= high)
    parts = [c.table for c in chunks]
    return latest_numbers(db, pa.concat_tables(parts, promote_options="permissive")) if parts else None


def latest_numbers(db: duckdb.DuckDBPyConnection, table: pa.Table) -> pa.Table:
    """Revision numbers, the largest of each (end, group)."""
    return query_table(
        db, "SELECT * EXCLUDE (revision), max(revision)::BIGINT AS revision FROM t GROUP BY ALL", t=table
    )


def put_numbers_together(db: duckdb.DuckDBPyConnection, owner: str, chunks: Sequence[Chunk]) -> Chunk:
    """Chunks of revision numbers as one."""
    table = latest_numbers(db, pa.concat_tables([c.table for c in chunks], promote_options="permissive"))
    ends = pc.min_max(table["end"]).as_py()
    return Chunk(owner, REVISIONS, max(c.epoch for c in chunks), ends["min"], ends["max"], table)
