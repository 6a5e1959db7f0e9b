"""What a drain tells: what was taken in, what was not and why, and what answers wait for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from millpond.types.json_records import to_json

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
    after they were taken. nothing_at: the path of a stream that has never found a file.
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
            yield f"{self.query}: {_count(self.too_late, 'row')} too late for any of its answers"


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


__all__ = ["DeadCause", "DrainReport", "QueryReport", "StreamReport"]
