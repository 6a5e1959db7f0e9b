"""INVOKE by definition: the SELECT over [NOW - RANGE, NOW], closed at both ends, one row per group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.oracle.case import Case
from tests.oracle.evaluate import apart, over
from tests.oracle.rows import Table


def invoke(case: Case, table: Table, now: int | None = None) -> list[tuple[Any, ...]]:
    """The SELECT list of `INVOKE q` (now: the largest event time admitted) or of `AS OF TIMESTAMP now`.

    An ungrouped query gives its one row also when the window holds no row for it, as SQL does; a grouped one nothing.
    Of several windows every aggregate is over its own, for the groups of the widest.
    """
    assert case.range_us is not None
    if not table.rows:
        return []
    at = max(row.time for row in table.rows) if now is None else now
    start = back_from(case, at)
    if start is None:  # before the first landmark there is no window
        return []
    rows = [row for row in table.rows if start <= row.time <= at]
    if case.ranges:
        return _beside(case, table, start, at)
    return [items for items, _ in over(case, table, rows, start, at)]


def back_from(case: Case, at: int) -> int | None:
    """Where the window begins that ends at an instant; of several the first; None: there is none."""
    if case.ranges:
        begins = [begin for one in apart(case) if (begin := back_from(one, at)) is not None]
        return min(begins, default=None)
    if case.dated is not None:
        return case.dated.back_from(at)
    return at - (case.range_us or 0) if case.since is None else case.since.before(at + 1)


def _beside(case: Case, table: Table, start: int, at: int) -> list[tuple[Any, ...]]:
    groups: dict[str, list[Any]] = {}
    for n, (item, (size, since)) in enumerate(zip(case.select, case.beside, strict=True)):
        one = replace(case, select=(item,), ranges=(), sinces=())
        if n == 0:
            rows = [r for r in table.rows if start <= r.time <= at]
            groups = {repr(keys): [] for _, keys in over(one, table, rows, start, at)}
        own = back_from(replace(one, range_us=size, since=since), at) if size or since is not None else start
        rows = [r for r in table.rows if own is not None and own <= r.time <= at]
        found = {repr(keys): items[0] for items, keys in over(one, table, rows, start, at)}
        empty = over(replace(one, group_by=(), where=None), table, [], start, at) if size or since is not None else []
        nothing = empty[0][0][0] if empty else None
        for name, group in groups.items():
            group.append(found.get(name, nothing))
    return [tuple(group) for group in groups.values()]
