"""The window of a query that ends at an instant: where it begins, and the query over just its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, assert_never

import numpy as np

from millpond.support.sql import quote
from millpond.types import (
    Aggregate,
    CalendarWindow,
    Expression,
    KindWindow,
    LandmarkWindow,
    TimeWindow,
    Window,
    WindowAggregation,
    composed,
)
from millpond.windows.calendar_panes import back_from
from millpond.windows.landmark_windows import BEGINNING, last_before
from millpond.windows.registered import axis_of

Q = TypeVar("Q", bound=WindowAggregation)


def start_of_last(window: Window, now: int, until: int) -> int:
    """Where the window begins that reaches up to `until`, exclusive."""
    match window:
        case TimeWindow():
            return now - window.range
        case KindWindow():  # of the windows that hold NOW, the one that ends first
            axis = axis_of(window.kind)
            held = axis.held((until - 1) // axis.grid * axis.grid)
            return axis.start_of(held.start) if len(held) else until
        case CalendarWindow():
            return back_from(window, now, until)
        case LandmarkWindow():
            since = [int(last_before(mark, np.array([until]))[0]) for mark in window.landmarks]
            return min(since + ([now - window.range] if window.range else []))
        case _:
            assert_never(window)


def moment_sql(time: int) -> str:
    """DuckDB SQL of an instant; NULL for the start of the stream."""
    return "NULL::TIMESTAMP" if time <= BEGINNING else f"make_timestamp({time})"


def _narrowed(aggregate: Aggregate, query: WindowAggregation, end: int, until: int) -> Aggregate:
    """An aggregate with a window of its own, as one over the query's window with a filter."""
    window = query.behind(aggregate)
    if window is None:
        return aggregate
    start = start_of_last(window, end, until)
    inside = f"epoch_us({quote(window.attribute)}) >= {start}"
    given = [] if aggregate.filter is None else [aggregate.filter]
    sql = f"({aggregate.filter}) AND {inside}" if given else inside
    both = composed(sql, "BOOLEAN", given, [window.attribute])
    return replace(aggregate, range=None, since=None, filter=both)


def bounded(query: Q, start: int, end: int, until: int) -> Q:
    """The query with window_start and window_end standing for the invoked window, which holds rows before `until`."""
    ends = f"(SELECT {moment_sql(start)} AS window_start, make_timestamp({end}) AS window_end)"

    def put(value: Expression) -> Expression:
        if not {"window_start", "window_end"}.intersection(value.columns):
            return value
        return value.within("(SELECT ", f" FROM {ends})", value.type)

    return replace(
        query,
        aggregates=tuple(_narrowed(a, query, end, until) for a in query.aggregates),
        select=tuple(replace(o, expression=put(o.expression)) for o in query.select),
        having=put(query.having) if query.having else None,
        order_by=tuple(replace(t, expression=put(t.expression)) for t in query.order_by),
    )


__all__ = ["bounded", "moment_sql", "start_of_last"]
