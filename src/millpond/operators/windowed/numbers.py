"""What was reported: revision numbers, how often each answer was given, kept as chunks of state under the query's name;
and how answers that were made anew differ."""

from __future__ import annotations

import os
from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.places import state_folder
from millpond.operators.windowed.evaluation import difference
from millpond.synopses import query_table
from millpond.synopses.finish import identity
from millpond.tables import Chunk, read_chunks
from millpond.types import STATUS, WindowedQuery

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


def differing(
    db: duckdb.DuckDBPyConnection, query: WindowedQuery, reported: pa.Table, told: pa.Table, pairs: bool = False
) -> pa.Table | None:
    """How answers differ from those that were reported last, numbered behind these; None: they do not.

    Floating-point values that are equal to 1e-9 are the same: they were summed in another order.

    Args:
        reported: all rows that were reported of some windows. told: the answers that hold of the same windows.
        pairs: with a changed row the one that it replaces comes as '='.
    """
    new, old, given = _plain(query, told) if told.num_rows else None, None, None
    if reported.num_rows:
        keys = ["window_end", *identity(query)]
        last = f"QUALIFY row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY revision DESC) = 1"
        latest = query_table(db, f"SELECT * FROM reported {last}", reported=reported)
        columns = {"end": latest["window_end"].cast(pa.int64())} | {k: latest[k] for k in identity(query)}
        given = pa.table({**columns, "revision": latest["revision"]})
        old = _plain(query, latest.filter(pc.equal(latest["op"], "+")))
    if new is None and (old is None or not old.num_rows):
        return None
    found = difference(db, query, old, new, given, pairs, near=True)
    return found if found.num_rows else None


def _plain(query: WindowedQuery, answers: pa.Table) -> pa.Table:
    """Answers without what says which answer they are: a column `status` that the query selects is not that."""
    own = {"revision", "op", STATUS} - {output.name for output in query.select}
    return answers.drop_columns([name for name in answers.column_names if name in own])
