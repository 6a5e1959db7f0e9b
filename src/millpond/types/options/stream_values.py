"""Kinds of values that streams and tables alone have: formats, lateness, designs of archives, places, readings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from millpond.support.spelling import nearest
from millpond.types.archive_design import DesignFault, parse_design
from millpond.types.durations import parse_duration
from millpond.types.options.asked_operators import parse_operators
from millpond.types.options.value_kinds import Kind, OptionFault, Schema, Span, text_of

#: Kinds of object stores, as URLs name them; file:// is a folder that is used like one.
STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "file")


@dataclass(frozen=True)
class Lateness:
    """How far a row may lag behind the largest event time: by microseconds, by rows, or by a share of the disorder."""

    time: int | None = None
    rows: int | None = None
    share: float | None = None


@dataclass(frozen=True)
class Written(Kind[Any]):
    """A kind whose schema is a text of a form of its own."""

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        return {"type": "string", "description": self.expected}


@dataclass(frozen=True)
class Told(Written):
    """A kind that says itself what is wrong with a value."""

    def parse(self, text: str) -> Any:
        """The value of a text."""
        return self.read(text, "")


@dataclass(frozen=True)
class Allowance(Written):
    """A `Lateness`.

    >>> Allowance().parse("p99"), Allowance().parse("100 rows").rows
    (Lateness(time=None, rows=None, share=0.99), 100)
    """

    expected = "a span of time such as '5s', a count such as '100 rows', or an estimate: 'auto', 'p99'"

    def parse(self, text: str) -> Lateness:
        """The lateness."""
        if text.strip().lower() == "auto":
            return Lateness(share=1.0)
        if share := re.fullmatch(r"\s*p([0-9]{1,4}(?:\.[0-9]+)?)\s*", text, re.IGNORECASE):
            if not 0 < float(share[1]) < 100:
                raise ValueError(f"'{text}' is no percentile")
            return Lateness(share=float(share[1]) / 100)
        rows = re.fullmatch(r"\s*([0-9_]+)\s*rows?\s*", text, re.IGNORECASE)
        if rows is None and re.search(r"\brows?\b", text, re.IGNORECASE):
            raise ValueError(f"'{text}' is no number of rows")
        if rows:
            count = int(rows[1].replace("_", "") or 0)
            if not 0 <= count < 2**62:
                raise ValueError(f"'{text}' is out of range")
            return Lateness(rows=count)
        value = parse_duration(text)
        if value < 0:
            raise ValueError(f"'{text}' is negative")
        return Lateness(time=value)


#: Numbers since 1970, by their unit.
UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class TimeFormat(Written):
    """How event times are written: a unit of numbers since 1970, 'iso', or a pattern as strptime has it.

    >>> TimeFormat().parse("MS"), TimeFormat().parse("%d.%m.%Y")
    ('ms', '%d.%m.%Y')
    """

    expected = "'s', 'ms', 'us' or 'ns' since 1970, 'iso', or a pattern such as '%d.%m.%Y %H:%M:%S'"

    def parse(self, text: str) -> str:
        """The word in small letters, or the pattern."""
        word = text.strip().lower()
        if word in (*UNITS, "iso"):
            return word
        if "%" not in text:
            raise ValueError(f"'{text}' is neither a unit nor a pattern")
        return text

    @property
    def offered(self) -> tuple[str, ...]:
        """The words as they are written."""
        return tuple(f"'{word}'" for word in (*UNITS, "iso"))


@dataclass(frozen=True)
class Delimiter(Told):
    """The character between the values of a line; '\\t' is a tab."""

    expected = "','"

    def read(self, given: Any, called: str) -> str:
        """The character; see `Kind.read`."""
        text = text_of(given, called, self.expected).replace("\\t", "\t")
        if len(text) != 1 or text in '"\n\r':
            raise OptionFault("a delimiter is one character", self.expected)
        return text


@dataclass(frozen=True)
class Retention(Span):
    """A span of time, or 'forever', which is None."""

    def read(self, given: Any, called: str) -> Any:
        """The microseconds, or None; see `Kind.read`."""
        if isinstance(given, str) and given.strip().lower() == "forever":
            return None
        return super().read(given, called)

    @property
    def expected(self) -> str:
        """What would be right."""
        return f"{super().expected}, or 'forever'"


@dataclass(frozen=True)
class ArchiveDesign(Told):
    """The design of an archive, as text: see `millpond.types.archive_design`."""

    expected = "plain, replicate(0.5, …), modify, randomize(64), with + summary(SELECT …)"

    def read(self, given: Any, called: str) -> str:
        """The text; see `Kind.read`."""
        text = text_of(given, called, self.expected)
        try:
            parse_design(text)
        except DesignFault as fault:
            raise OptionFault(str(fault), fault.expected, within=(fault.start, fault.end)) from None
        return text


@dataclass(frozen=True)
class AskedOperators(Written):
    """Operators that a stream asks for, as text: see `millpond.types.options.asked_operators`.

    >>> AskedOperators().parse("last_row(sensor,2 hours)")
    'last_row(sensor, 2 hours)'
    """

    expected = "operators with their arguments, such as 'last_row(sensor, 2 hours)', with + between them"

    def parse(self, text: str) -> str:
        """The text, as it is always written."""
        return " + ".join(map(str, parse_operators(text)))


@dataclass(frozen=True)
class StorePlace(Written):
    """A place in an object store that deltalake knows.

    >>> StorePlace().parse("s3://bucket/ponds/")
    's3://bucket/ponds'
    """

    expected = "a URL such as 's3://bucket/folder'"

    def parse(self, text: str) -> str:
        """The place, without a slash at its end."""
        scheme, found, rest = text.partition("://")
        if not found or scheme not in STORES or not rest.strip("/"):
            raise ValueError(f"'{text}' is no place in an object store ({', '.join(f'{s}://' for s in STORES)})")
        return text.rstrip("/")


@dataclass(frozen=True)
class Mark:
    """Where a source's own bounds stand: in a column, or in rows for which a condition holds."""

    kind: Literal["column", "record"]
    what: str


@dataclass(frozen=True)
class Marks(Told):
    """A `Mark`.

    >>> Marks().parse("column: until")
    Mark(kind='column', what='until')
    """

    expected = "'column:<timestamp column>' or 'record:<condition>'"

    def read(self, given: Any, called: str) -> Mark:
        """The mark; see `Kind.read`."""
        text = text_of(given, called, self.expected)
        kind, _, what = text.partition(":")
        word, what = kind.strip().lower(), what.strip()
        if word not in ("column", "record") or not what:
            message = f"{called} cannot be '{text}'"
            raise OptionFault(message, self.expected, nearest(word, ("column", "record")))
        return Mark(word, what)  # type: ignore[arg-type]  # one of the words


@dataclass(frozen=True)
class Reload(Span):
    """'on change', 'never', or a span of time in microseconds."""

    example: str = "10 minutes"

    def read(self, given: Any, called: str) -> Any:
        """The word or the microseconds; see `Kind.read`."""
        word = given.strip().lower().replace("_", " ") if isinstance(given, str) else ""
        return word if word in ("on change", "never") else super().read(given, called)

    @property
    def expected(self) -> str:
        """What would be right."""
        return f"'on change' (files), 'never', or {super().expected}"


@dataclass(frozen=True)
class Module(Told):
    """The name of a Python module."""

    expected = "driver='sqlite3'"

    def read(self, given: Any, called: str) -> str:
        """The name; see `Kind.read`."""
        text = text_of(given, called, self.expected)
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", text):
            raise OptionFault(f"'{text}' is no name of a module", self.expected)
        return text
