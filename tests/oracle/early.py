"""The log of a query with early answers by definition: what is shown of open windows, and what follows when they close.

Whenever at least `early` of clock time has passed since the last time (and at the first epoch with rows), provided that
rows came since, every window that progress has not passed and that ends no later than the first end behind the largest
event time is evaluated over all rows that came; what differs from what is shown gets the next revision and the status
'early'. When progress passes a window, its rows get the next revision and the status 'closed' even if they are the
same; what was shown and is no answer is taken back as 'early'. Late rows then revise as they always do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.case import Case
from tests.oracle.compare import rows_equal
from tests.oracle.evaluate import window_ends
from tests.oracle.progress import FOREVER, Script, Step, trace
from tests.oracle.revisions import DAY, Known, _answers, _hashable, _of_window
from tests.oracle.row_windows import Evaluator, RowCase, Taken, extents, taken_by_step
from tests.oracle.rows import Row, Table


@dataclass(frozen=True)
class Shown:
    """An entry of the log. number: of windows that end with rows."""

    epoch: int
    start: int
    end: int
    items: tuple[Any, ...]
    revision: int
    op: str
    status: str
    number: int = 0


#: Answers by what identifies them, whose first part is the window's end: (start, items).
Answers = Mapping[Any, tuple[int, tuple[Any, ...]]]


def early_log(case: Case, types: dict[str, str], script: Script, early: int) -> list[Shown]:
    """The whole log of a query that was registered before the first row, with `early` microseconds of clock time."""
    assert case.range_us is not None
    kept = max(DAY, 10 * case.range_us)
    taken: list[tuple[Row, int]] = []
    seen: Known = {}

    def closed(step: Step) -> Answers:
        taken.extend((row, step.before) for row in step.admitted)
        return _answers(case, types, script.spec.late, kept, taken, step, seen)

    def current(step: Step) -> Answers:
        return _open(case, types, [row for row, _ in taken], step.after, step.high, seen)

    return _log(script, early, closed, current, lambda end, bound: end <= bound)


def early_row_log(case: RowCase, types: dict[str, str], script: Script, early: int) -> list[Shown]:
    """As `early_log`, of a query over windows that end with rows: those whose last row has come are shown early."""
    steps = trace(script)
    everything = Table(tuple(row for step in steps for row in step.admitted), types)
    evaluator = Evaluator(case, everything)
    counted = iter(taken_by_step(case, script, None))
    taken: list[Taken] = []

    def answers(wanted: Callable[[int], bool]) -> Answers:
        windows = [w for w in extents(case, taken) if wanted(w.end)]
        return {(w.end, w.number, _hashable(keys)): (w.start, items) for w, items, keys in evaluator.answers(windows)}

    def closed(step: Step) -> Answers:
        taken[:] = next(counted)
        return answers(lambda end: end < step.after)

    def current(step: Step) -> Answers:
        return answers(lambda end: end >= step.after)

    log = _log(script, early, closed, current, lambda end, bound: end < bound)
    return log


def _log(
    script: Script,
    early: int,
    closed: Callable[[Step], Answers],
    current: Callable[[Step], Answers],
    passed: Callable[[int, int], bool],
) -> list[Shown]:
    """The log from what closed windows answer after a step, and what open ones would.

    passed: whether a window that ends at the first is closed by the bound that is second.
    """
    log: list[Shown] = []
    last: dict[Any, Shown] = {}
    at: int | None = None
    stirred = False

    def put(key: Any, entry: Shown) -> None:
        known = last.get(key)
        last[key] = replace(entry, revision=0 if known is None else known.revision + 1)
        log.append(last[key])

    for number, step in enumerate(trace(script)):
        clock = script.epochs[number].clock
        stirred = stirred or bool(script.epochs[number].rows)
        answered = closed(step)
        for key, (start, items) in answered.items():
            known = last.get(key)
            same = known and known.status == "closed" and known.op == "+" and known.start == start
            if known and same and rows_equal(known.items, items):
                continue
            put(key, Shown(number, start, key[0], items, 0, "+", "closed", key[1] if len(key) > 2 else 0))
        for key, known in list(last.items()):
            if known.op == "+" and key not in answered and passed(known.end, step.after):
                put(key, replace(known, epoch=number, op="-"))
        if stirred and step.after < FOREVER and (at is None or clock - at >= early):
            at, stirred = clock, False
            now = current(step)
            for key, (start, items) in now.items():
                known = last.get(key)
                if known is None or known.op == "-" or known.start != start or not rows_equal(known.items, items):
                    put(key, Shown(number, start, key[0], items, 0, "+", "early", key[1] if len(key) > 2 else 0))
            for key, known in list(last.items()):
                if known.op == "+" and not passed(known.end, step.after) and key not in now:
                    put(key, replace(known, epoch=number, op="-"))
    return log


def _open(case: Case, types: dict[str, str], rows: list[Row], after: int, high: int | None, seen: Known) -> Answers:
    """Answers of the windows with after < end <= the first end behind `high`, by (end, keys)."""
    if high is None or not rows:
        return {}
    most = high - (high - case.effective_origin) % case.slide + case.slide
    ends = [e for e in window_ends(case, [r.time for r in rows]) if after < e <= most]
    table = Table(tuple(rows), types)
    return {
        (end, _hashable(keys)): (start, items)
        for end in ends
        for start, _, items, keys in _of_window(case, table, end, seen)
    }
