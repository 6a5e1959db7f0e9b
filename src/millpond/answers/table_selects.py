"""SELECTs over answers, tables and side streams: each relation as an Arrow table, the SQL in DuckDB."""

from __future__ import annotations

import pyarrow as pa

from millpond.answers.adhoc import select_stream
from millpond.answers.archive_jobs import ANSWER_ROWS, TooManyRows
from millpond.answers.bounded_sql import bounded_table
from millpond.answers.constant_relations import relation_of
from millpond.answers.nested_windows import HeldStreams
from millpond.engine.pond_view import PondView
from millpond.language import FileInput, StreamInput, TableQuery
from millpond.support.errors import QueryError
from millpond.types import ConstantInput


def select_relations(pond: PondView, query: TableQuery) -> pa.Table:
    """The answer of a SELECT over tables, answers, and streams as tables.

    Raises: QueryError when an expression of it fails on a row, or when it would read or give too many rows.
    """
    with pond.pinned():  # all streams at one publish record
        held = HeldStreams(pond, query.inner)
        tables = {ref.alias: _read(pond, held, query, ref) for ref in query.relations if not isinstance(ref, FileInput)}
    files = {ref.alias: ref.file for ref in query.relations if isinstance(ref, FileInput)}
    answer = bounded_table(query.sql, ANSWER_ROWS, pond.settings.select_timeout, tables, files)
    return answer if query.columns is None else answer.rename_columns([c.name for c in query.columns])


def _read(pond: PondView, held: HeldStreams, query: TableQuery, ref: ConstantInput | StreamInput) -> pa.Table:
    """The rows of one of its relations."""
    if not isinstance(ref, StreamInput):
        return relation_of(pond, ref, query.ends.get(ref.alias))
    try:
        asked = query.asked[ref.alias]
        found = select_stream(pond, asked) if asked.as_retained else held.answer(asked)
        return found.select([c.name for c in ref.columns])
    except TooManyRows:
        raise QueryError(
            f"more than {ANSWER_ROWS:,} rows of '{ref.name}' would be needed as a table; a condition on them, or a"
            f" subquery with GROUP BY over {ref.name} alone, needs fewer"
        ) from None
