"""What EXPLAIN says of sessions: which they are, and what is kept for them."""

from __future__ import annotations

from millpond.operators.windowed.window_plans import filter_and_keys
from millpond.synopses.session_partials import SessionsSpec
from millpond.types import SessionQuery, SessionWindow
from millpond.types.durations import duration
from millpond.types.plan_nodes import Fact


def session_facts(query: SessionQuery, spec: SessionsSpec) -> list[Fact]:
    """What there is to say of a query over sessions, by the rows that it needs."""
    window = query.window
    gap = f"gap {window.spans}" if window.spans is not None else f"gap {duration(window.gap)}"
    most = "" if window.longest is None else f", at most {duration(window.longest)} long"
    keys = ", ".join(str(k.expression) for k in query.session_keys)
    found = [Fact("window", f"sessions{f' of each {keys}' if keys else ''}, {gap}{most}"), *filter_and_keys(query)]
    kept = spec.sessions
    what = "the rows of each instant together" if spec.apart else "the rows of each session together"
    until = "until the session is over" if spec.drops else f"until {duration(kept.behind)} after the session is over"
    return [
        *found,
        Fact("kept", f"{what}, {until}"),
        Fact("shards", f"by {keys}" if keys else "one has all rows, since they make sessions together"),
    ]


def session_text(window: SessionWindow) -> str:
    """A window of sessions as in SQL."""
    by = ", ".join(str(k.expression) for k in window.partition)
    gap = f"({window.spans})" if window.spans is not None else duration(window.gap)
    most = "" if window.longest is None else f" MAX {duration(window.longest)}"
    return f"[{f'PARTITION BY {by} ' if by else ''}SESSION {gap}{most}]"
