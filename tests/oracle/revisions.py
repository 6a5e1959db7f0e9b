"""The log of answers by definition: first answers when windows close, a higher revision when an epoch changes a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.case import Case
from tests.oracle.compare import rows_equal
from tests.oracle.evaluate import Answer, ends_of, evaluate, last_end, start_of, window_ends
from tests.oracle.progress import Script, Step, trace
from tests.oracle.rows import Row, Table

DAY = 86_400_000_000

#: Answers of windows by their end, what was asked and the rows of their extent; of one query and one log.
Known = dict[tuple[Any, ...], list[Answer]]


@dataclass(frozen=True)
class Revision:
    """One entry of the log; `op` is '+' or, for a row that vanished, '-' (its items are those last shown)."""

    epoch: int
    start: int
    end: int
    items: tuple[Any, ...]
    keys: tuple[Any, ...]
    revision: int
    op: str = "+"


def revisions(case: Case, types: dict[str, str], script: Script, revise_for: int | None = None) -> list[Revision]:
    """The whole log of a query that was registered before the first row.

    Every epoch: the windows that are closed after it are evaluated anew over the rows that count for them; what is
    there for the first time gets revision 0, what differs from the last entry of its (window, group) a higher one.
    With `late='drop'` a row counts for a window only if the window was open at the start of the row's epoch; with
    `'revise'` only if the window still had state: it ended no longer than `revise_for` before the bound then.
    """
    return _log(case, types, script.spec.late, trace(script), revise_for)


def revisions_by_group(
    case: Case, types: dict[str, str], script: Script, key: str, revise_for: int | None = None
) -> list[Revision]:
    """As `revisions`, for a query grouped by column `key` on a stream whose marks are for groups of it.

    Every group is a stream of its own with its own bound.
    """
    steps = trace(script)
    log: list[Revision] = []
    for group in sorted({row.values[key] for step in steps for row in step.admitted}, key=repr):
        own = []
        for step in steps:
            before, after = step.of(group)
            rows = tuple(row for row in step.admitted if row.values[key] == group)
            own.append(replace(step, before=before, after=after, admitted=rows))
        log += _log(case, types, script.spec.late, own, revise_for)
    return log


def _log(case: Case, types: dict[str, str], late: str, steps: Sequence[Step], revise_for: int | None) -> list[Revision]:
    assert case.range_us is not None
    kept = revise_for if revise_for is not None else max(DAY, 10 * case.range_us)
    log: list[Revision] = []
    shown: dict[tuple[int, tuple[Any, ...]], Revision] = {}
    taken: list[tuple[Row, int]] = []
    known: Known = {}
    for number, step in enumerate(steps):
        taken += [(row, step.before) for row in step.admitted if late != "drop" or id(row) not in step.dropped]
        current = _answers(case, types, late, kept, taken, step, known)
        for key, (start, items) in current.items():
            last = shown.get(key)
            if last is not None and last.op == "+" and rows_equal(last.items, items):
                continue
            entry = Revision(number, start, key[0], items, key[1], 0 if last is None else last.revision + 1)
            shown[key] = entry
            log.append(entry)
        for key, last in list(shown.items()):
            if key not in current and last.op == "+":
                gone = Revision(number, last.start, last.end, last.items, last.keys, last.revision + 1, "-")
                shown[key] = gone
                log.append(gone)
    return log


def _of_window(case: Case, table: Table, end: int, known: Known) -> list[Answer]:
    """The answers of one window; asked again about the same rows of its extent they are those of the first time."""
    start = start_of(case, end)
    extent = tuple(id(row) for row in table.rows if start <= row.time < end)
    key = (end, case.having, case.limit, extent)
    if key not in known:
        known[key] = evaluate(case, table, None, [end])
    return known[key]


def _answers(
    case: Case, types: dict[str, str], late: str, kept: int, taken: list[tuple[Row, int]], step: Step, known: Known
) -> dict[tuple[int, tuple[Any, ...]], tuple[int, tuple[Any, ...]]]:
    """Answers of the closed windows, by (end, keys)."""
    if late == "drop":
        reach = {id(row): before for row, before in taken}
        closed: set[int] = set()
        result = {}
        everything = Table(tuple(row for row, _ in taken), types)
        # Which windows there are is not for HAVING to say: it may fail on a late row that does not count there.
        any_group = replace(case, having=None, limit=None)
        for end in ends_of(any_group, everything, step.after):
            if _of_window(any_group, everything, end, known):
                closed.add(end)
        for end in closed:
            counted = [row for row, _ in taken if reach[id(row)] < end]
            for start, _, items, keys in _of_window(case, everything.only(counted), end, known):
                result[(end, _hashable(keys))] = (start, items)
        return result
    result = {}
    windows: dict[int, list[Row]] = {}
    assert case.range_us is not None
    until = last_end(case, Table(tuple(row for row, _ in taken), types), step.after)
    for row, before in taken:
        for end in window_ends(case, [row.time], until):
            if end <= step.after and end > before - kept:
                windows.setdefault(end, []).append(row)
    for end, rows in windows.items():
        for start, _, items, keys in _of_window(case, Table(tuple(rows), types), end, known):
            result[(end, _hashable(keys))] = (start, items)
    return result


def _hashable(keys: tuple[Any, ...]) -> tuple[Any, ...]:
    # NaN is not equal to itself, but is one group.
    return tuple(
        "NaN" if isinstance(k, float) and k != k else repr(k) if isinstance(k, (list, dict)) else k for k in keys
    )


def latest(log: list[Revision]) -> list[tuple[Any, ...]]:
    """What `SELECT … FROM q` shows: (window_start, window_end, SELECT list) of the last revision of each row."""
    last: dict[tuple[int, tuple[Any, ...]], Revision] = {}
    for entry in log:
        last[(entry.end, _hashable(entry.keys))] = entry
    return [(e.start, e.end, *e.items) for e in last.values() if e.op == "+"]


def final_answers(case: Case, table: Table, until: int | None = None) -> list[tuple[Any, ...]]:
    """The final answers over all rows: what the last revisions of all closed windows must equal under `revise`."""
    return [(start, end, *items) for start, end, items, _ in evaluate(case, table, until)]
