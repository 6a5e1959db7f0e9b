"""The log of a query with early answers by definition: what is shown of open windows, and what follows when they close.

Whenever at least `early` of clock time has passed since the last time (and at the first epoch with rows), provided that
rows came since, every window that progress has not passed and that ends no later than the first end behind the largest
event time is evaluated over all rows that came; what differs from what is shown gets the next revision and the status
'early'. When progress passes a window, its rows get the next revision and the status 'closed' even if they are the
same; what was shown and is no answer is taken back as 'early'. Late rows then revise as they always do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.case import Case
from tests.oracle.compare import rows_equal
from tests.oracle.evaluate import evaluate, window_ends
from tests.oracle.progress import FOREVER, Script, trace
from tests.oracle.revisions import DAY, _answers, _hashable
from tests.oracle.rows import Row, Table


@dataclass(frozen=True)
class Shown:
    """An entry of the log."""

    epoch: int
    start: int
    end: int
    items: tuple[Any, ...]
    revision: int
    op: str
    status: str


def early_log(case: Case, types: dict[str, str], script: Script, early: int) -> list[Shown]:
    """The whole log of a query that was registered before the first row, with `early` microseconds of clock time."""
    assert case.range_us is not None
    kept = max(DAY, 10 * case.range_us)
    log: list[Shown] = []
    last: dict[Any, Shown] = {}
    taken: list[tuple[Row, int]] = []
    at: int | None = None
    stirred = False

    def put(key: Any, entry: Shown) -> None:
        known = last.get(key)
        last[key] = replace(entry, revision=0 if known is None else known.revision + 1)
        log.append(last[key])

    for number, step in enumerate(trace(script)):
        clock = script.epochs[number].clock
        taken += [(row, step.before) for row in step.admitted]
        stirred = stirred or bool(script.epochs[number].rows)
        current = _answers(case, types, script.spec.late, kept, taken, step)
        for key, (start, items) in current.items():
            known = last.get(key)
            if known and known.status == "closed" and known.op == "+" and rows_equal(known.items, items):
                continue
            put(key, Shown(number, start, key[0], items, 0, "+", "closed"))
        for key, known in list(last.items()):
            if known.op == "+" and key not in current and known.end <= step.after:
                put(key, replace(known, epoch=number, op="-"))
        if stirred and step.after < FOREVER and (at is None or clock - at >= early):
            at, stirred = clock, False
            for key, (start, items) in _open(case, types, [row for row, _ in taken], step.after, step.high).items():
                known = last.get(key)
                if known is None or known.op == "-" or not rows_equal(known.items, items):
                    put(key, Shown(number, start, key[0], items, 0, "+", "early"))
            now = _open(case, types, [row for row, _ in taken], step.after, step.high)
            for key, known in list(last.items()):
                if known.op == "+" and known.end > step.after and key not in now:
                    put(key, replace(known, epoch=number, op="-"))
    return log


def _open(case: Case, types: dict[str, str], rows: list[Row], after: int, high: int | None) -> dict[Any, Any]:
    """Answers of the windows with after < end <= the first end behind `high`, by (end, keys)."""
    if high is None or not rows:
        return {}
    most = high - (high - case.effective_origin) % case.slide + case.slide
    ends = [e for e in window_ends(case, [r.time for r in rows]) if after < e <= most]
    found = {}
    for start, end, items, keys in evaluate(case, Table(tuple(rows), types), None, ends) if ends else ():
        found[(end, _hashable(keys))] = (start, items)
    return found
