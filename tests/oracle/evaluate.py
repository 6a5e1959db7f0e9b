"""Window answers by definition: the SELECT over the rows of every window's extent, one window after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tests.oracle.case import Case
from tests.oracle.landmarks import landmark_ends
from tests.oracle.rows import ORDER, TIME, Row, Table

#: An answer row: (window_start, window_end) in microseconds, the SELECT list, the grouping keys.
Answer = tuple[int, int, tuple[Any, ...], tuple[Any, ...]]


def window_ends(case: Case, times: Iterable[int], until: int | None = None) -> list[int]:
    """The ends of all windows that cover one of the times, ascending: origin + k·slide with end - range <= t < end.

    A window since a landmark covers landmark <= t < end; of those there is one at every end up to `until`, or to the
    first end behind the last of the times.
    """
    assert case.range_us is not None
    if case.sinces:
        times = list(times)
        last = last_of(case, max(times, default=0)) if until is None else until
        return sorted({end for one in apart(case) for end in window_ends(one, times, last) if end <= last})
    if case.dated is not None:
        return case.dated.ends_with(times, until)
    if case.since is not None:
        times = list(times)
        last = max(((t // case.slide + 1) * case.slide for t in times), default=0)
        return landmark_ends(case.since, case.slide, times, last if until is None else until)
    origin, slide = case.effective_origin, case.slide
    ends: set[int] = set()
    for time in set(times):
        end = origin + ((time - origin) // slide + 1) * slide  # the first end behind the time
        while end - case.range_us <= time:
            ends.add(end)
            end += slide
    return sorted(ends)


def apart(case: Case) -> list[Case]:
    """The windows behind the items of a SELECT, each as that of a query of its own."""
    windows = [w for w in case.beside if w[0] or w[1] is not None]
    return [replace(case, range_us=size, since=since, ranges=(), sinces=()) for size, since in windows]


def last_of(case: Case, time: int) -> int:
    """The last end that is reported when the stream has ended and `time` is that of its last row."""
    first = (time // case.slide + 1) * case.slide
    return max([first, *(((time + size) // case.slide) * case.slide for size in case.ranges)])


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
    chosen = list(ends) if ends is not None else _ends(case, table, seen, until)
    if until is not None:
        chosen = [end for end in chosen if end <= until]
    answers: list[Answer] = []
    width = len(case.group_by)
    for end in chosen:
        start = start_of(case, end)
        inside = any(start <= time < end for time in seen)
        if not inside and case.empty != "report":
            continue
        if case.ranges:
            answers += [(start, end, items, keys) for items, keys in _beside(case, connection, end)]
            continue
        rows = _between(start, end)
        for found in connection.execute(case.extent_sql(start, end, rows)).fetchall():
            items, keys = (found[:-width], found[-width:]) if width else (found, ())
            answers.append((start, end, tuple(items), tuple(keys)))
    return answers


def ends_of(case: Case, table: Table, until: int | None) -> list[int]:
    """The ends of the windows that `evaluate` would look at."""
    return [end for end in _ends(case, table, _seen(case, table, table.load()), until) if until is None or end <= until]


def _ends(case: Case, table: Table, seen: list[int], until: int | None) -> list[int]:
    chosen = window_ends(case, seen, last_end(case, table, until))
    if case.empty == "report" and chosen and not case.group_by:
        last = chosen[-1] if until is None else until
        chosen = list(range(chosen[0], last + 1, case.slide)) if case.dated is None else case.dated.all(chosen[0], last)
    return chosen


def _between(start: int, end: int) -> str:
    return f"(SELECT * FROM t WHERE {TIME} >= {start} AND {TIME} < {end} ORDER BY {ORDER})"


def _beside(case: Case, connection: Any, end: int) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Several windows in one SELECT: the groups of the widest, and each item over the rows of its own window."""
    assert case.range_us is not None
    width = len(case.group_by)
    groups: dict[str, list[Any]] = {}
    for n, (item, (size, since)) in enumerate(zip(case.select, case.beside, strict=True)):
        one = replace(case, select=(item,), ranges=(), sinces=())
        whole = _between(start_of(case, end), end)
        if n == 0:
            for *_, keys in _split(connection.execute(one.extent_sql(0, 0, whole)).fetchall(), width):
                groups[repr(keys)] = [keys]
        own = replace(one, range_us=size, since=since) if size or since is not None else case
        rows = _between(start_of(own, end), end)
        found = _split(connection.execute(one.extent_sql(end - case.range_us, end, rows)).fetchall(), width)
        values = {repr(keys): items[0] for items, keys in found}
        for name, group in groups.items():
            if name not in values:
                nothing = replace(one, group_by=(), where=None).extent_sql(0, end, "(SELECT * FROM t LIMIT 0)")
                values[name] = connection.execute(nothing).fetchall()[0][0]
            group.append(values[name])
    return [(tuple(group[1:]), group[0]) for group in groups.values()]


def _split(found: list[Any], width: int) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    return [(tuple(f[:-width]), tuple(f[-width:])) if width else (tuple(f), ()) for f in found]


def start_of(case: Case, end: int) -> int:
    """Where the window that ends at `end` begins; of several the first. At `end` where no landmark has come."""
    if case.sinces:
        return min(start_of(one, end) for one in apart(case))
    if case.dated is not None:
        return case.dated.before(end)
    if case.since is None:
        return end - (case.range_us or 0)
    start = case.since.before(end)
    return end if start is None else start


def last_end(case: Case, table: Table, until: int | None) -> int | None:
    """How far windows since a landmark are reported: up to progress, but not beyond the first end behind all rows."""
    if case.dated is not None and case.dated.grows and table.rows:
        last = case.dated.after(max(row.time for row in table.rows))
        return last if until is None or until >= 10**30 else until
    if (case.since is None and not case.sinces) or not table.rows:
        return until
    last = last_of(case, max(row.time for row in table.rows))
    return last if until is None or until >= 10**30 else until


def _seen(case: Case, table: Table, connection: Any) -> list[int]:
    """Event times of the rows that pass WHERE: 'a tuple' of a window is one that the query sees."""
    if case.where is None:
        return [row.time for row in table.rows]
    found = connection.execute(f"SELECT {TIME} FROM t AS {case.stream} WHERE {case.where}").fetchall()
    return [time for (time,) in found]


def seen(case: Case, table: Table) -> list[int]:
    """Event times of the rows that the query sees: those that pass WHERE."""
    return _seen(case, table, table.load())


def over(
    case: Case, table: Table, rows: Sequence[Row], start: int, end: int
) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The SELECT over any rows, as (SELECT list, keys)."""
    width = len(case.group_by)
    sql = case.extent_sql(start, end, f"(SELECT * FROM t ORDER BY {ORDER})")
    found = table.only(rows).load().execute(sql).fetchall()
    return [(tuple(f[:-width]), tuple(f[-width:])) if width else (tuple(f), ()) for f in found]
