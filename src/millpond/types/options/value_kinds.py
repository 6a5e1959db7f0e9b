"""Kinds of values of options: each reads what was written or passed, and says what it takes.

Whatever way an option comes in, as SQL, as a Python keyword, in JSON, on the command line, one `read` checks it.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar

from millpond.support.spelling import nearest
from millpond.types.durations import duration, parse_duration, parse_timestamp
from millpond.types.instants import micros_of, moment_of

T_co = TypeVar("T_co", covariant=True)

#: The part of JSON Schema that a kind of values is.
Schema = dict[str, Any]

#: The largest number of microseconds that spans of time and instants have.
_MOST_MICROS = 2**62


class OptionFault(ValueError):
    """A value that an option cannot have, or an option that there is not.

    Arguments:
        message: what is wrong, one sentence. expected: what would be right. nearest: the known word most like it.
        within: start and end of what is wrong in the value's text; None: all of it.

        >>> print(OptionFault("option 'late' cannot be 'dropp'", "'revise' or 'drop'", "drop"))
        option 'late' cannot be 'dropp'; expected 'revise' or 'drop'; did you mean 'drop'?
    """

    def __init__(
        self, message: str, expected: str = "", nearest: str = "", within: tuple[int, int] | None = None
    ) -> None:
        self.message, self.expected, self.nearest, self.within = message, expected, nearest, within
        more = (f"expected {expected}" if expected else "", f"did you mean '{nearest}'?" if nearest else "")
        super().__init__("; ".join(part for part in (message, *more) if part))


@dataclass(frozen=True)
class Kind(ABC, Generic[T_co]):
    """A kind of values. Its fields are the bounds of it."""

    def read(self, given: Any, called: str) -> T_co:
        """The value.

        Arguments:
            given: text, as it is written in SQL; or a value of Python or of JSON: a number, true or false; where the
                kind says so also a datetime, a timedelta, or whole microseconds.
            called: what it is a value of, such as "option 'early'".
        Raises: OptionFault.
        """
        text = text_of(given, called, self.expected)
        try:
            return self.parse(text)
        except ValueError as fault:
            raise OptionFault(f"{called}: {fault}", self.expected) from None

    @abstractmethod
    def parse(self, text: str) -> T_co:
        """The value that a text means. Raises: ValueError, which says what is wrong with it."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What would be right, as errors say it."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What JSON may have, as JSON Schema."""

    @property
    def offered(self) -> tuple[str, ...]:
        """Values that completion offers."""
        return ()

    def shown(self, value: Any) -> str:
        """A value as it is written; `read` makes the value of it again."""
        return text_of(value, "")


def text_of(given: Any, called: str, expected: str = "") -> str:
    """A value of Python or JSON as it would be written.

    >>> text_of(True, "option 'header'"), text_of(0.5, "setting 'target'")
    ('true', '0.5')
    """
    if isinstance(given, str):
        return given
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, numbers.Real | Decimal):
        return str(given)
    raise OptionFault(f"{called} cannot be {_short(given)}", expected)


def _is_whole(given: object) -> bool:
    return not isinstance(given, bool) and isinstance(given, numbers.Integral)


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else text[:57] + "…"


@dataclass(frozen=True)
class Text(Kind[str]):
    """Any text. example: of what is meant by it."""

    example: str = "a text"

    def parse(self, text: str) -> str:
        """The text as it is."""
        return text

    @property
    def expected(self) -> str:
        """What would be right."""
        return self.example

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        return {"type": "string"}


@dataclass(frozen=True)
class Choice(Kind[str]):
    """One of some words, in small letters; case does not matter, nor whether _ or a space is between them."""

    words: tuple[str, ...]

    def read(self, given: Any, called: str) -> str:
        """The word, in small letters; see `Kind.read`."""
        text = text_of(given, called, self.expected)
        try:
            return self.parse(text)
        except ValueError:
            message = f"{called} cannot be '{text}'"
            raise OptionFault(message, self.expected, nearest(text, self.words)) from None

    def parse(self, text: str) -> str:
        """The word."""
        word = text.strip().lower()
        found = next((w for w in self.words if w in (word, word.replace("_", " "))), None)
        if found is None:
            raise ValueError(f"'{text}' is none of {', '.join(self.words)}")
        return found

    @property
    def offered(self) -> tuple[str, ...]:
        """The words as they are written."""
        return tuple(f"'{word}'" for word in self.words)

    @property
    def expected(self) -> str:
        """The words."""
        return " or ".join(f"'{word}'" for word in self.words)

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Boolean(Kind[bool]):
    """True or false."""

    def parse(self, text: str) -> bool:
        """The value."""
        word = text.strip().lower()
        if word not in ("true", "false", "on", "off", "1", "0"):
            raise ValueError(f"'{text}' is neither true nor false")
        return word in ("true", "on", "1")

    @property
    def offered(self) -> tuple[str, ...]:
        """Values that completion offers."""
        return ("true", "false")

    @property
    def expected(self) -> str:
        """What would be right."""
        return "true or false"

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Whole(Kind[int]):
    """A whole number from `least` to `most`. example: of such a value, with what it counts."""

    example: str
    least: int = 1
    most: int = 10**15 - 1

    def parse(self, text: str) -> int:
        """The number; '_' and ',' may stand between digits."""
        plain = text.strip().replace("_", "").replace(",", "")
        if not re.fullmatch(r"\d{1,18}", plain, re.ASCII) or not self.least <= int(plain) <= self.most:
            upper = f"from {self.least:,} on" if self.most == Whole.most else f"from {self.least:,} to {self.most:,}"
            raise ValueError(f"'{text}' is not a whole number {upper}")
        return int(plain)

    @property
    def expected(self) -> str:
        """What would be right."""
        return self.example

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number(Kind[float]):
    """A number from `least` to `most`. above: `least` itself is too little. unbounded: 'inf' is one, too."""

    example: str
    least: float = 0.0
    most: float = 1e9
    above: bool = False
    unbounded: bool = False

    def parse(self, text: str) -> float:
        """The number."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        inside = self.least < value if self.above else self.least <= value
        if not (inside and (value <= self.most or (self.unbounded and value == math.inf))):  # false for NaN, too
            lower = f"more than {self.least:g}" if self.above else f"from {self.least:g} on"
            upper = "" if self.most == Number.most else f" and at most {self.most:g}"
            both = f"from {self.least:g} to {self.most:g}"
            bounds = both if upper and not self.above else lower + upper
            raise ValueError(f"'{text}' is not a number {bounds}" + (", or inf" if self.unbounded else ""))
        return value

    @property
    def expected(self) -> str:
        """What would be right."""
        return self.example

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        bound = "exclusiveMinimum" if self.above else "minimum"
        number = {"type": "number", bound: self.least, "maximum": self.most}
        return {"anyOf": [number, {"enum": ["inf"]}]} if self.unbounded else number


@dataclass(frozen=True)
class Span(Kind[int]):
    """A span of time in microseconds, longer than nothing unless `zero`. From Python and JSON also as these."""

    example: str
    zero: bool = False

    def read(self, given: Any, called: str) -> int:
        """The microseconds; see `Kind.read`."""
        if isinstance(given, dt.timedelta):
            given = given // dt.timedelta(microseconds=1)
        if _is_whole(given):
            return _checked(lambda: self._long_enough(int(given), str(given)), called, self.expected)
        return super().read(given, called)

    def parse(self, text: str) -> int:
        """The microseconds."""
        return self._long_enough(parse_duration(text), text)

    def shown(self, value: Any) -> str:
        """A span as it is written."""
        return duration(value) if isinstance(value, int) else str(value)

    def _long_enough(self, micros: int, text: str) -> int:
        if micros < 0 or (micros == 0 and not self.zero):
            raise ValueError(f"'{text}' is negative" if self.zero else f"'{text}' must be longer than nothing")
        if micros > _MOST_MICROS:
            raise ValueError(f"'{text}' is too long")
        return micros

    @property
    def expected(self) -> str:
        """What would be right."""
        return f"a span of time such as '{self.example}'"

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        whole = {"type": "integer", "minimum": 0 if self.zero else 1, "description": "microseconds"}
        return {"anyOf": [{"type": "string", "description": self.expected}, whole]}


@dataclass(frozen=True)
class Start(Kind[Literal["start"] | int]):
    """'start', or an instant: a timestamp in UTC, in microseconds since 1970. From Python and JSON also as these."""

    def read(self, given: Any, called: str) -> Literal["start"] | int:
        """'start' or the microseconds; see `Kind.read`."""
        if isinstance(given, dt.datetime):
            return micros_of(given)
        if _is_whole(given):
            if abs(int(given)) > _MOST_MICROS:
                raise OptionFault(f"{called}: '{given}' is beyond all instants", self.expected)
            return int(given)
        return super().read(given, called)

    def parse(self, text: str) -> Literal["start"] | int:
        """'start', or the microseconds."""
        return "start" if text.lower() == "start" else parse_timestamp(text)

    def shown(self, value: Any) -> str:
        """'start', or the instant as a timestamp; one beyond those that can be written is the last that can."""
        if isinstance(value, str):
            return value
        least, most = (micros_of(dt.datetime(*day)) for day in ((1, 1, 1), (9999, 12, 31)))
        return str(moment_of(min(most, max(least, value))))

    @property
    def expected(self) -> str:
        """What would be right."""
        return "'start' or a timestamp such as '2024-05-01 12:00:00'"

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        text = {"type": "string", "description": self.expected}
        return {"anyOf": [text, {"type": "integer", "description": "microseconds since 1970"}]}


#: What windows without a row are filled with.
FILLS = ("null", "0", "previous", "linear")
#: Those that fill columns of numbers alone.
NUMBERS_ONLY = ("0", "linear")


def fills_of(text: str) -> dict[str, str]:
    """What fills columns, by their names; by '' those that are not named. Raises: ValueError.

    >>> fills_of("previous, n = 0")
    {'': 'previous', 'n': '0'}
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, word = (each.strip().lower() for each in part.rpartition("="))
        if word not in FILLS:
            raise ValueError(f"'{word}' is none of {', '.join(FILLS)}")
        if name in found:
            raise ValueError(f"it is said twice what fills {name or 'columns that are not named'}")
        found[name] = word
    return found


@dataclass(frozen=True)
class Fills(Kind[str]):
    """What fills columns of windows without a row: a word, and words for columns by name."""

    def parse(self, text: str) -> str:
        """The words as they are written."""
        return ", ".join(f"{name} = {word}" if name else word for name, word in fills_of(text).items())

    @property
    def offered(self) -> tuple[str, ...]:
        """Words for all columns."""
        return tuple(f"'{word}'" for word in FILLS)

    @property
    def expected(self) -> str:
        """What would be right."""
        return "'null', '0', 'previous' or 'linear', and of columns by name: 'previous, n = 0'"

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        return {"anyOf": [{"type": "string", "description": self.expected}, {"type": "integer", "const": 0}]}


@dataclass(frozen=True)
class Modules(Kind[str]):
    """Names of Python modules, separated by commas; from Python and JSON also as a list."""

    def read(self, given: Any, called: str) -> str:
        """The names, with ', ' between them; see `Kind.read`."""
        if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
            given = ", ".join(text_of(name, called, self.expected) for name in given)
        return super().read(given, called)

    def parse(self, text: str) -> str:
        """The names, with ', ' between them."""
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name):
                raise ValueError(f"'{name}' is no name of a module")
        return ", ".join(names)

    @property
    def expected(self) -> str:
        """What would be right."""
        return "names of modules such as 'sqlite3, psycopg'"

    @property
    def schema(self) -> Schema:
        """As JSON Schema."""
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def _checked(read: Callable[[], int], called: str, expected: str) -> int:
    try:
        return read()
    except ValueError as fault:
        raise OptionFault(f"{called}: {fault}", expected) from None
