"""Final answers: each row once, when it can no longer change, in order of the windows' ends.

A window is final when progress has passed it by more than late rows can revise (`revise_for`; under late='drop' when it
is closed), or when its stream has ended and takes nothing in any more. The horizon only rises, and behind it nothing
appears or changes: so final rows are one sequence, of which a consumer has seen a beginning, whatever epochs were.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa

from millpond.catalog import Standing
from millpond.engine.advance import horizon_of
from millpond.engine.core import Core
from millpond.engine.merging import query_owner, results_folder
from millpond.engine.records import Published
from millpond.engine.unions import late_of, progress_of, streams_of
from millpond.errors import QueryError
from millpond.progress import FOREVER, NEVER
from millpond.results.answers import log_columns, order_terms, quoted, read_log
from millpond.synopses import connection, query_table
from millpond.synopses.finish import empty_answers, identity
from millpond.tables.chunks import read_heads
from millpond.types import STATUS

#: Rows that are read at a time, as long as they are of more than one window.
AT_ONCE = 250_000

#: The value of the column `status` of rows that can no longer change.
FINAL = "final"


def final_until(core: Core, standing: Standing, published: Published) -> int:
    """The event time until which windows are final: those that end at or before it; NEVER if none is."""
    query = standing.definition.query
    if query.window is None and query.row_window is None:
        raise QueryError(f"'{standing.definition.name}' has no windows: final answers are those of windows")
    progress = published.queries.get(str(standing.id))
    spec = core.catalog.synopses[standing.synopsis].spec
    known = progress_of(core.catalog, spec, published.progress)
    ingested = all(s.options.source == "ingest" for s in streams_of(core.catalog, spec))
    if progress is None or progress.closed <= NEVER:
        return NEVER
    # A window that ends with a row is closed when progress is beyond its end: equal times may still come.
    open_end = 0 if standing.definition.query.row_window is None or progress.closed >= FOREVER else 1
    if late_of(core.catalog, spec) == "drop" or (known.bound >= FOREVER and ingested):
        return progress.answered - open_end
    if known.high <= NEVER:
        return NEVER
    horizon = horizon_of(standing.definition.query, standing.definition.options, progress, known.high)
    return min(progress.answered, horizon) - open_end


def final_rows(core: Core, standing: Standing, after: int, until: int) -> pa.Table:
    """Final rows of the windows with after < end <= until (microseconds), in order, with the query's columns and op."""
    definition = standing.definition
    log = read_log(core, standing, windows=(after, until))
    columns = ", ".join([*(_shown(c.name) for c in definition.columns), "op"])
    key = ", ".join(["window_end", *identity(definition.query)])
    latest = f"SELECT * FROM log QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY revision DESC) = 1"
    sql = f"SELECT {columns} FROM ({latest}) WHERE op = '+' ORDER BY {order_terms(definition)}"
    if not log.num_rows:
        log = empty_answers(connection(), log_columns(definition))
    return query_table(connection(), sql, log=log)


def _shown(name: str) -> str:
    return f"'{FINAL}' AS {STATUS}" if name == STATUS else quoted(name)


def final_answers(core: Core, standing: Standing) -> pa.Table:
    """All rows that can no longer change: `SELECT … FROM query FINAL`."""
    with core.pinned():
        until = final_until(core, standing, core.published)
        return final_rows(core, standing, NEVER - 1, until).drop_columns(["op"])


def spans(core: Core, standing: Standing, after: int, until: int) -> Iterator[int]:
    """The windows with after < end <= until cut into spans of at most about `AT_ONCE` answers; the last end of each."""
    ends: list[tuple[int, int]] = []
    with core.pinned():
        for segment in core.results.segments:
            path = os.path.join(results_folder(core.path), segment.path)
            if segment.high > after and segment.low <= until:
                ends += [(segment.high, rows) for _, _, rows in read_heads(path, query_owner(standing.id))]
    held = 0
    for high, rows in sorted(ends):
        held += rows
        if held > AT_ONCE and after < high < until:
            yield high
            after, held = high, 0
    if until > after:
        yield until


__all__ = ["FINAL", "final_answers", "final_rows", "final_until", "spans"]
