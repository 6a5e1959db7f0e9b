"""Questions about a past that retention has taken: what of it is left, and when nothing of it is.

A query that reaches past the rows is answered from what is left of them, and the answer says so: windows by
`covered_from`, other answers by a note. One that asks for a stretch of time of which nothing is left is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millpond.answers.fidelity import note_of
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.sections import between_floors, sections
from millpond.archive.retention import floors_of, gone_before, retained_from
from millpond.archive.summed.serving import Sums, reaches, served
from millpond.operators.registry import relations_over
from millpond.progress import NEVER, StreamProgress
from millpond.support.errors import QueryError
from millpond.synopses import spec_of
from millpond.types import RelationalQuery, RowQuery, ScanQuery, StreamDefinition, WindowedQuery
from millpond.types.instants import moment


def check_reach(
    archives: Archives,
    streams: Sequence[StreamDefinition],
    begin: int | None,
    end: int | None,
    reduced: bool = False,
) -> None:
    """Refuse a question about a stretch of time of which nothing is left in any of the streams that it reads.

    Arguments:
        begin, end: the stretch, closed, microseconds; None: open. reduced: copies with fewer rows will do.
    Raises: QueryError, which says what there is instead.
    """
    if end is None or not streams or not all(_nothing_left(archives, s, begin, end, reduced) for s in streams):
        return
    stretch = f"up to {moment(end)}" if begin is None else f"from {moment(begin)} to {moment(end)}"
    left = (f"of stream '{s.name}' no row {stretch} is left; there are {_what_is_left(archives, s)}" for s in streams)
    raise QueryError("; ".join(left))


def _nothing_left(archives: Archives, stream: StreamDefinition, begin: int | None, end: int, reduced: bool) -> bool:
    snapshot, retained = archives.streams[stream.id].archive.snapshot, retained_from(stream, archives.published)
    if end >= gone_before(snapshot, retained):
        return False
    segments, low = snapshot[0], max(retained, NEVER if begin is None else begin)
    if low <= end and any(s.low <= end and s.high >= low for s in segments):
        return False
    if not reduced:
        return True
    floors = floors_of(stream, retained)
    with archives.pinned():
        return not any(
            sections(archives.storage, stream, r, floors) for r in between_floors(floors, Range(begin, end + 1))
        )


def _what_is_left(archives: Archives, stream: StreamDefinition) -> str:
    runtime = archives.streams[stream.id]
    retained = retained_from(stream, archives.published)
    lows = [max(s.low, retained) for s in runtime.archive.segments if s.high >= retained]
    found = [f"rows from {moment(min(lows))} on" if lows else "no rows"]
    before = min(lows, default=None)
    for table in runtime.copies.values():
        older = [s for s in table.segments if s.sole and (before is None or s.low < before)]
        if older:
            drop = round(1 - min(s.kept for s in older), 12)
            found.append(
                f"copies with {drop * 100:.4g} % dropped from {moment(min(s.low for s in older))} on"
                f" (REDUCE sample({drop!r}))"
            )
    for summary in archives.catalog.summaries_of(stream.id):
        since = reaches(archives.storage, summary)
        found.append(f"summary({summary.query})" + ("" if since is None else f" from {moment(since)} on"))
    return ", ".join(found)


def gone_note(archives: Archives, asked: WindowedQuery | ScanQuery | RowQuery) -> str:
    """What is to be said with an ad hoc answer over a past of which rows are gone; '' if none are."""
    query, notes = asked.scan, []
    for name, begin in asked.begins:
        stream = archives.catalog.stream(name)
        if query.reduce is not None or query.feeds or stream is None:
            continue
        gone, now = _gone(archives, stream), _high(archives, stream)
        since = begin.begins(now)
        if gone > NEVER and (begin.is_before(gone) or (since is not None and since < gone)):
            notes.append(_of_stream(archives, stream, query))
    return "; ".join(dict.fromkeys(n for n in notes if n))


def said_with(archives: Archives, table: pa.Table, asked: WindowedQuery | ScanQuery | RowQuery) -> str:
    """All that is to be said with an ad hoc answer: how it was reduced, and what is gone."""
    return "; ".join(n for n in (note_of(table), gone_note(archives, asked)) if n)


def relation_note(archives: Archives, query: RelationalQuery) -> str:
    """As `gone_note`, of a relation as it is now, or of its changes since the beginning."""
    notes = []
    for item in query.inputs:
        for stream in () if item.reduce is not None else archives.catalog.streams_named(item.names):
            gone, now = _gone(archives, stream), _high(archives, stream)
            since = None if query.makes_stream else relations_over(query).reach(query, item, now)
            if gone > NEVER and (since is None or since < gone):
                notes.append(_rows_gone(archives, stream))
    return "; ".join(dict.fromkeys(n for n in notes if n))


def _gone(archives: Archives, stream: StreamDefinition) -> int:
    return gone_before(archives.streams[stream.id].archive.snapshot, retained_from(stream, archives.published))


def _high(archives: Archives, stream: StreamDefinition) -> int:
    return archives.published.progress.get(str(stream.id), StreamProgress()).high


def _first_left(archives: Archives, stream: StreamDefinition) -> int:
    """No row with an earlier event time is seen."""
    lows = [s.low for s in archives.streams[stream.id].archive.segments]
    return max(min(lows, default=NEVER), retained_from(stream, archives.published))


def _rows_gone(archives: Archives, stream: StreamDefinition) -> str:
    first = _first_left(archives, stream)
    return f"rows of {stream.name} before {moment(first)} are gone" if first > NEVER else ""


def _of_stream(archives: Archives, stream: StreamDefinition, query: WindowedQuery | ScanQuery) -> str:
    gone = _rows_gone(archives, stream)
    if query.as_retained:
        return gone
    with archives.pinned():
        found = served(archives, stream, Sums(spec_of(query, stream), (query,)), Range(), make=False)
    if found is None or not found.settled:
        return f"{gone or f'rows of {stream.name} are gone'}; covered_from marks windows that lack some"
    since = _first_left(archives, stream)
    return f"rows before {moment(since)} are gone: answered from summary({found.summary.query})"
