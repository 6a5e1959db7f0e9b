"""Row queries whose past is reduced: a reduced scan of their stretch, beside all that is kept ready."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from millpond.answers.adhoc import plain_rows, whole
from millpond.answers.fidelity import answered, scan_for, with_exactness
from millpond.answers.row_queries.stretch import Stretch
from millpond.archive.reading.history import Range
from millpond.archive.reading.reducing import Scan
from millpond.archive.retention import floors_of
from millpond.engine.core import Core
from millpond.language.duck import quote
from millpond.types import BoundQuery, Side, StreamDefinition


def reduced_answer(
    core: Core,
    stream: StreamDefinition,
    query: BoundQuery,
    side: Side,
    stretch: Stretch,
    epoch: int,
    now: int,
    live_from: int | None,
    retained: int,
) -> pa.Table:
    """The answer of a row query with REDUCE.

    Arguments:
        stretch: its window. epoch: rows up to this one are seen. now: NOW, microseconds. live_from: rows from this
        epoch on are not reduced (None: all are). retained: rows before it are past the stream's retention,
        microseconds; what copies have of them is seen as long as their own.
    """
    scan = scan_for(query, now, live_from)
    assert scan is not None
    scan.floors = {stream.id: floors_of(stream, retained)}
    wanted = Range(stretch.begin, None if stretch.end is None else stretch.end + 1, epoch)
    # A row on which the condition fails does not match.
    conditions = [] if side.where is None else [f"coalesce(TRY({side.where}), false)"]
    if stretch.first_id is not None and stretch.begin is not None:
        time = f"epoch_us({quote(stream.options.time)})"
        conditions.append(f"({time} > {stretch.begin} OR _id >= {stretch.first_id})")
    asked = replace(query, where=" AND ".join(conditions) or None)

    def answer(tried: Scan) -> pa.Table:
        if not query.grouped:
            return plain_rows(core, stream, asked, wanted, tried)
        table = whole(core, stream, asked, wanted, scan=tried)[0]
        return with_exactness(table, query, tried.stretches, most=tried.most)

    return answered(core, stream, query, scan, answer)
