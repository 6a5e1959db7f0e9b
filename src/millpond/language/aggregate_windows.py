"""Windows behind aggregate calls: `count(*) [RANGE 1 HOUR SLIDE 5 MINUTES]`, several of them in one SELECT.

Li 2008, section 3 (the window is a parameter of the aggregate). All windows of one SELECT end at the same instants; one
window for all calls is the same as that window behind FROM.
"""

from __future__ import annotations

from sqlglot import exp

from millpond.language.expressions import function_name, is_aggregate
from millpond.language.from_items import time_window
from millpond.language.places import Source, own_span
from millpond.language.window_clause import WINDOW, WindowClause
from millpond.types import StreamDefinition, Window

_WORKS = "count(*) [RANGE 10 MINUTES SLIDE 1 MINUTE], max(v) [RANGE 1 HOUR SLIDE 1 MINUTE]"


def windowed_calls(select: exp.Expr, text: str) -> list[exp.Expr]:
    """The nodes of a SELECT that have a window in brackets behind them, in the order of the text.

    text: the statement; without a bracket in it nothing is looked for.
    """
    if "[" not in text:
        return []
    found = []
    waiting: list[exp.Expr] = [select]
    while waiting:
        node = waiting.pop()
        if WINDOW in node.meta and not isinstance(node, exp.Table):
            found.append(node)
        for value in node.args.values():
            waiting += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]
    return sorted(found, key=lambda n: _clause(n).place)


def _clause(node: exp.Expr) -> WindowClause:
    clause = node.meta[WINDOW]
    assert isinstance(clause, WindowClause)
    return clause


#: What gives aggregates over joins, window by window.
OVER_JOINS = (
    "CREATE QUERY … WITH (every='1 minute') AS SELECT RSTREAM(…, count(*)) FROM a [RANGE 5 MINUTES] JOIN b"
    " [RANGE 5 MINUTES] ON … GROUP BY …; or CREATE STREAM p AS SELECT PAIRS(…), and the window over p"
)


def refuse_over_joins(select: exp.Expr, text: str, source: Source) -> None:
    """Refuse windows behind aggregates of a relation of CQL: its windows stand behind its streams."""
    if calls := windowed_calls(select, text):
        raise source.error(
            "a window behind an aggregate is over one stream, and these are relations",
            _clause(calls[0]).place,
            OVER_JOINS,
        )


def refuse_windowed_calls(select: exp.Expr, text: str, source: Source) -> None:
    """Refuse windows behind aggregates where no stream is read."""
    if calls := windowed_calls(select, text):
        raise source.error("a window stands behind a stream or behind an aggregate over one", _clause(calls[0]).place)


class CallWindows:
    """The windows behind the aggregate calls of one SELECT over a stream.

    query: the window of the query, the widest of them; None: no call has a window.

    Raises: StatementError for a window behind what is no aggregate, and for windows that do not end together.
    """

    def __init__(
        self, select: exp.Expr, text: str, behind: WindowClause | None, stream: StreamDefinition, source: Source
    ) -> None:
        self.source = source
        calls = windowed_calls(select, text)
        for node in calls:
            if not is_aggregate(node):
                raise source.error("a window stands behind a stream or an aggregate", _clause(node).place, _WORKS)
        if calls and behind is not None:
            raise source.error(
                "windows stand behind the stream or behind its aggregates, not both",
                behind.place,
                "the window behind every aggregate call, or behind the stream alone",
            )
        bound = [(node, time_window(_clause(node), stream, source)) for node in calls]
        self.query: Window | None = max((w for _, w in bound), key=lambda w: w.range, default=None)
        self.several = len({w for _, w in bound}) > 1
        if self.several:
            for node, window in bound:
                self._check(node, window, bound[0][1])

    def _check(self, node: exp.Expr, window: Window, first: Window) -> None:
        place = _clause(node).place
        if window.landmark is not None or first.landmark is not None:
            raise self.source.error(
                "a window since a landmark is the only one of its SELECT",
                place,
                "the same window behind every call, or two queries",
            )
        if (window.slide, window.origin) != (first.slide, first.origin):
            what = "SLIDE" if window.slide != first.slide else "ORIGIN"
            raise self.source.error(
                f"the windows of one SELECT end together, and this one has another {what} than the first", place, _WORKS
            )

    def range_of(self, node: exp.Expr) -> int | None:
        """The RANGE of the window behind an aggregate call; None where it is the query's.

        Raises:
            StatementError: there are several windows, and the call has none.
        """
        if not self.several:
            return None
        assert self.query is not None
        if WINDOW not in node.meta:
            inner = node
            while isinstance(inner, exp.Filter | exp.WithinGroup):
                inner = inner.this
            raise self.source.error(
                f"there are several windows, and this {function_name(inner)} does not say which is its own",
                own_span(inner),
                _WORKS,
            )
        clause = _clause(node)
        return None if clause.range == self.query.range else clause.range
