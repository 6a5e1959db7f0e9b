"""Window answers by definition: the SELECT over the rows of every window's extent, one window after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.oracle.case import Case
from tests.oracle.rows import ORDER, TIME, Row, Table

#: An answer row: (window_start, window_end) in microseconds, the SELECT list, the grouping keys.
Answer = tuple[int, int, tuple[Any, ...], tuple[Any, ...]]


def window_ends(case: Case, times: Iterable[int]) -> list[int]:
    """The ends of all windows that cover one of the times, ascending: origin + k·slide with end - range <= t < end."""
    assert case.range_us is not None
    origin, slide = case.effective_origin, case.slide
    ends: set[int] = set()
    for time in set(times):
        end = origin + ((time - origin) // slide + 1) * slide  # the first end behind the time
        while end - case.range_us <= time:
            ends.add(end)
            end += slide
    return sorted(ends)


def evaluate(case: Case, table: Table, until: int | None = None, ends: Sequence[int] | None = None) -> list[Answer]:
    """The answers of all windows with a row that the query sees, in order of their ends.

    Arguments:
        until: only windows that end at or before it (progress).
        ends: these windows instead.
    Empty windows are given for `empty='report'` (ungrouped), from the first window with data up to `until`.
    """
    assert case.range_us is not None
    connection = table.load()
    seen = _seen(case, table, connection)
    chosen = list(ends) if ends is not None else window_ends(case, seen)
    if ends is None and case.empty == "report" and chosen and not case.group_by:
        last = chosen[-1] if until is None else until
        chosen = list(range(chosen[0], last + 1, case.slide))
    if until is not None:
        chosen = [end for end in chosen if end <= until]
    answers: list[Answer] = []
    width = len(case.group_by)
    for end in chosen:
        start = end - case.range_us
        inside = any(start <= time < end for time in seen)
        if not inside and case.empty != "report":
            continue
        rows = f"(SELECT * FROM t WHERE {TIME} >= {start} AND {TIME} < {end} ORDER BY {ORDER})"
        for found in connection.execute(case.extent_sql(start, end, rows)).fetchall():
            items, keys = (found[:-width], found[-width:]) if width else (found, ())
            answers.append((start, end, tuple(items), tuple(keys)))
    return answers


def _seen(case: Case, table: Table, connection: Any) -> list[int]:
    """Event times of the rows that pass WHERE: 'a tuple' of a window is one that the query sees."""
    if case.where is None:
        return [row.time for row in table.rows]
    found = connection.execute(f"SELECT {TIME} FROM t AS {case.stream} WHERE {case.where}").fetchall()
    return [time for (time,) in found]


def over(
    case: Case, table: Table, rows: Sequence[Row], start: int, end: int
) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The SELECT over any rows, as (SELECT list, keys)."""
    width = len(case.group_by)
    sql = case.extent_sql(start, end, f"(SELECT * FROM t ORDER BY {ORDER})")
    found = table.only(rows).load().execute(sql).fetchall()
    return [(tuple(f[:-width]), tuple(f[-width:])) if width else (tuple(f), ()) for f in found]
