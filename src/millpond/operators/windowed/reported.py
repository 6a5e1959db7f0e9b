"""What was reported of windows, beside what holds of them when all that is archived is counted."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.operators.windowed.evaluation import difference
from millpond.synopses import query_table
from millpond.synopses.finish import identity
from millpond.types import STATUS, WindowedQuery


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
