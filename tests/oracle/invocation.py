"""INVOKE by definition: the SELECT over [NOW - RANGE, NOW], closed at both ends, one row per group."""

from __future__ import annotations

from typing import Any

from tests.oracle.case import Case
from tests.oracle.evaluate import over
from tests.oracle.rows import Table


def invoke(case: Case, table: Table, now: int | None = None) -> list[tuple[Any, ...]]:
    """The SELECT list of `INVOKE q` (now: the largest event time admitted) or of `AS OF TIMESTAMP now`.

    An ungrouped query gives its one row also when the window holds no row for it, as SQL does; a grouped one nothing.
    """
    assert case.range_us is not None
    if not table.rows:
        return []
    at = max(row.time for row in table.rows) if now is None else now
    start = at - case.range_us if case.since is None else case.since.before(at + 1)
    start = start if case.dated is None else case.dated.back_from(at)
    if start is None:  # before the first landmark there is no window
        return []
    rows = [row for row in table.rows if start <= row.time <= at]
    return [items for items, _ in over(case, table, rows, start, at)]
