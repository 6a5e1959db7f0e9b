"""Between which event times the rows lie that a condition lets pass: all others need not be read.

WHERE ts >= TIMESTAMP '2026-03-01' AND v > 3      rows from the first of March on

Only comparisons with constants that every row must satisfy count; what is not understood asks for all.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from millpond.language.plan.answer_bounds import compared, conjunction
from millpond.language.syntax.dialect import parsed_expression
from millpond.types import Expression

#: How far the event times may lie beyond a constant, microseconds: it may have nanoseconds.
_BELOW: Mapping[type[exp.Expr], int] = {exp.GT: 1, exp.GTE: 1, exp.EQ: 1}
_ABOVE: Mapping[type[exp.Expr], int] = {exp.LT: 1, exp.LTE: 2, exp.EQ: 2}


def event_times(where: Expression | None, time: str) -> tuple[int | None, int | None]:
    """The least event time that a row can have, and one that none can reach; None: there is no such bound.

    Arguments:
        where: over the stream's columns. time: the stream's event-time column.

    >>> event_times(Expression("\\"ts\\" >= CAST('1970-01-01 00:00:01' AS TIMESTAMP)"), "ts")
    (999999, None)
    """
    low: int | None = None
    high: int | None = None
    if where is None or (tree := parsed_expression(where.sql)) is None:
        return None, None
    for condition in conjunction(tree):
        found = compared(condition)
        if found is None or found.column.name.lower() != time.lower():
            continue
        if (below := _BELOW.get(found.kind)) is not None:
            low = found.micros - below if low is None else max(low, found.micros - below)
        if (above := _ABOVE.get(found.kind)) is not None:
            high = found.micros + above if high is None else min(high, found.micros + above)
    return low, high
