"""Needs: from which event time on a query needs rows, for open windows and for those that late rows revise.

Windows of a fixed length need their RANGE (and more where empty ones are reported); windows that grow need everything
since their landmark, of which what no revision can reach any more is kept as one row per group (see `prefixes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import numpy as np

from millpond.catalog import Catalog, Standing, Synopsis
from millpond.catalog.unions import progress_of
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest
from millpond.operators.windowed.advance import horizon_of, ranges_known
from millpond.operators.windowed.evaluation import end_pane
from millpond.operators.windowed.window_progress import WindowProgress, answered
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.synopses.pane_partials import PanesSpec
from millpond.types import (
    DAY,
    CalendarWindow,
    KindWindow,
    LandmarkWindow,
    QueryOptions,
    StreamDefinition,
    TimeWindow,
    Window,
    WindowedQuery,
    WindowQuery,
)
from millpond.windows import first_end_after
from millpond.windows.landmark_windows import begin
from millpond.windows.pane_layout import FAR
from millpond.windows.registered import axis_of


def landmark_for(window: Window, time: int) -> int:
    """Where the window begins that is the first to end behind `time`, of windows that grow."""
    if time <= NEVER:
        return NEVER
    return max(NEVER, int(begin(window, np.array([first_end_after(window, time)]))[0]))


def back(window: TimeWindow | KindWindow | CalendarWindow, time: int, spans: int) -> int:
    """How far windows reach back that end from `time` on: so many times RANGE, or windows of a registered kind.

    Of a kind the instant is given by which so many windows fewer had ended: its state goes by windows.
    """
    if time <= NEVER or not isinstance(window, KindWindow):
        return max(NEVER, time - window.range * spans)
    axis = axis_of(window.kind)
    return time if time >= FOREVER else max(NEVER, axis.end_of(axis.ended(time) - 1 - spans))


def reach(window: Window, time: int, spans: int) -> int:
    """The event time from which windows that end from `time` on hold rows; `spans` as of `back`."""
    return landmark_for(window, time) if isinstance(window, LandmarkWindow) else back(window, time, spans)


def spans_of(query: WindowedQuery, options: QueryOptions, least: int) -> int:
    """How many RANGEs windows need: `least`, or as long as groups are known and the window before that.

    Where windows are filled from later ones, a row changes those as long before it.
    """
    known = ranges_known(query, options)
    return known * (2 if options.ahead else 1) + 2 if known else least


def open_pane(synopsis: Synopsis, standing: Standing, closed: int) -> int:
    """The first pane that windows still open can need."""
    query = standing.windowed
    if not isinstance(query, WindowQuery):  # a table of rows knows what windows that end from an instant on need
        return closed
    spans = spans_of(query, standing.definition.options, 1)
    found = synopsis.spec.panes.pane(reach(query.window, closed, spans))
    return max(-FAR, found) if isinstance(query.window, LandmarkWindow) else found


def keep_since(synopsis: Synopsis, standing: Standing, stream: StreamDefinition, closed: int, high: int) -> int:
    """The event time from which a query may still need pane rows, for open windows and for revisions."""
    query, options = standing.windowed, standing.definition.options
    revises = stream.options.late == "revise" or synopsis.spec.feeds  # see `unions.late_of`
    behind = query.revised_for(options) if revises and not options.delay else 0
    if not isinstance(query, WindowQuery):
        return max(NEVER, min(closed, high) - behind)
    return reach(query.window, min(closed, high) - behind, spans_of(query, options, 2))


def read_since(standing: Standing, start: int, high: int) -> int:
    """The event time from which a back-fill must read, for a query whose windows end after `start`."""
    query, spans = standing.windowed, spans_of(standing.windowed, standing.definition.options, 1)
    # Rows are numbered from the start of the retained stream, and a session may be of any length.
    if start <= NEVER or not isinstance(query, WindowQuery):
        return NEVER
    match query.window:
        case KindWindow():
            longest = axis_of(query.window.kind).longest
            since = back(query.window, min(start, high), spans) if spans > 1 else min(start, high)
            return NEVER if longest is None else since - longest
        case LandmarkWindow():
            return landmark_for(query.window, min(start, high))
        case TimeWindow() | CalendarWindow():
            return min(start, high) - query.window.range * spans
        case _:
            assert_never(query.window)


def needed_by(query: WindowedQuery, bound: int) -> int:
    """The event time from which a query that is registered at progress `bound` needs rows."""
    return bound if not isinstance(query, WindowQuery) else reach(query.window, bound, 2)


def complete_since(
    standing: Standing, synopsis: Synopsis, stream: StreamDefinition, known: QueryProgress, covered: int, high: int
) -> int:
    """The event time from which a synopsis certainly holds every row, by what one of its users needs.

    Arguments:
        known: the user's progress. covered: as of its operator.
    """
    kept = keep_since(synopsis, standing, stream, known.closed, high)
    window = standing.windowed.window
    start = max(known.start, known.floor)
    start = landmark_for(window, start) if isinstance(window, LandmarkWindow) else start
    return max(kept, start, covered)


def summary_since(synopsis: Synopsis, bound: int, high: int) -> int:
    """The event time from which a synopsis keeps state for the sake of a summary alone.

    A standing query that comes later and agrees with the summary shares it from its first epoch on: what such a query
    needs, and late rows can change, is there.
    """
    width = synopsis.spec.panes.width
    return max(NEVER, min(bound, high) - max(DAY, 10 * width) - 2 * width)


def needed_since(
    manifest: Manifest,
    catalog: Catalog,
    synopsis: Synopsis,
    until: Callable[[QueryProgress], int],
    failures: Failures,
) -> int:
    """The event time from which any user of a synopsis may still need its pane rows.

    Arguments:
        until: up to when a query has answered altogether, by its progress.
    """
    stream = catalog.streams[synopsis.spec.stream]
    known = progress_of(catalog, synopsis.spec, manifest.progress)
    needs = failures.each(
        catalog.served(synopsis.owner),
        lambda q: keep_since(synopsis, q, stream, until(manifest.queries.get(str(q.id), QueryProgress())), known.high),
        NEVER,
    )
    if catalog.kept_by(synopsis.owner):
        needs.append(summary_since(synopsis, known.bound, known.high))
    return min(needs, default=NEVER)


def settled_pane(
    catalog: Catalog,
    synopsis: Synopsis,
    progress: Callable[[str], StreamProgress | None],
    queries: Callable[[str], QueryProgress | None],
    failures: Failures,
) -> int:
    """Of a synopsis of growing windows: the pane before which every window is final for all of its users; else -FAR.

    Arguments:
        progress, queries: progress of a stream, and of a query, by id; None: not known yet.
    """
    spec = synopsis.spec
    if not isinstance(spec, PanesSpec) or not spec.landmarks:
        return -FAR
    stream = catalog.streams[spec.stream]
    high = (progress(str(stream.id)) or StreamProgress()).high

    def of_query(standing: Standing) -> int:
        query, options = standing.windowed, standing.definition.options
        known = (queries(str(standing.id)) or QueryProgress()).read(WindowProgress)
        assert isinstance(query, WindowQuery)  # it has panes
        if stream.options.late == "revise" or spec.feeds:
            final = min(answered(known), horizon_of(query, options, known, high)) if known.closed > NEVER else NEVER
        else:
            final = min(answered(known), high)
        return end_pane(spec, query.window, final)

    return min(failures.each(catalog.served(synopsis.owner), of_query, -FAR), default=-FAR)
