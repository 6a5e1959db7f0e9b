"""The window in brackets behind a FROM item: `[RANGE 5 MINUTES SLIDE 1 MINUTE ON ts ORIGIN TIMESTAMP '…']`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from millpond.errors import StatementError
from millpond.language.durations import EXPECTED, UNITS, parse_duration, parse_timestamp, to_microseconds
from millpond.language.places import nearest

if TYPE_CHECKING:
    from millpond.language.dialect import MillpondParser

#: Keys of a table node's `meta`.
WINDOW = "millpond_window"
REVISIONS = "millpond_revisions"

PARAMETERS = ("RANGE", "TUMBLING", "SLIDE", "ON", "ORIGIN", "ALIGN")
WORKS = "[RANGE 5 MINUTES SLIDE 1 MINUTE] or [RANGE TUMBLING 5 MINUTES]"


@dataclass(frozen=True)
class WindowClause:
    """A window as written; times in microseconds. `place` covers the brackets, `attribute_place` the name after ON."""

    range: int
    slide: int
    origin: int
    align_start: bool
    attribute: str | None
    attribute_place: tuple[int, int]
    place: tuple[int, int]


def parse_window(parser: MillpondParser) -> WindowClause:
    """Read the brackets at the parser's current token; StatementError when they are not a time window."""
    return _WindowReader(parser).read()


class _WindowReader:
    def __init__(self, parser: MillpondParser) -> None:
        self.parser = parser
        self.open = parser._curr
        self.range: int | None = None
        self.slide: int | None = None
        self.origin: int | None = None
        self.align_start = False
        self.tumbling = False
        self.attribute: str | None = None
        self.attribute_place = (self.open.start, self.open.end + 1)
        self.range_token = self.open
        self.seen: set[str] = set()

    @property
    def token(self) -> Token:
        return self.parser._curr

    def word(self) -> str:
        literal = self.token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        return "" if literal or not self.token else self.token.text.upper()

    def fail(self, message: str, token: Token | None = None, expected: str = "", like: str = "") -> NoReturn:
        at = token or self.token or self.parser._prev
        raise StatementError(message, self.parser.sql, at.start, at.end + 1, expected, like)

    def read(self) -> WindowClause:
        self.parser._advance()
        while self.token and self.token.token_type != TokenType.R_BRACKET:
            self.parameter()
            if self.token.token_type == TokenType.COMMA:
                self.parser._advance()
        if not self.token:
            self.fail("the window's bracket is not closed", self.open, expected="']'")
        close = self.token
        self.parser._advance()
        if self.range is None:
            self.fail("a window needs a RANGE", self.open, expected=WORKS)
        if self.slide is None:
            self.fail(
                "RANGE without SLIDE is the sliding relation of CQL, which is not available yet: add SLIDE or TUMBLING",
                self.range_token,
                expected=WORKS,
            )
        return WindowClause(
            self.range,
            self.slide,
            self.origin or 0,
            self.align_start,
            self.attribute,
            self.attribute_place,
            (self.open.start, close.end + 1),
        )

    def parameter(self) -> None:
        token, word = self.token, self.word()
        if word in ("ROWS", "NOW", "PARTITION BY", "UNBOUNDED", "GROUPS", "SINCE"):
            self.not_available(token, word)
        if word not in PARAMETERS:
            what = f"'{token.text}' is not a parameter of a window"
            self.fail(what, expected="RANGE, SLIDE, ON, ORIGIN or ALIGN START", like=nearest(word, PARAMETERS))
        if word in self.seen or (word == "TUMBLING" and "SLIDE" in self.seen) or (word == "SLIDE" and self.tumbling):
            self.fail(f"{word} is given twice (TUMBLING also gives SLIDE)" if word in ("SLIDE", "TUMBLING")
                      else f"{word} is given twice")  # fmt: skip
        self.seen.add(word)
        self.parser._advance()
        getattr(self, f"read_{word.lower()}")(token)

    def read_range(self, token: Token) -> None:
        self.range_token = token
        if self.word() in ("UNBOUNDED", "ALL"):
            self.not_available(self.token, f"RANGE {self.word()}")
        if self.word() == "TUMBLING":
            return  # the next parameter reads the time
        self.range = self.positive("RANGE")

    def read_tumbling(self, token: Token) -> None:
        self.tumbling = True
        if self.range is None:
            self.range = self.positive("RANGE")
        self.slide = self.range

    def read_slide(self, token: Token) -> None:
        self.slide = self.positive("SLIDE")

    def read_on(self, token: Token) -> None:
        if self.token.token_type not in (TokenType.IDENTIFIER, TokenType.VAR) and not self.word().isidentifier():
            self.fail("ON names the column that the window runs over", expected="a column")
        self.attribute = self.token.text
        self.attribute_place = (self.token.start, self.token.end + 1)
        self.parser._advance()

    def read_origin(self, token: Token) -> None:
        if self.word() in ("TIMESTAMP", "TIMESTAMPTZ", "DATE"):
            self.parser._advance()
            if self.token.token_type != TokenType.STRING:
                self.fail("ORIGIN TIMESTAMP takes a text", expected="ORIGIN TIMESTAMP '2024-01-01 00:00:00'")
        elif self.token.token_type != TokenType.STRING or any(c in self.token.text for c in "smhdwSMHDW"):
            self.origin = self.time()
            return
        try:
            self.origin = parse_timestamp(self.token.text)
        except ValueError as fault:
            self.fail(str(fault), expected="ORIGIN TIMESTAMP '2024-01-01 00:00:00' or a span of time since 1970")
        self.parser._advance()

    def read_align(self, token: Token) -> None:
        if self.word() not in ("START", "END"):
            self.fail("ALIGN takes START or END", expected="ALIGN START", like=nearest(self.word(), ["START", "END"]))
        self.align_start = self.word() == "START"
        self.parser._advance()

    def positive(self, name: str) -> int:
        token = self.token
        value = self.time()
        if value <= 0:
            self.fail(f"{name} must be longer than nothing", token, expected=EXPECTED)
        return value

    def time(self) -> int:
        """A span of time: `5 MINUTES`, `1 HOUR 30 MINUTES`, `'90 s'`, `INTERVAL '5' MINUTES`, `INTERVAL 5 MINUTES`."""
        first = self.token
        if self.word() == "INTERVAL":
            self.parser._advance()
        sign = ""
        if self.token.token_type == TokenType.DASH:
            sign = "-"
            self.parser._advance()
        if self.token.token_type == TokenType.STRING and not sign:
            text, at = self.token.text, self.token
            self.parser._advance()
            if self.is_unit():
                return self.counted(text.strip(), at)
            try:
                return parse_duration(text)
            except ValueError as fault:
                self.fail(str(fault), at, expected=EXPECTED)
        total = parts = 0
        while (at := self.token).token_type == TokenType.NUMBER:
            self.parser._advance()
            total += self.counted(sign + at.text, at)
            parts += 1
        if not parts:
            found = f"'{first.text}' is not a span of time" if first else "a span of time is missing"
            self.fail(found, first, expected=EXPECTED)
        return total

    def is_unit(self) -> bool:
        return bool(self.word()) and self.word() not in PARAMETERS and self.word().isalpha()

    def counted(self, amount: str, at: Token) -> int:
        """`amount` of the unit at the current token."""
        if not self.is_unit():
            self.fail(f"{amount} of what? A unit of time is missing", at, expected=EXPECTED)
        unit = self.token
        if unit.text.lower() == "rows":
            self.not_available(unit, "ROWS")
        self.parser._advance()
        try:
            return to_microseconds(amount, unit.text)
        except (ValueError, ZeroDivisionError) as fault:
            self.fail(str(fault), unit, expected=EXPECTED, like=nearest(unit.text, [u for u in UNITS if len(u) > 2]))

    def not_available(self, token: Token, kind: str) -> NoReturn:
        self.fail(f"{kind} windows are not available yet", token, expected=f"a time window: {WORKS}")
