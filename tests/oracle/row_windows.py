"""Windows that end with rows, by definition: number the rows, take the windows, evaluate the SELECT over each.

Written from SEMANTICS and Li 2008, section 5.3 (Eq 5.10-5.18 in the floor form): rows are numbered in total order
(rank) or in order of intake (arrival), per partition; a window ends with every row whose number is a multiple of SLIDE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.case import Case, span
from tests.oracle.compare import rows_equal
from tests.oracle.evaluate import over
from tests.oracle.progress import NEVER, Script, trace
from tests.oracle.rows import ORDER, Row, Table

DAY = 86_400_000_000


@dataclass(frozen=True)
class RowCase:
    """A query over a window that ends with rows.

    case: SELECT list, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT; its window does not count.
    rows, range: the extent, one of them. slide: in rows. partition: names of columns. arrival: numbered by arrival.
    """

    case: Case
    rows: int | None = None
    range: int | None = None
    slide: int = 1
    partition: tuple[str, ...] = ()
    arrival: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """What an answer is grouped by: the partition, then GROUP BY."""
        return (*self.partition, *(k for k in self.case.group_by if k not in self.partition))

    def query(self) -> str:
        """The SELECT as Millpond's text."""
        parts = [f"PARTITION BY {', '.join(self.partition)}"] if self.partition else []
        parts += [f"ROWS {self.rows}" if self.rows else f"RANGE {span(self.range or 0)}"]
        parts += [f"SLIDE {self.slide} ROWS BY {'ARRIVAL' if self.arrival else 'RANK'}"]
        plain = replace(self.case, range_us=None).query()
        return plain.replace(f"FROM {self.case.stream}", f"FROM {self.case.stream} [{' '.join(parts)}]", 1)

    def statement(self, name: str = "q", **options: str) -> str:
        """The CREATE QUERY statement."""
        said = ", ".join(f"{k}='{v}'" for k, v in options.items())
        return f"CREATE QUERY {name}" + (f" WITH ({said})" if said else "") + f" AS {self.query()}"


@dataclass(frozen=True)
class Taken:
    """A row and the progress that it was behind when it came under `late='drop'`, else NEVER."""

    row: Row
    cut: int = NEVER


@dataclass(frozen=True)
class Extent:
    """A window: its first and last instant (inclusive), its number, its rows."""

    start: int
    end: int
    number: int
    rows: tuple[Row, ...]


def extents(case: RowCase, taken: Iterable[Taken]) -> list[Extent]:
    """All windows; a row with a cut has no number and lies only in RANGE windows that end at its cut or later."""
    partitions: dict[Any, list[Taken]] = {}
    for each in taken:
        partitions.setdefault(repr([each.row.values[p] for p in case.partition]), []).append(each)
    found: list[Extent] = []
    for part in partitions.values():
        by_time = sorted(part, key=lambda t: (t.row.time, t.row.intake))
        order = sorted(part, key=lambda t: t.row.intake) if case.arrival else by_time
        numbered = [t for t in order if t.cut == NEVER]
        ends: dict[int, int] = {}
        for number, each in enumerate(numbered, 1):
            if number % case.slide:
                continue
            if case.rows is not None:
                rows = tuple(t.row for t in numbered[max(0, number - case.rows) : number])
                found.append(Extent(rows[0].time, each.row.time, number // case.slide, rows))
            else:
                ends[each.row.time] = max(ends.get(each.row.time, 0), number // case.slide)
        for end, number in ends.items():
            start = end - (case.range or 0)
            rows = tuple(t.row for t in by_time if start < t.row.time <= end and t.cut <= end)
            found.append(Extent(start, end, number, rows))
    return found


class Evaluator:
    """Evaluates windows over one stream; equal windows are evaluated once.

    Arguments:
        table: every row that any window can hold.
    """

    def __init__(self, case: RowCase, table: Table) -> None:
        self.case, self.table = case, table
        self._places = {
            row.intake: place for place, row in enumerate(sorted(table.rows, key=lambda r: (r.time, r.intake)))
        }
        self._seen: set[int] | None = None
        self._known: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], tuple[Any, ...]]]] = {}
        self._plain = replace(case.case, group_by=case.keys, range_us=1)

    def _passing(self, connection: Any) -> set[int]:
        if self._seen is None:
            where = f" WHERE {self.case.case.where}" if self.case.case.where else ""
            found = connection.execute(f"SELECT {ORDER} FROM t AS {self.case.case.stream}{where}").fetchall()
            self._seen = {place for (place,) in found}
        return self._seen

    def answers(self, windows: Iterable[Extent]) -> list[tuple[Extent, tuple[Any, ...], tuple[Any, ...]]]:
        """(window, SELECT list, keys) of every answer; windows none of whose rows pass WHERE have none."""
        connection = self.table.load()
        passing = self._passing(connection)
        found = []
        width = len(self.case.keys)
        for window in windows:
            places = [self._places[row.intake] for row in window.rows]
            if not any(place in passing for place in places):
                continue
            key = (window.start, window.end, *places)
            if key not in self._known:
                listed = ", ".join(map(str, places))
                rows = f"(SELECT * FROM t WHERE {ORDER} IN ({listed}) ORDER BY {ORDER})"
                got = connection.execute(self._plain.extent_sql(window.start, window.end, rows)).fetchall()
                self._known[key] = [(tuple(g[:-width]), tuple(g[-width:])) if width else (tuple(g), ()) for g in got]
            found += [(window, items, keys) for items, keys in self._known[key]]
        return found


def row_answers(case: RowCase, table: Table, until: int | None = None) -> list[tuple[Any, ...]]:
    """Final answers over all rows: (start, end, number, SELECT list); `until`: of windows that end before it."""
    windows = [w for w in extents(case, [Taken(r) for r in table.rows]) if until is None or w.end < until]
    return [(w.start, w.end, w.number, *items) for w, items, _ in Evaluator(case, table).answers(windows)]


@dataclass(frozen=True)
class RowRevision:
    """One entry of the log of a query; `op` is '+' or, for a row that vanished, '-'."""

    epoch: int
    start: int
    end: int
    number: int
    items: tuple[Any, ...]
    keys: tuple[Any, ...]
    revision: int
    op: str = "+"


def taken_by_step(case: RowCase, script: Script, kept: int | None) -> list[list[Taken]]:
    """After each step of a script, the rows that count for windows; see `row_revisions`."""
    kept = kept if kept is not None else max(DAY, 10 * (case.range or 0))
    found: list[list[Taken]] = []
    taken: list[Taken] = []
    high = NEVER
    for step in trace(script):
        for row in step.admitted:
            if script.spec.late == "revise":
                if row.time >= min(step.before, high) - kept:
                    taken.append(Taken(row))
            elif row.time >= step.before:
                taken.append(Taken(row))
            elif case.range is not None:
                taken.append(Taken(row, step.before))
        high = step.high if step.high is not None else NEVER
        found.append(list(taken))
    return found


def row_revisions(case: RowCase, types: dict[str, str], script: Script, kept: int | None = None) -> list[RowRevision]:
    """The whole log of a query that was registered before the first row.

    Under 'revise' a row that lies more than `kept` behind the watermark (or behind the largest event time, if that is
    less) when it comes has no number and is in no window. Under 'drop' this holds for every late row, but that a RANGE
    window that is still open holds it.
    """
    steps = trace(script)
    everything = Table(tuple(row for step in steps for row in step.admitted), types)
    evaluator = Evaluator(case, everything)
    log: list[RowRevision] = []
    shown: dict[Any, RowRevision] = {}
    for number, (step, taken) in enumerate(zip(steps, taken_by_step(case, script, kept), strict=True)):
        current = {}
        for window, items, keys in evaluator.answers(w for w in extents(case, taken) if w.end < step.after):
            current[window.end, window.number, repr(keys)] = RowRevision(
                number, window.start, window.end, window.number, items, keys, 0
            )
        for key, entry in current.items():
            last = shown.get(key)
            same = last is not None and last.start == entry.start and rows_equal(last.items, entry.items)
            if last is not None and last.op == "+" and same:
                continue
            entry = replace(entry, revision=0 if last is None else last.revision + 1)
            shown[key] = entry
            log.append(entry)
        for key, last in list(shown.items()):
            if key not in current and last.op == "+":
                gone = replace(last, epoch=number, revision=last.revision + 1, op="-")
                shown[key] = gone
                log.append(gone)
    return log


def latest_rows(log: Sequence[RowRevision]) -> list[tuple[Any, ...]]:
    """What `SELECT … FROM q` shows: (start, end, number, SELECT list) of the last revision of each row."""
    last = {(e.end, e.number, repr(e.keys)): e for e in log}
    return [(e.start, e.end, e.number, *e.items) for e in last.values() if e.op == "+"]


def row_invocation(case: RowCase, table: Table, now: int, closed: bool = True) -> list[tuple[Any, ...]]:
    """INVOKE: (start, end, SELECT list) of the window of each partition that ends with its last row up to `now`.

    RANGE: the window (now - range, now], whether it holds a row or not.
    """
    rows = [r for r in table.rows if r.time < now or (closed and r.time == now)]
    if case.range is not None:
        inside = [r for r in rows if r.time > now - case.range]
        plain = replace(case.case, group_by=case.keys, range_us=1)
        return [(now - case.range, now, *items) for items, _ in over(plain, table, inside, now - case.range, now)]
    last: dict[Any, Extent] = {}
    for window in extents(replace(case, slide=1), [Taken(r) for r in rows]):
        own = [r for r in rows if all(repr(r.values[p]) == repr(window.rows[-1].values[p]) for p in case.partition)]
        if window.number == len(own):
            last[repr([window.rows[-1].values[p] for p in case.partition])] = window
    windows = list(last.values())
    return [(w.start, w.end, *items) for w, items, _ in Evaluator(case, table).answers(windows)]


__all__ = ["Extent", "RowCase", "RowRevision", "Taken", "extents", "latest_rows", "row_answers",
           "row_invocation", "row_revisions", "taken_by_step"]  # fmt: skip
