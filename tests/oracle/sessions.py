"""Sessions by definition: put rows together while no two neighbours are further apart than the gap, then evaluate.

Written from SEMANTICS, "Windows". Per key, a session is a maximal run of rows each of which lies no further behind one
before it than that one's gap; it covers [first row, the furthest that its rows reach). With a maximal length a row that
comes so long after the first one, or later, begins another session; what the first covers ends there, and so does what
its rows reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.case import Case, span
from tests.oracle.compare import rows_equal
from tests.oracle.progress import NEVER, Script, trace
from tests.oracle.row_windows import Evaluator, Extent
from tests.oracle.rows import ORDER, Row, Table

DAY = 86_400_000_000


@dataclass(frozen=True)
class SessionCase:
    """A query over sessions.

    case: SELECT list, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT; its window does not count.
    gap: microseconds; or spans: an expression of the row that is an INTERVAL. longest: microseconds.
    partition: names of columns; empty: the keys of GROUP BY have sessions of their own.
    """

    case: Case
    gap: int = 0
    spans: str = ""
    longest: int | None = None
    partition: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """What an answer is grouped by: the partition, then GROUP BY."""
        return (*self.partition, *(k for k in self.case.group_by if k not in self.partition))

    def query(self) -> str:
        """The SELECT as Millpond's text."""
        parts = [f"PARTITION BY {', '.join(self.partition)}"] if self.partition else []
        parts += [f"SESSION {f'({self.spans})' if self.spans else span(self.gap)}"]
        parts += [f"MAX {span(self.longest)}"] if self.longest is not None else []
        plain = replace(self.case, range_us=None).query()
        return plain.replace(f"FROM {self.case.stream}", f"FROM {self.case.stream} [{' '.join(parts)}]", 1)

    def statement(self, name: str = "q", **options: str) -> str:
        """The CREATE QUERY statement."""
        said = ", ".join(f"{k}='{v}'" for k, v in options.items())
        return f"CREATE QUERY {name}" + (f" WITH ({said})" if said else "") + f" AS {self.query()}"


class Rows:
    """What a query sees of the rows of a stream: which pass WHERE, whose session each is in, and how far it reaches."""

    def __init__(self, case: SessionCase, table: Table) -> None:
        self.case, self.table = case, table
        own = case.partition or case.case.group_by
        keys = "".join(f", ({key})" for key in own)
        reach = f"epoch_us(ts + ({case.spans}))" if case.spans else f"epoch_us(ts) + {case.gap}"
        where = f" WHERE {case.case.where}" if case.case.where else ""
        sql = f"SELECT {ORDER}, {reach}{keys} FROM t AS {case.case.stream}{where}"
        found = table.load().execute(sql).fetchall()
        places = {place: (until, repr(of)) for place, until, *of in found}
        ordered = sorted(table.rows, key=lambda row: (row.time, row.intake))
        self.seen = {row.intake: places[n] for n, row in enumerate(ordered) if n in places}

    def sessions(self, rows: Iterable[Row]) -> list[Extent]:
        """The sessions of some rows, key by key."""
        by_key: dict[str, list[tuple[int, int, Row]]] = {}
        for row in rows:
            if row.intake in self.seen:
                until, key = self.seen[row.intake]
                by_key.setdefault(key, []).append((row.time, until, row))
        return [extent for own in by_key.values() for extent in self._of_key(own)]

    def _of_key(self, rows: list[tuple[int, int, Row]]) -> list[Extent]:
        longest, found = self.case.longest, []
        inside: list[tuple[int, int, Row]] = []
        for each in sorted(rows, key=lambda r: (r[0], r[2].intake)):
            apart = each[0] > max((until for _, until, _ in inside), default=NEVER)
            if inside and (apart or (longest is not None and each[0] >= inside[0][0] + longest)):
                found.append(self._extent(inside))
                inside = []
            inside.append(each)
        return [*found, *([self._extent(inside)] if inside else [])]

    def _extent(self, rows: list[tuple[int, int, Row]]) -> Extent:
        start, end = rows[0][0], max(until for _, until, _ in rows)
        end = end if self.case.longest is None else min(end, start + self.case.longest)
        return Extent(start, end, 0, tuple(row for *_, row in rows))


def _evaluator(case: SessionCase, table: Table) -> Any:
    evaluator: Any = Evaluator
    return evaluator(case, table)


def session_answers(case: SessionCase, table: Table, until: int | None = None) -> list[tuple[Any, ...]]:
    """Final answers over all rows: (start, end, SELECT list); `until`: of sessions that end before it."""
    sessions = [s for s in Rows(case, table).sessions(table.rows) if until is None or s.end < until]
    return [(s.start, s.end, *items) for s, items, _ in _evaluator(case, table).answers(sessions)]


def session_invocation(case: SessionCase, table: Table, now: int, closed: bool = True) -> list[tuple[Any, ...]]:
    """INVOKE: (start, end, SELECT list) of the sessions that a row at `now` would be in."""
    rows = [r for r in table.rows if r.time < now or (closed and r.time == now)]
    sessions = [s for s in Rows(case, table).sessions(rows) if s.end >= now]
    return [(s.start, s.end, *items) for s, items, _ in _evaluator(case, table).answers(sessions)]


@dataclass(frozen=True)
class SessionRevision:
    """One entry of the log of a query; `op` is '+' or, for a session that ceased or lost its answer, '-'."""

    epoch: int
    start: int
    end: int
    items: tuple[Any, ...]
    keys: tuple[Any, ...]
    revision: int
    op: str = "+"


def sessions_by_step(case: SessionCase, rows: Rows, script: Script, kept: int | None) -> list[list[Extent]]:
    """After each step of a script, the sessions that are over.

    Under 'revise' a row that lies more than `kept` behind the watermark (or behind the largest event time, if that is
    less) when it comes does not count. Under 'drop' what is over stays; a late row counts in a session that is not,
    those rows being there that had come by then.
    """
    kept = kept if kept is not None else max(DAY, 10 * (case.longest or case.gap))
    found: list[list[Extent]] = []
    taken: list[Row] = []
    sealed: list[Extent] = []
    high = NEVER
    for step in trace(script):
        if script.spec.late == "revise":
            taken += [row for row in step.admitted if row.time >= min(step.before, high) - kept]
            found.append([s for s in rows.sessions(taken) if s.end < step.after])
        else:
            over = [s for s in rows.sessions(taken) if s.end < step.before]
            sealed += over
            gone = {row.intake for s in over for row in s.rows}
            there = rows.sessions([*(r for r in taken if r.intake not in gone), *step.admitted])
            taken = [row for s in there if s.end >= step.before for row in s.rows]
            found.append([*sealed, *(s for s in rows.sessions(taken) if s.end < step.after)])
        high = step.high if step.high is not None else NEVER
    return found


def session_revisions(
    case: SessionCase, types: dict[str, str], script: Script, kept: int | None = None
) -> list[SessionRevision]:
    """The whole log of a query that was registered before the first row."""
    steps = trace(script)
    everything = Table(tuple(row for step in steps for row in step.admitted), types)
    evaluator, rows = _evaluator(case, everything), Rows(case, everything)
    log: list[SessionRevision] = []
    shown: dict[Any, SessionRevision] = {}
    for number, over in enumerate(sessions_by_step(case, rows, script, kept)):
        current = {
            (s.start, s.end, repr(keys)): SessionRevision(number, s.start, s.end, items, keys, 0)
            for s, items, keys in evaluator.answers(over)
        }
        for key, entry in current.items():
            last = shown.get(key)
            if last is not None and last.op == "+" and rows_equal(last.items, entry.items):
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


def latest_sessions(log: Sequence[SessionRevision]) -> list[tuple[Any, ...]]:
    """What `SELECT … FROM q` shows: (start, end, SELECT list) of the last revision of each row."""
    last = {(e.start, e.end, repr(e.keys)): e for e in log}
    return [(e.start, e.end, *e.items) for e in last.values() if e.op == "+"]


__all__ = ["Rows", "SessionCase", "SessionRevision", "latest_sessions", "session_answers",
           "session_invocation", "session_revisions", "sessions_by_step"]  # fmt: skip
