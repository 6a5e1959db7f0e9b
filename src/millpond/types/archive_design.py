"""The option `archive` of a stream as a value: how its past lies on disk, and what is kept of it for how long.

archive = 'plain'                               the rows as they came; every scan reads all of them
archive = 'replicate(0.2, 0.4, 0.6, 0.8)'       copies with so many of the rows dropped, written as rows arrive
archive = 'modify'                              a copy per reduction function that scans use, made by copy maintenance
archive = 'randomize(500)'                      files of 500 blocks; a scan of a fraction reads that fraction of blocks
archive = '… + summary(SELECT … GROUP BY …)'    and a summary, kept up as rows arrive; 'lazy summary(…)': by scans
archive = 'replicate(0.9 keep 730d) keep 30d'   how long: rows for 30 days, the copy for two years
archive = 'plain keep 10 GB'                    how much: the oldest files go

The designs are OSCAR's OnWriteReplicate, OnReadModify and RandomizeThenSort, and its windowed aggregation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NoReturn

from millpond.types.columns import DAY, HOUR, MINUTE, SECOND
from millpond.types.durations import parse_duration

#: Decimal places of fractions: 1 - 0.7 is 0.3 here, so that copies, blocks and scans agree on which rows they mean.
PLACES = 12

#: Blocks of a run when 'randomize' does not say it.
DEFAULT_RUN = 64

#: The most blocks that a run can have: a row group costs some hundred bytes of the file's footer.
MOST_BLOCKS = 4096

_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_KEEP = "keep 90d, keep 10 GB, or both with 'and'"
_WORDS = ("plain", "replicate", "modify", "randomize", "summary", "lazy")


@dataclass(frozen=True)
class Keep:
    """How much of a copy stays. time: behind the stream's progress, microseconds; size: bytes; None: no limit."""

    time: int | None = None
    size: int | None = None

    def __str__(self) -> str:
        parts = ([] if self.time is None else [_span(self.time)]) + ([] if self.size is None else [_bytes(self.size)])
        return f" keep {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class Level:
    """A copy that is written as rows arrive. reduction: the fraction of rows that it lacks."""

    reduction: float
    keep: Keep = Keep()

    def __str__(self) -> str:
        return f"{self.reduction!r}{self.keep}"  # all its digits: a design is read again from its text


@dataclass(frozen=True)
class Summary:
    """A summary of the stream: windowed aggregates. query: a SELECT over the stream with a tumbling window.

    lazy: what scans have worked out is kept and put together by copy maintenance, instead of being made as rows arrive.
    """

    query: str
    lazy: bool = False
    keep: Keep = Keep()

    def __str__(self) -> str:
        return f"{'lazy ' if self.lazy else ''}summary({self.query}){self.keep}"


@dataclass(frozen=True)
class Design:
    """How a stream's past is kept.

    kind: how rows lie. levels: of 'replicate'. run: of 'randomize', the blocks of a run, else 0. keep: of the rows
    themselves (beside the stream's option `retention`; whatever is shorter counts).

    >>> str(parse_design("REPLICATE(0.5,0.75 keep 2 years) + summary(SELECT count(*) FROM s [RANGE 1 HOUR TUMBLING])"))
    Traceback (most recent call last):
        ...
    millpond.types.archive_design.DesignFault: years has no fixed length; write it in weeks, days or hours
    >>> design = parse_design("replicate(0.75 keep 730d, 0.5) keep 30d and 10 GB")
    >>> str(design), [level.reduction for level in design.levels]
    ('replicate(0.5, 0.75 keep 730d) keep 30d and 10GB', [0.5, 0.75])
    """

    kind: Literal["plain", "replicate", "modify", "randomize"] = "plain"
    levels: tuple[Level, ...] = ()
    run: int = 0
    keep: Keep = Keep()
    summaries: tuple[Summary, ...] = ()

    def __str__(self) -> str:
        inner = {"replicate": ", ".join(map(str, self.levels)), "randomize": str(self.run)}.get(self.kind)
        rows = self.kind + ("" if inner is None else f"({inner})") + str(self.keep)
        return " + ".join([rows, *map(str, self.summaries)])

    @property
    def lazy(self) -> bool:
        """Whether copies are made as scans ask for them."""
        return self.kind == "modify"

    @property
    def layout(self) -> str:
        """As text, without what is said of rows and levels for how long: that stands beside each of them.

        >>> parse_design("replicate(0.5 keep 9d, 0.9) keep 2d + summary(SELECT 1 FROM s)").layout
        'replicate(0.5, 0.9) + summary(SELECT 1 FROM s)'
        """
        levels = tuple(replace(level, keep=Keep()) for level in self.levels)
        return str(replace(self, levels=levels, keep=Keep()))


class DesignFault(ValueError):
    """What is wrong with the text of a design. start, end: where in the text; expected: what would be right."""

    def __init__(self, message: str, start: int, end: int, expected: str = "") -> None:
        super().__init__(message)
        self.start, self.end, self.expected = start, end, expected


def kept_fraction(reduction: float) -> float:
    """The fraction of rows that a reduction keeps, to `PLACES` places; what drops less than all of them keeps some.

    Arguments:
        reduction: the fraction to drop, 0 <= reduction < 1.
    Raises: ValueError when it is not in that range.

    >>> kept_fraction(0.7), kept_fraction(0)
    (0.3, 1.0)
    """
    if not 0 <= reduction < 1:
        raise ValueError(f"a reduction is the fraction of rows to drop, from 0 to below 1, not {reduction!r}")
    return max(round(1.0 - reduction, PLACES), 10.0**-PLACES)


@lru_cache(maxsize=256)
def parse_design(text: str) -> Design:
    """The design that a text names; see the module for the forms. Case does not matter.

    Raises: DesignFault, a ValueError with the place in the text.

    >>> parse_design("randomize(4)").run, parse_design("Plain").kind, parse_design("modify keep 7d").keep.time // DAY
    (4, 'plain', 7)
    >>> parse_design("replicate(1.5)")
    Traceback (most recent call last):
        ...
    millpond.types.archive_design.DesignFault: a reduction is the fraction of rows to drop, from 0 to below 1, not 1.5
    """
    return _Reader(text).design()


class _Reader:
    """Reads a design from its text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self, message: str, start: int, end: int, expected: str = "") -> NoReturn:
        raise DesignFault(message, start, max(end, start + 1), expected)

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, pattern: str) -> str | None:
        self.skip()
        found = re.compile(pattern, re.IGNORECASE).match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def design(self) -> Design:
        design: Design | None = None
        summaries: list[Summary] = []
        while True:
            self.skip()
            start = self.at
            part = self.part()
            if isinstance(part, Summary):
                summaries.append(part)
            elif design is not None:
                self.fail("rows lie in one way only", start, self.at, "one of plain, replicate, modify, randomize")
            else:
                design = part
            self.skip()
            if self.at == len(self.text):
                break
            if self.take(r"\+") is None:
                rest = self.text[self.at :].split()[0]
                self.fail(f"'{rest}' is not expected here", self.at, self.at + len(rest), "'+', 'keep', or the end")
        return replace(design or Design(), summaries=tuple(summaries))

    def part(self) -> Design | Summary:
        start = self.at
        word = (self.take(r"[a-z_]+") or "").lower()
        if word not in _WORDS:
            found = word or self.text[start : start + 1]
            message = f"there is no archive '{found}'" if found else "the archive's design is missing"
            self.fail(message, start, self.at, "plain, replicate(0.5, …), modify, randomize(64) or summary(SELECT …)")
        if word in ("lazy", "summary"):
            if word == "lazy" and self.take(r"summary\b") is None:
                self.fail("'lazy' is said of a summary", start, self.at, "lazy summary(SELECT …)")
            return Summary(self.query(), word == "lazy", self.keep())
        if word == "replicate":
            return self.replicate()
        run = 0
        if word == "randomize":
            run = self.run() if self.take(r"\(") else DEFAULT_RUN
        return Design(word, run=run, keep=self.keep())  # type: ignore[arg-type]  # one of the kinds

    def replicate(self) -> Design:
        if self.take(r"\(") is None:
            self.fail("replicate needs the reductions of its copies", self.at, self.at, "replicate(0.25, 0.5, 0.75)")
        levels: list[Level] = []
        while True:
            self.skip()
            start = self.at
            number = self.take(r"\d*\.?\d+(e-?\d+)?\b")
            if number is None:
                self.fail("a level is the fraction of rows that a copy lacks", start, start, "a number such as 0.5")
            try:
                kept = kept_fraction(float(number))
            except ValueError as fault:
                self.fail(str(fault), start, self.at, "a number such as 0.5")
            if kept == 1:
                self.fail("a copy that drops nothing is the archive itself", start, self.at, "a number such as 0.5")
            if any(kept_fraction(level.reduction) == kept for level in levels):
                self.fail(f"the level {number} is given twice", start, self.at)
            levels.append(Level(float(number), self.keep()))
            if self.take(r"\)"):
                break
            if self.take(",") is None:
                self.fail("the levels are not closed", self.at, self.at, "',' or ')'")
        return Design("replicate", tuple(sorted(levels, key=lambda one: one.reduction)), keep=self.keep())

    def run(self) -> int:
        self.skip()
        start = self.at
        number = self.take(r"\d+")
        if number is None or not 1 < int(number) <= MOST_BLOCKS:
            self.fail("a run has 2 to 4,096 blocks", start, self.at, "randomize(64)")
        if self.take(r"\)") is None:
            self.fail("the parenthesis is not closed", self.at, self.at, "')'")
        return int(number)

    def query(self) -> str:
        """What stands in balanced parentheses; texts and quoted names in it may hold some of their own."""
        if self.take(r"\(") is None:
            self.fail("a summary needs its query", self.at, self.at, "summary(SELECT …)")
        start, depth = self.at, 1
        for found in re.finditer(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[()]", self.text[start:]):
            depth += {"(": 1, ")": -1}.get(found[0], 0)
            if depth == 0:
                self.at = start + found.end()
                query = self.text[start : start + found.start()].strip()
                if not query:
                    self.fail("a summary needs its query", start, self.at, "summary(SELECT …)")
                return query
        self.fail("the parenthesis is not closed", start - 1, start, "')'")

    def keep(self) -> Keep:
        if self.take(r"keep\b") is None:
            return Keep()
        found = Keep()
        while True:
            self.skip()
            start = self.at
            value = self.take(r"[0-9.]+\s*[a-zµ]+")
            if value is None:
                self.fail("how long or how much is to be kept?", start, start, _KEEP)
            unit = re.sub(r"[0-9.\s]+", "", value)
            try:
                if unit.upper() in _SIZES:
                    found = replace(found, size=_size(value[: -len(unit)].strip(), unit))
                else:
                    found = replace(found, time=parse_duration(value))
            except ValueError as fault:
                self.fail(str(fault), start, self.at, _KEEP)
            if 0 in (found.time, found.size):
                self.fail("what is kept for no time is not kept", start, self.at, "keep 90d")
            if self.take(r"and\b") is None:
                return found


def _size(number: str, unit: str) -> int:
    """A size in bytes. Raises: ValueError when it is no number, or more than any disk has."""
    if not re.fullmatch(r"\d+\.?\d*|\.\d+", number):
        raise ValueError(f"'{number}' is not a number")
    size = round(Fraction(number) * _SIZES[unit.upper()])
    if size >= 1 << 63:
        raise ValueError(f"{number} {unit} is too much")
    return size


def _span(micros: int) -> str:
    for unit, length in (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)):
        if micros % length == 0:
            return f"{micros // length}{unit}"
    return f"{micros}us"


def _bytes(size: int) -> str:
    for unit in ("TB", "GIB", "GB", "MIB", "MB", "KIB", "KB"):
        if size % _SIZES[unit] == 0:
            return f"{size // _SIZES[unit]}{unit}"
    return f"{size}B"
