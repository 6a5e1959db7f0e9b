"""Runs cases against a pond and says precisely what differed."""

from __future__ import annotations

import difflib
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millpond.support.errors import MillpondError
from millpond.testing.case_records import (
    Drain,
    Epoch,
    File,
    Ingest,
    Query,
    Record,
    Restart,
    SltCase,
    Statement,
    Tick,
    parse_case,
)
from millpond.testing.clock import VirtualClock
from millpond.testing.golden import updating
from millpond.testing.streams import columns_of, rows_table, write_file
from millpond.testing.values import rows_equal, sort_key, split_row, table_rows
from millpond.testing.ways import WAYS, Settle, applies, plan

_CREATE = re.compile(r"\bcreate\s+(?:or\s+replace\s+)?(?:stream|table)\s+(?:if\s+not\s+exists\s+)?\"?(\w+)\"?", re.I)

#: Opens a pond: its folder, the clock, the settings of the case.
Opener = Callable[[Path, VirtualClock, dict[str, Any]], Any]


class CaseFailure(AssertionError):
    """A record of a case did not do what it says; the text names file, line and way, and shows the difference."""


class NotApplicable(Exception):
    """The case may not be run that way."""


def applicable_ways(path: str | os.PathLike[str]) -> list[str]:
    """The ways in which the case at `path` may be run."""
    case = parse_case(Path(path).read_text(encoding="utf-8"), str(path))
    return [way for way in WAYS if applies(case, way)]


def run_file(
    path: str | os.PathLike[str],
    way: str = "straight",
    executor: str = "inline",
    opener: Opener | None = None,
    folder: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> int:
    """Run the case in a `.slt` file.

    Arguments:
        path: the file.
        way: one of `millpond.testing.WAYS`.
        executor: 'inline' (no JVM) or 'spark'.
        opener: opens a pond instead of `millpond.open`, given folder, clock and settings.
        folder: where pond and files are put; a temporary folder by default.
        settings: passed to `millpond.open`.
    Returns: how many records were run.
    Raises: CaseFailure, CaseSyntaxError, NotApplicable.

        run_file("tests/cases/windows/tumbling.slt", way="row-per-epoch")
    """
    case = parse_case(Path(path).read_text(encoding="utf-8"), str(path))
    return run_case(case, way, executor, opener, folder, **settings)


def run_case(
    case: SltCase,
    way: str = "straight",
    executor: str = "inline",
    opener: Opener | None = None,
    folder: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> int:
    """Run a parsed case; arguments and exceptions as for `run_file`."""
    if not applies(case, way):
        raise NotApplicable(f"{case.path} may not be run the way '{way}'")
    records = plan(case, way)
    with tempfile.TemporaryDirectory(prefix="millpond-case-", ignore_cleanup_errors=True) as temporary:
        at = Path(folder or temporary)
        session = _Session(case, way, at, opener or _opener(executor), dict(settings), executor == "inline")
        try:
            for record in records:
                session.run(record)
        finally:
            session.close()
            session.rewrite()
    return len(records)


def _opener(executor: str) -> Opener:
    def opened(path: Path, clock: VirtualClock, settings: dict[str, Any]) -> Any:
        import millpond

        return millpond.open(str(path), executor=executor, clock=clock, **settings)

    return opened


def _setting(text: str) -> bool | int | float | str:
    """The value of a setting as `millpond.open` wants it."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class _Session:
    """One run of one case: the pond, the clock, and what the case's statements declared."""

    def __init__(
        self, case: SltCase, way: str, folder: Path, opener: Opener, settings: dict[str, Any], steps: bool = True
    ) -> None:
        self.case, self.way, self.folder, self.opener, self.steps = case, way, folder, opener, steps
        self.settings = {**settings, **{name: _setting(value) for name, value in case.settings}}
        self.clock = VirtualClock()
        self.types: dict[str, dict[str, str]] = {}
        self.files = 0
        self.changes: list[tuple[tuple[int, int], list[str]]] = []
        self.pond: Any = None
        self.open()

    def open(self) -> None:
        self.pond = self.opener(self.folder / "pond", self.clock, self.settings)

    def close(self) -> None:
        if self.pond is not None:
            self.pond.close()
            self.pond = None

    def run(self, record: Record) -> None:
        """Do what the record says; CaseFailure if it goes otherwise."""
        if isinstance(record, Statement):
            self.statement(record)
            return
        if isinstance(record, Query):
            self.query(record)
            return
        try:
            self.act(record)
        except MillpondError as error:
            raise self.failure(record, f"{type(record).__name__.lower()} failed: {error}") from error

    def act(self, record: Record) -> None:
        if isinstance(record, Ingest) and record.error is not None:
            self.refused_ingest(record)
        elif isinstance(record, Ingest):
            rows = rows_table(record.header, record.rows, self.types.get(record.stream.lower(), {}))
            self.pond.ingest(record.stream, rows, partition=record.partition)
        elif isinstance(record, File):
            self.files += 1
            moment = 1_704_000_000 + self.files
            write_file(self.folder / record.folder, record.name, record.content, record.raw, moment)
        elif isinstance(record, Epoch):
            self.epoch()
        elif isinstance(record, Settle):
            while self.epoch():
                pass
        elif isinstance(record, Drain):
            self.pond.drain(final=record.final)
        elif isinstance(record, Restart):
            self.close()
            self.open()
        elif isinstance(record, Tick):
            self.clock.advance(record.microseconds)
            self.epoch()

    def epoch(self) -> bool:
        """One epoch; where epochs run by themselves, as many as it takes until nothing waits."""
        if self.steps:
            return bool(self.pond.step())
        self.pond.drain()
        return False

    def refused_ingest(self, record: Ingest) -> None:
        rows = rows_table(record.header, record.rows, self.types.get(record.stream.lower(), {}))
        try:
            self.pond.ingest(record.stream, rows, partition=record.partition)
        except MillpondError as error:
            if not re.search(record.error or "", str(error), re.I | re.S):
                message = f"expected an error that matches '{record.error}', got:\n{error}"
                raise self.failure(record, message) from error
            return
        raise self.failure(record, f"expected an error that matches '{record.error}', but the rows were taken")

    def sql(self, record: Statement | Query) -> Any:
        text = record.sql.replace("{dir}", str(self.folder))
        given = (json.loads(record.parameters),) if record.parameters else ()
        result = self.pond.sql(text, *given)
        for match in _CREATE.finditer(text):
            self.types[match.group(1).lower()] = columns_of(text[match.end() :])
        return result

    def statement(self, record: Statement) -> None:
        if record.sql.strip().split("(")[0].lower().startswith("create"):
            # Folders that sources name may be filled later, but have to be there.
            for name in re.findall(r"\{dir\}/([\w-]+)/", record.sql):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        try:
            self.sql(record)
        except MillpondError as error:
            self.refused(record, error)
            return
        if record.error is not None:
            raise self.failure(record, f"expected an error that matches '{record.error}', but the statement succeeded")

    def refused(self, record: Statement, error: MillpondError) -> None:
        text = str(error)
        if record.error is None:
            raise self.failure(record, f"the statement failed:\n{text}") from error
        if record.error and not re.search(record.error, text, re.I | re.S):
            raise self.failure(record, f"expected an error that matches '{record.error}', got:\n{text}") from error
        missing = [line for line in record.expected if line.strip() and line.strip() not in text]
        if missing:
            raise self.failure(record, f"the error does not say {missing}:\n{text}") from error

    def query(self, record: Query) -> None:
        try:
            table = self.sql(record).table
            if table is None:
                raise self.failure(record, "the statement gave a message, not rows")
            got = table_rows(table, record.types)
        except MillpondError as error:
            raise self.failure(record, f"the query failed:\n{error}") from error
        except ValueError as error:
            raise self.failure(record, str(error)) from error
        expected = [split_row(line, len(record.types)) for line in record.rows]
        if record.sort == "rowsort":
            got = sorted(got, key=lambda row: sort_key(row, record.types))
            expected = sorted(expected, key=lambda row: sort_key(row, record.types))
        same = len(got) == len(expected) and all(
            rows_equal(e, g, record.types) for e, g in zip(expected, got, strict=True)
        )
        if same:
            return
        if updating() and self.way == "straight":
            self.changes.append((record.span, ["\t".join(row) for row in got]))
            return
        lines = difflib.unified_diff(
            ["  ".join(r) for r in expected], ["  ".join(r) for r in got], "expected", "got", lineterm="", n=50
        )
        raise self.failure(record, "rows differ:\n" + "\n".join(lines))

    def failure(self, record: Record, what: str) -> CaseFailure:
        sql = getattr(record, "sql", "")
        return CaseFailure(f"{self.case.path}:{record.line} (way: {self.way}): {what}" + (f"\n{sql}" if sql else ""))

    def rewrite(self) -> None:
        """With MILLPOND_UPDATE=1: put what was got where the case says what is expected."""
        if not self.changes:
            return
        lines = list(self.case.lines)
        for (start, end), rows in sorted(self.changes, reverse=True):
            lines[start:end] = rows
        Path(self.case.path).write_text("\n".join(lines), encoding="utf-8")
