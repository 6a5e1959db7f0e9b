"""Row queries whose past is reduced: a reduced scan of their stretch, beside all that is kept ready."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from millpond.answers.adhoc import whole
from millpond.answers.archive_jobs import Asked, plain_rows
from millpond.answers.fidelity import answered, scan_for, told_by
from millpond.answers.row_queries.hot import View
from millpond.answers.row_queries.moments import Moment
from millpond.answers.row_queries.stretch import Stretch
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scans import Scan
from millpond.archive.retention import floors_of
from millpond.engine.pond_view import PondView
from millpond.progress import NEVER
from millpond.support.sql import quote
from millpond.types import ScanQuery, Side, composed


def reduced_answer(
    pond: PondView, view: View, query: ScanQuery, side: Side, stretch: Stretch, moment: Moment, live_from: int | None
) -> pa.Table:
    """The answer of a row query with REDUCE.

    Arguments:
        view: of its stream; rows before `view.retained` are past the stream's retention, and what copies have of them
            is seen as long as their own says.
        stretch: its window. moment: says NOW, and up to which epoch rows are seen.
        live_from: rows from this epoch on are not reduced; None: all are.
    """
    stream = view.stream
    scan = scan_for(query, NEVER if moment.now is None else moment.now, live_from)
    scan.floors = {stream.id: floors_of(stream, view.retained)}
    wanted = Range(stretch.begin, None if stretch.end is None else stretch.end + 1, moment.epoch)
    # A row on which the condition fails does not match.
    conditions = [] if side.where is None else [f"coalesce(TRY({side.where}), false)"]
    time = f"epoch_us({quote(stream.options.time)})"
    if stretch.first_id is not None:
        conditions.append(f"({time} > {stretch.begin} OR _id >= {stretch.first_id})")
    if stretch.until_id is not None:
        conditions.append(f"({time} < {stretch.end} OR _id < {stretch.until_id})")
    given = [] if side.where is None else [side.where]
    where = composed(" AND ".join(conditions), "BOOLEAN", given, [stream.options.time]) if conditions else None
    seen = replace(query, where=where)

    def answer(tried: Scan) -> pa.Table:
        if seen.of_groups:
            return told_by(whole(pond, Asked(stream, seen, wanted), tried)[0], query, tried)
        return plain_rows(pond.archives, Asked(stream, seen, wanted), tried)

    return answered(pond.streams[stream.id].archive, query, scan, answer)
