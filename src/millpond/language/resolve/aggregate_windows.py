"""Windows behind aggregate calls: `count(*) [RANGE 1 HOUR SLIDE 5 MINUTES]`, several of them in one SELECT.

Li 2008, section 3 (the window is a parameter of the aggregate). All windows of one SELECT end at the same instants, be
they of a RANGE or since a landmark; one window for all calls is the same as that window behind FROM, whatever its kind.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millpond.language.resolve.expressions import called, check_known, function_name, is_aggregate
from millpond.language.resolve.from_items import fixed_window
from millpond.language.syntax.nodes import WindowedCall
from millpond.language.syntax.source_text import Source, own_span
from millpond.language.syntax.window_clause import WindowClause
from millpond.types import Landmark, LandmarkWindow, StreamDefinition, TimeWindow, Window

_WORKS = "count(*) [RANGE 10 MINUTES SLIDE 1 MINUTE], max(v) [RANGE ALL SLIDE 1 MINUTE]"


def windowed_calls(select: exp.Expr, text: str) -> list[WindowedCall]:
    """What has a window in brackets behind it, in the order of the text, FROM items aside.

    text: the statement; without a bracket in it nothing is looked for.
    """
    return sorted(select.find_all(WindowedCall), key=lambda n: n.window.place) if "[" in text else []


#: What gives aggregates over joins, window by window.
OVER_JOINS = (
    "FROM (a [RANGE 5 MINUTES] JOIN b [NOW] ON …) and this window; or CREATE QUERY … WITH (every='1 minute') AS SELECT"
    " RSTREAM(…, count(*)) FROM a [RANGE 5 MINUTES] JOIN b [RANGE 5 MINUTES] ON … GROUP BY …"
)


def refuse_over_joins(select: exp.Expr, text: str, source: Source) -> None:
    """Refuse windows behind aggregates of a relation of CQL: its windows stand behind its streams."""
    if calls := windowed_calls(select, text):
        raise source.error(
            "a window behind an aggregate is over one stream, and these are relations",
            calls[0].window.place,
            OVER_JOINS,
        )


def refuse_windowed_calls(select: exp.Expr, text: str, source: Source) -> None:
    """Refuse windows behind aggregates where no stream is read."""
    if calls := windowed_calls(select, text):
        raise source.error("a window stands behind a stream or behind an aggregate over one", calls[0].window.place)


#: The window behind a call where it is not the query's: its RANGE (microseconds), or the landmark since which it grows.
OwnWindow = tuple[int | None, Landmark | None]


class CallWindows:
    """The windows behind the aggregate calls of one SELECT over a stream.

    common: the one window of all calls that have one, of any kind: it is the window behind the stream.
    query: where there are several, the window of the query, which holds all of them: it begins where the first of them
        begins. None: there are not several.

    Raises: StatementError for a window behind what is no aggregate, and for windows that do not end together.
    """

    def __init__(
        self, select: exp.Expr, text: str, behind: WindowClause | None, stream: StreamDefinition, source: Source
    ) -> None:
        self.source = source
        self.common: WindowClause | None = None
        self.shared: TimeWindow | LandmarkWindow | None = None
        calls = windowed_calls(select, text)
        for node in calls:
            if not is_aggregate(node.this):
                check_known(node.this, source)
                raise source.error("a window stands behind a stream or an aggregate", node.window.place, _WORKS)
            if node.window.is_relation:
                raise source.error(
                    "a window without SLIDE makes the stream a relation, and stands behind the stream",
                    node.window.place,
                    f"FROM {stream.name} [RANGE 5 MINUTES], or {_WORKS}",
                )
        if calls and behind is not None:
            raise source.error(
                "windows stand behind the stream or behind its aggregates, not both",
                behind.place,
                "the window behind every aggregate call, or behind the stream alone",
            )
        if len({_said(node.window) for node in calls}) == 1:
            self.common = calls[0].window
            return
        for node in calls:
            self._must_end_at_instants(node.window)
        self._windows = {node.window: fixed_window(node.window, stream, source) for node in calls}
        if not calls:
            return
        for node in calls:
            self._check(node.window, self._windows[node.window], self._windows[calls[0].window])
        self.shared = _around(list(self._windows.values()))

    def _must_end_at_instants(self, clause: WindowClause) -> None:
        if clause.slide_rows is not None or clause.extent in ("kind", "session") or clause.calendar is not None:
            own = {"kind": "where its kind says", "session": "a gap behind its rows"}
            what = "with rows" if clause.slide_rows is not None else own.get(clause.extent, "by a calendar")
            raise self.source.error(
                f"the windows of one SELECT end together, and this one ends {what}: it is the only one of its SELECT",
                clause.place,
                "the same window behind every call, or two queries",
            )

    def _check(self, clause: WindowClause, window: Window, first: Window) -> None:
        if (window.slide, window.origin) != (first.slide, first.origin):
            what = "SLIDE" if window.slide != first.slide else "ORIGIN"
            raise self.source.error(
                f"the windows of one SELECT end together, and this one has another {what} than the first",
                clause.place,
                _WORKS,
            )

    def window_of(self, node: exp.Expr) -> OwnWindow:
        """RANGE or landmark of the window behind an aggregate call; neither: it is the query's.

        Raises:
            StatementError: there are several windows, and the call has none.
        """
        if self.shared is None:
            return None, None
        if not isinstance(node, WindowedCall):
            inner = called(node)
            raise self.source.error(
                f"there are several windows, and this {function_name(inner)} does not say which is its own",
                own_span(inner),
                _WORKS,
            )
        window = self._windows[node.window]
        if window == self.shared:
            return None, None
        if isinstance(window, TimeWindow):
            return window.range, None
        return None, None if window.landmark.since is None else window.landmark


def same_window(first: WindowClause, second: WindowClause) -> bool:
    """Whether two clauses say the same, wherever they stand."""
    return _said(first) == _said(second)


def _said(clause: WindowClause) -> WindowClause:
    """What a clause says, wherever it stands."""
    nowhere = (0, 0)
    partition = tuple((name.lower(), nowhere) for name, _ in clause.partition)
    placed = replace(clause, place=nowhere, attribute_place=nowhere, kind_place=nowhere, zone_place=nowhere)
    return replace(placed, partition=partition, kind=clause.kind.lower())


def _around(windows: list[TimeWindow | LandmarkWindow]) -> TimeWindow | LandmarkWindow:
    """The window that begins where the first of several begins: the widest where one holds all the others.

    >>> from millpond.types import HOUR
    >>> _around([TimeWindow(HOUR, 1), TimeWindow(2 * HOUR, 1)]).range // HOUR
    2
    """
    widest = max(windows, key=lambda w: w.range)
    # The start of the stream comes before all others.
    marks = sorted(
        {mark for w in windows for mark in w.landmarks},
        key=lambda m: (m.since is not None, m.since or 0, m.every or 0, m.zone),
    )
    if not marks:
        return widest
    return LandmarkWindow(widest.slide, marks[0], widest.origin, widest.attribute, tuple(marks[1:]), widest.range)
