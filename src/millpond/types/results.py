"""What users hold: results of statements, what drains tell, answers of queries, batches of subscriptions, cursors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from millpond.support.errors import QueryError
from millpond.support.texts.python_values import python_values
from millpond.support.texts.text_table import text_table
from millpond.types.json_records import to_json
from millpond.types.plan_nodes import PlanNode, plan_in

#: Which answers a subscription carries: all of them; none of windows that are open; only what can no longer change.
Wanted = Literal["all", "closed", "final"]


#: Names, causes and files that a line shows at most.
_SHOWN = 5


@dataclass(frozen=True)
class DeadCause:
    """Dead letters that have one cause, whatever their values.

    source, position: where the first of them stood; position None: a whole file.
    """

    cause: str
    rows: int
    source: str
    position: int | None = None

    def __str__(self) -> str:
        place = "" if self.position is None else f", record {self.position}"
        return f"{self.cause} ({_count(self.rows, 'time')}; first: {self.source}{place})"


@dataclass(frozen=True)
class StreamReport:
    """What happened to a stream.

    rows, late, dead: since the last report; total_rows: since its creation. causes: of the dead letters, most first.
    files: taken. skipped, changed: files that were not taken, since their names tell no format, or since they changed
    after they were taken. nothing_at: the path of a stream that has never found a file. shut: its source has ended and
    late='drop', so that files that come from now on are left out of all windows.
    """

    stream: str
    rows: int = 0
    total_rows: int = 0
    late: int = 0
    dead: int = 0
    causes: tuple[DeadCause, ...] = ()
    files: int = 0
    skipped: int = 0
    changed: tuple[str, ...] = ()
    nothing_at: str = ""
    shut: bool = False

    def problems(self) -> Iterator[str]:
        """What somebody should look at, line by line."""
        if self.nothing_at:
            yield f"{self.stream}: there is no file at {self.nothing_at} yet"
        if self.dead:
            shown = "; ".join(map(str, self.causes[:_SHOWN])) + _more(len(self.causes))
            yield f"{self.stream}: {_count(self.dead, 'dead letter')}: {shown}; SELECT * FROM dead({self.stream})"
        if self.skipped:
            yield f"{self.stream}: {_count(self.skipped, 'file')} left out: their names tell no format"
        if self.changed:
            shown = ", ".join(self.changed[:_SHOWN]) + _more(len(self.changed))
            yield f"{self.stream}: changed after they were taken, and not taken again: {shown}"
        if self.shut:
            lost = "rows of further files count in no window"
            yield f"{self.stream}: shut for good by DRAIN FINAL, late='drop': {lost}; late({self.stream})"


@dataclass(frozen=True)
class QueryReport:
    """What there is to say of a query.

    too_late: rows that were too late for it, since the last report. quarantined: why, of one that is.
    waits_for: what its next window waits for, in words, while rows stand in windows that are open.
    """

    query: str
    too_late: int = 0
    quarantined: str = ""
    waits_for: str = ""

    def problems(self) -> Iterator[str]:
        """What somebody should look at, line by line."""
        if self.quarantined:
            yield f"{self.query}: quarantined: {self.quarantined}"
        if self.too_late:
            came = _count(self.too_late, "row")
            yield f"{self.query}: {came} too late for any of its answers, which leave them out"


@dataclass(frozen=True)
class DrainReport:
    """What happened since the last report (the first of an open pond: since it was opened). Printed, some lines.

    final: every source has ended, so no window is open.

    >>> print(DrainReport(False, (StreamReport("sale", rows=2, total_rows=2, late=1),),
    ...     (QueryReport("daily", waits_for="sale to reach 2026-03-02 00:00:00"),)))
    drained: 2 rows of sale (1 late)
    windows are open: daily waits for sale to reach 2026-03-02 00:00:00
    DRAIN FINAL closes windows, when nothing more will come
    """

    final: bool
    streams: tuple[StreamReport, ...] = ()
    queries: tuple[QueryReport, ...] = field(default=())

    @property
    def rows(self) -> int:
        """Rows of all streams."""
        return sum(s.rows for s in self.streams)

    @property
    def problems(self) -> list[str]:
        """What somebody should look at: dead letters by cause, files left out, queries in quarantine; a line each."""
        parts: tuple[StreamReport | QueryReport, ...] = (*self.streams, *self.queries)
        return [line for part in parts for line in part.problems()]

    def to_dict(self) -> dict[str, object]:
        """It as JSON has it."""
        found: dict[str, object] = to_json(self)
        return found

    def __str__(self) -> str:
        taken = [_taken(s) for s in self.streams if s.rows]
        first = "drained, all windows closed" if self.final else "drained"
        said = ", ".join(taken[:_SHOWN]) + _more(len(taken)) if taken else "no new rows"
        return "\n".join([f"{first}: {said}", *self.problems, *self._open()])

    def _open(self) -> Iterator[str]:
        """What windows wait for, a line for each thing that is waited for."""
        waiting: dict[str, list[str]] = {}
        for query in self.queries:
            if query.waits_for:
                waiting.setdefault(query.waits_for, []).append(query.query)
        for number, (what, names) in enumerate(waiting.items()):
            if number == _SHOWN:
                yield f"windows are open:{_more(len(waiting))}; SHOW WATERMARKS"
                break
            verb = "waits" if len(names) == 1 else "wait"
            yield f"windows are open: {', '.join(names[:_SHOWN])}{_more(len(names))} {verb} for {what}"
        if waiting:
            yield "DRAIN FINAL closes windows, when nothing more will come"


def _taken(of: StreamReport) -> str:
    notes = [_count(of.files, "file")] if of.files else []
    notes += [f"{of.late:,} late"] if of.late else []
    return f"{_count(of.rows, 'row')} of {of.stream}" + (f" ({', '.join(notes)})" if notes else "")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _more(number: int) -> str:
    return f" and {number - _SHOWN} more" if number > _SHOWN else ""


@dataclass(frozen=True, repr=False)
class StatementResult:
    """What a statement gave: a message, or rows. Printed, it is the message, or a small table of the rows; what SHOW
    gives is printed whole.

    kind: 'message' or 'rows'. table: the rows. statement: its text. report: what DRAIN tells.
    """

    kind: Literal["message", "rows"]
    message: str = ""
    table: pa.Table | None = None
    statement: str = ""
    report: DrainReport | None = None

    def __repr__(self) -> str:
        if self.table is None:
            return self.message
        return text_table(self.table, self.message, whole=self.statement[:5].upper() == "SHOW ")

    @property
    def plan(self) -> PlanNode | None:
        """What EXPLAIN gave, as a tree; None: it is the result of another statement."""
        return None if self.table is None else plan_in(self.table)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as Python tuples; empty for a message.

        Timestamps and dates that Python has not (after the year 9999, before the year 1, infinite) are texts, as JSON
        has them.
        """
        if self.table is None or not self.table.num_columns:
            return []
        return list(zip(*map(python_values, self.table.columns), strict=True))

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; an empty one for a message."""
        return self.table if self.table is not None else pa.table({})


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer of one invocation, and which prefix of the stream it saw.

    table: the SELECT list's columns. epoch: rows of the epochs up to it were seen, and no others. now: NOW in
    microseconds, NEVER while there is no row. watermark: no row below it is announced to come; NEVER: nothing is
    announced. begin, end: the window (of the first stream), closed at both ends, microseconds; None: unbounded.
    final: no row can come into the window any more, unless it is late.
    """

    table: pa.Table
    epoch: int
    now: int
    watermark: int
    begin: int | None
    end: int | None
    final: bool
    exact: bool = True

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts; timestamps and dates that Python has not are texts, as JSON has them."""
        names, columns = self.table.column_names, map(python_values, self.table.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_pylist())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Any Arrow library reads an answer without a copy."""
        return self.table.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, order=True)
class Cursor:
    """A place in a query's published answers: after `ordinal` rows of epoch `epoch`.

    `query` is the query's id: a cursor of a dropped and recreated query is refused. `wanted` says which answers the
    subscription carries; with 'final', whose order is that of windows, `epoch` is the end of a window (microseconds).
    """

    epoch: int = 0
    ordinal: int = 0
    query: int = 0
    wanted: Wanted = "all"

    def __str__(self) -> str:
        return f"{self.query}:{self.epoch}:{self.ordinal}" + ("" if self.wanted == "all" else f":{self.wanted}")

    @staticmethod
    def parse(text: str) -> Cursor:
        """The cursor from its text.

        >>> Cursor.parse("3:7:2")
        Cursor(epoch=7, ordinal=2, query=3, wanted='all')
        """
        first, _, wanted = text.rpartition(":")
        try:
            if wanted not in ("closed", "final"):
                first, wanted = text, "all"
            query, epoch, ordinal = (int(part) for part in first.split(":"))
            if min(query, ordinal) < 0 or (epoch < 0 and wanted != "final"):
                raise ValueError(text)
        except ValueError:
            raise QueryError(f"'{text[:80]}' is not a cursor; pass one that a batch of answers carried") from None
        return Cursor(epoch, ordinal, query, wanted)  # type: ignore[arg-type]  # one of the words


@dataclass(frozen=True)
class AnswerBatch:
    """Rows that one epoch published for a query.

    rows: the query's columns, then `op` ('+' a row, '-' a row that no longer holds). cursor: where to go on after it.
    backfilled: the rows are older windows that a registration or RESUME caught up on.
    replaced: a marker without rows: CREATE OR REPLACE made a new version, whose answers follow.
    """

    rows: pa.Table
    cursor: Cursor
    epoch: int
    backfilled: bool
    replaced: bool = False
