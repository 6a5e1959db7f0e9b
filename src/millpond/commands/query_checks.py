"""What options, and which reductions, queries of a kind can have: what has no meaning for one is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from millpond.support.errors import Refusal
from millpond.types import (
    STATUS,
    CalendarWindow,
    LandmarkWindow,
    PairsQuery,
    QueryOptions,
    RelationalQuery,
    RelationQuery,
    RowScan,
    RowWindowQuery,
    ScanQuery,
    SessionQuery,
    Staged,
    StandingQuery,
    StreamDefinition,
    StreamQuery,
    Window,
    WindowQuery,
)


class Lookup(Protocol):
    """What a check must know of the names that there are."""

    def lookup(self, name: str) -> object:
        """The definition that has this name, or None."""


def check_options(schema: Lookup, asked: StandingQuery | Staged | ScanQuery, options: QueryOptions) -> None:
    """Refuse options that have no meaning for a query of its kind, or over its streams: Refusal."""
    query = asked.query if isinstance(asked, Staged) else asked
    check_reduction(query)
    if options.materialize != "auto":
        raise Refusal("'materialize' is for row queries; the state of a window query is always kept", "materialize")
    operator = query.operator if isinstance(query, RelationQuery) else None
    if operator == "rstream" and options.every is None:
        raise Refusal(
            "RSTREAM reports the whole relation again and again: say how often", words=("RSTREAM",),
            expected="CREATE QUERY … WITH (every='1 s') AS SELECT RSTREAM(…)",
        )  # fmt: skip
    if operator != "rstream" and options.every is not None:
        raise Refusal("'every' is for RSTREAM; ISTREAM and DSTREAM report changes when they happen", "every")
    streams = [f for f in map(schema.lookup, _streams_of(query)) if isinstance(f, StreamDefinition)]
    if isinstance(query, PairsQuery) and options.early is not None:
        raise Refusal("'early' is for answers that wait for the watermark; pairs go out at once", "early")
    if options.empty == "report":
        _check_empty(query)
        if any(s.takes_back for s in streams):
            labels = ", ".join(s.label for s in streams)
            message = f"empty='report' is not available over {labels}, whose rows take others back"
            raise Refusal(message, "empty")
    if isinstance(query, StreamQuery) and query.reduce is not None and options.state != "eager":
        raise Refusal(f"state='{options.state}' does not go with REDUCE, whose state has weights", "state", ("REDUCE",))
    if not isinstance(query, WindowQuery) and options.state != "eager":
        raise Refusal(f"state='{options.state}' is for windows of time with a SLIDE", "state")
    dropped = [s.name for s in streams if s.options.marks_by is not None and s.options.late == "drop"]
    if isinstance(query, RowWindowQuery | SessionQuery) and dropped and not query.feeds:
        kind = "sessions" if isinstance(query, SessionQuery) else "windows that end with rows"
        raise Refusal(
            f"{kind} are not available over a stream with marks_by and late='drop'",
            words=(dropped[0],), expected="a stream with late='revise'",
        )  # fmt: skip
    if options.flush != "at once":
        _check_flush(streams, query, options)
    joined = isinstance(asked, RelationalQuery | Staged) or any(s.is_inner for s in streams)
    _check_idle(options, joined)
    taken = next((o.name for o in query.select if o.name.lower() == STATUS), None)
    if options.early is not None and taken is not None:
        raise Refusal(
            f"with 'early' answers have a column {STATUS} of their own", "early", (taken,), f"{taken} AS another name"
        )


def _check_idle(options: QueryOptions, joined: bool) -> None:
    """Refuse options that would change nothing."""
    plain = QueryOptions()
    idle = {
        "is for flush='slow' and 'lazy'": ("flush_delay", "flush_windows") if options.flush == "at once" else (),
        "is for relations and joins": () if joined else ("held_rows", "memory_rows"),
        "does not go with adapt='off'": (
            ("adapt_probability", "adapt_window", "adapt_alpha", "adapt_budget") if options.adapt == "off" else ()
        ),
    }
    for reason, names in idle.items():
        for name in names:
            if getattr(options, name) != getattr(plain, name):
                raise Refusal(f"'{name}' {reason}", name)


def check_reduction(query: StandingQuery | ScanQuery) -> None:
    """Refuse reductions that a query of its kind cannot be answered with: Refusal."""
    if not isinstance(query, StreamQuery) or query.reduce is None:
        return
    if isinstance(query, SessionQuery):
        raise Refusal(
            "REDUCE leaves rows out, and sessions end where there are none: fewer rows would make other sessions",
            words=("REDUCE",),
            expected="the query without REDUCE",
        )
    if query.reduce.samples:
        return
    if isinstance(query, RowScan | RowWindowQuery) or query.feeds:
        raise Refusal(
            "REDUCE BY INTERVAL sees the past as sums over intervals: it is for aggregates of one stream, over windows"
            " of time or over everything",
            words=("REDUCE",),
            expected="REDUCE sample(0.9), which leaves rows out",
        )


def _streams_of(query: StandingQuery | ScanQuery) -> list[str]:
    """The names of the streams that a query reads."""
    if isinstance(query, RelationalQuery):
        return [name for item in query.inputs for name in item.names]
    return [f.name for f in query.feeds] or [query.stream]


def _check_empty(query: StandingQuery | ScanQuery) -> None:
    if isinstance(query, RelationalQuery):
        raise Refusal("empty='report' is for windows with SLIDE; a relation is defined at every instant", "empty")
    if isinstance(query, RowWindowQuery):
        raise Refusal("empty='report' is for windows that end at instants; one that ends with a row holds it", "empty")
    if isinstance(query, SessionQuery):
        raise Refusal("empty='report' is for windows that end at instants; sessions are made of rows", "empty")
    if isinstance(query, WindowQuery) and _grows(query.window):
        raise Refusal(
            "a window that grows reports every window since a group's first row by itself: leave empty='report' out",
            "empty",
        )


def _grows(window: Window) -> bool:
    return isinstance(window, LandmarkWindow) or (isinstance(window, CalendarWindow) and window.grows)


def _check_flush(streams: Sequence[StreamDefinition], query: StandingQuery | ScanQuery, options: QueryOptions) -> None:
    """Refuse to spread the answers of a window that cannot go out one by one."""
    if not isinstance(query, WindowQuery):
        raise Refusal(f"flush='{options.flush}' is for windows that end at instants", "flush")
    whole = query.distinct or query.limit is not None or bool(query.offset)
    marks = any(s.options.marks_by is not None for s in streams)
    reasons = {
        "spreads groups, and there is no GROUP BY": not query.keys,
        "does not go with LIMIT or DISTINCT, which need all groups of a window at once": whole,
        "does not go with the bounds of groups that marks_by gives": marks,
    }
    for reason, holds in reasons.items():
        if holds:
            raise Refusal(f"flush='{options.flush}' {reason}", "flush")
