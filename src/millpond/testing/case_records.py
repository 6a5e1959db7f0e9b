"""Text in sqllogictest format into records.

A case is a list of records, separated by blank lines; `#` starts a comment line:

    statement ok                     a statement that must succeed
    statement error REGEX            … that must fail with a message in which REGEX is found; lines behind an optional
                                     `----` are text that the message must contain as well
    query TYPES [nosort|rowsort]     a SELECT or INVOKE, then `----`, then its expected rows
    ingest STREAM [partition=P]      CSV lines, header first, up to a blank line: one intake item
                                     (`error=REGEX`: that must be refused with such a message)
    file FOLDER NAME [raw]           content up to a blank line: a file in `{dir}/FOLDER` (see `streams`)
    epoch                            one epoch over everything taken in so far
    drain [final]                    epochs until nothing is left
    restart                          close the pond, open it again
    tick DURATION                    move the virtual clock, then one epoch
    ways WAY…                        the ways that this case may be run (default: all that apply)
    shuffle DURATION                 rows may be permuted by so much event time (allows the way `shuffled`)
    settings KEY=VALUE…              settings of the pond
    skipif WAY / onlyif WAY          about the next record only
    parameters JSON                  values of `$name`, or of `?` and `$1`, in the next statement or query

TYPES has a letter per column: I integer, R real, T text (timestamps as `1970-01-01 00:01:00`), S timestamps as
seconds since 1970. A row is a line; its values stand between tabs or two spaces, or, if there is neither, single
spaces. NULL is `NULL`, an empty text `(empty)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from millpond.testing.clock import duration


class CaseSyntaxError(ValueError):
    """A case that cannot be read; the text says where and what would work."""


@dataclass(frozen=True)
class Record:
    """What one paragraph of a case says; `line` is where it starts, from 1; `skip` and `only` name ways.

    parameters: an object or an array of JSON; '': none.
    """

    line: int
    skip: tuple[str, ...] = field(default=(), kw_only=True)
    only: tuple[str, ...] = field(default=(), kw_only=True)
    parameters: str = field(default="", kw_only=True)

    def runs(self, way: str) -> bool:
        """Whether the record belongs to the way."""
        return way not in self.skip and (not self.only or way in self.only)


@dataclass(frozen=True)
class Statement(Record):
    """A statement that must succeed (`error` None) or fail with a message that matches `error`."""

    sql: str
    error: str | None = None
    expected: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query(Record):
    """A statement that gives rows. `span`: the lines of its expected rows, from 0, end exclusive."""

    sql: str
    types: str
    sort: str
    rows: tuple[str, ...]
    span: tuple[int, int]


@dataclass(frozen=True)
class Ingest(Record):
    """One intake item: CSV text by line; `error`: it must be refused with a message that matches."""

    stream: str
    header: str
    rows: tuple[str, ...]
    partition: str = ""
    error: str | None = None


@dataclass(frozen=True)
class File(Record):
    """A file for a stream's folder."""

    folder: str
    name: str
    content: tuple[str, ...]
    raw: bool = False


@dataclass(frozen=True)
class Epoch(Record):
    """One epoch."""


@dataclass(frozen=True)
class Drain(Record):
    """Epochs until nothing is left; `final` also ends bounded sources."""

    final: bool = False


@dataclass(frozen=True)
class Restart(Record):
    """Close and open again."""


@dataclass(frozen=True)
class Tick(Record):
    """Move the clock, then one epoch."""

    microseconds: int


@dataclass(frozen=True)
class SltCase:
    """A case: its records and what its directives say."""

    path: str
    records: tuple[Record, ...]
    ways: tuple[str, ...] | None = None
    shuffle: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    lines: tuple[str, ...] = ()


def parse_case(text: str, path: str = "<text>") -> SltCase:
    """Read a case.

    Raises CaseSyntaxError naming the file and line.

        >>> case = parse_case("query I\\nSELECT 1\\n----\\n1\\n")
        >>> case.records[0].sql, case.records[0].rows
        ('SELECT 1', ('1',))
    """
    lines = text.split("\n")
    records: list[Record] = []
    ways: tuple[str, ...] | None = None
    shuffle: int | None = None
    settings: list[tuple[str, str]] = []
    skip: list[str] = []
    only: list[str] = []
    parameters = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.lstrip().startswith("#"):
            at += 1
            continue
        words = line.split()
        head, rest = words[0].lower(), words[1:]
        if head == "ways":
            ways, at = tuple(rest), at + 1
        elif head == "shuffle":
            shuffle, at = _duration(path, at, line), at + 1
        elif head == "settings":
            settings += [(k, v) for k, _, v in (w.partition("=") for w in rest)]
            at += 1
        elif head == "parameters":
            parameters, at = line.split(None, 1)[1], at + 1
        elif head in ("skipif", "onlyif"):
            (skip if head == "skipif" else only).extend(rest)
            at += 1
        else:
            read = _READERS.get(head)
            if read is None:
                raise CaseSyntaxError(f"{path}:{at + 1}: unknown record '{head}'; known: {', '.join(_KNOWN)}")
            end = at + 1
            while end < len(lines) and lines[end].strip():
                end += 1
            record = read(path, at, line, lines[at + 1 : end], tuple(skip), tuple(only))
            records.append(replace(record, parameters=parameters))
            skip, only, parameters, at = [], [], "", end
    return SltCase(path, tuple(records), ways, shuffle, tuple(settings), tuple(lines))


_Reader = Callable[[str, int, str, list[str], tuple[str, ...], tuple[str, ...]], Record]


def _duration(path: str, at: int, line: str) -> int:
    try:
        return duration(line.split(None, 1)[1] if len(line.split(None, 1)) > 1 else "")
    except ValueError as error:
        raise CaseSyntaxError(f"{path}:{at + 1}: {error}") from None


def _split(body: list[str]) -> tuple[list[str], list[str], bool]:
    """The lines before and behind `----`, and whether it is there."""
    if "----" in (b.strip() for b in body):
        i = next(i for i, b in enumerate(body) if b.strip() == "----")
        return body[:i], body[i + 1 :], True
    return body, [], False


def _statement(path: str, at: int, line: str, body: list[str], skip: tuple[str, ...], only: tuple[str, ...]) -> Record:
    sql, expected, _ = _split(body)
    words = line.split(None, 2)
    if not sql:
        raise CaseSyntaxError(f"{path}:{at + 1}: no statement on the lines below '{line.strip()}'")
    if len(words) < 2 or words[1] not in ("ok", "error"):
        raise CaseSyntaxError(f"{path}:{at + 1}: write 'statement ok' or 'statement error REGEX'")
    error = None if words[1] == "ok" else (words[2] if len(words) > 2 else "")
    if error is not None:
        try:
            re.compile(error)
        except re.error as problem:
            raise CaseSyntaxError(f"{path}:{at + 1}: not a regular expression: {problem}") from None
    return Statement(at + 1, "\n".join(sql), error, tuple(expected), skip=skip, only=only)


def _query(path: str, at: int, line: str, body: list[str], skip: tuple[str, ...], only: tuple[str, ...]) -> Record:
    words = line.split()
    types = words[1].upper() if len(words) > 1 else ""
    sort = words[2] if len(words) > 2 else "nosort"
    if not types or set(types) - set("IRTS") or sort not in ("nosort", "rowsort"):
        raise CaseSyntaxError(
            f"{path}:{at + 1}: write 'query TYPES [nosort|rowsort]' with a letter of I, R, T, S for each column"
        )
    sql, rows, there = _split(body)
    if not there:
        raise CaseSyntaxError(f"{path}:{at + 1}: no '----' between the query and its expected rows")
    start = at + 1 + len(sql) + 1
    return Query(at + 1, "\n".join(sql), types, sort, tuple(rows), (start, start + len(rows)), skip=skip, only=only)


def _ingest(path: str, at: int, line: str, body: list[str], skip: tuple[str, ...], only: tuple[str, ...]) -> Record:
    words = line.split()
    if len(words) < 2 or not body:
        raise CaseSyntaxError(f"{path}:{at + 1}: write 'ingest STREAM [partition=P]', then a CSV header and rows")
    said = dict(w.split("=", 1) for w in words[2:] if "=" in w)
    return Ingest(
        at + 1, words[1], body[0], tuple(body[1:]), said.get("partition", ""), said.get("error"), skip=skip, only=only
    )


def _file(path: str, at: int, line: str, body: list[str], skip: tuple[str, ...], only: tuple[str, ...]) -> Record:
    words = line.split()
    if len(words) < 3:
        raise CaseSyntaxError(f"{path}:{at + 1}: write 'file FOLDER NAME [raw]', then its content")
    return File(at + 1, words[1], words[2], tuple(body), "raw" in words[3:], skip=skip, only=only)


def _bare(path: str, at: int, line: str, body: list[str], skip: tuple[str, ...], only: tuple[str, ...]) -> Record:
    words = line.split()
    if body:
        raise CaseSyntaxError(f"{path}:{at + 2}: nothing may stand below '{words[0]}'; leave a blank line")
    if words[0] == "epoch":
        return Epoch(at + 1, skip=skip, only=only)
    if words[0] == "restart":
        return Restart(at + 1, skip=skip, only=only)
    if words[0] == "tick":
        return Tick(at + 1, _duration(path, at, line), skip=skip, only=only)
    return Drain(at + 1, "final" in words[1:], skip=skip, only=only)


_READERS: dict[str, _Reader] = {
    "statement": _statement,
    "query": _query,
    "ingest": _ingest,
    "file": _file,
    "epoch": _bare,
    "drain": _bare,
    "restart": _bare,
    "tick": _bare,
}
_KNOWN = (*_READERS, "ways", "shuffle", "settings", "skipif", "onlyif", "parameters")
