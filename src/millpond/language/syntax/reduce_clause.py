"""`REDUCE …` behind a FROM item: how much of a stream's past a scan may leave out.

`REDUCE sample(0.4)`, `REDUCE age('7 days', 0.9)`, `REDUCE load()`, `REDUCE error(0.01)`, `REDUCE BY INTERVAL '1 hour'`,
`REDUCE mine(2, 'a')` for a function that was registered. Numbers are fractions to drop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.syntax.source_text import nearest
from millpond.language.syntax.token_stream import TokenStream
from millpond.support.errors import StatementError
from millpond.types import Reduction
from millpond.types.durations import EXPECTED, parse_duration
from millpond.types.reduction_forms import FORMS

WORKS = "REDUCE sample(0.4), age('7 days', 0.9), load(), error(0.01) or BY INTERVAL '1 hour'"

#: The most that load() drops when it is not told.
MOST = 0.99

_Literal = int | float | str


@dataclass(frozen=True)
class ReduceClause:
    """A reduction as written. place: from REDUCE to its end; name_place: the function's name."""

    reduction: Reduction
    place: tuple[int, int]
    name_place: tuple[int, int]


def begins_reduce(word: Token, follows: Token | None, behind: Token | None) -> bool:
    """Whether three tokens begin the clause: REDUCE alone may be an alias."""
    if word.text.upper() != "REDUCE" or word.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or not follows:
        return False
    if follows.text.upper() == "BY" or follows.token_type == TokenType.VAR:
        return True
    return follows.text.isidentifier() and behind is not None and behind.token_type == TokenType.L_PAREN


def parse_reduce(parser: TokenStream) -> ReduceClause:
    """Read the clause at the parser's current token; StatementError when it is none."""
    return _Reader(parser).read()


class _Reader:
    def __init__(self, parser: TokenStream) -> None:
        self.parser = parser
        self.first = parser._curr

    @property
    def token(self) -> Token:
        return self.parser._curr

    def fail(self, message: str, token: Token | None = None, expected: str = WORKS, like: str = "") -> NoReturn:
        at = token or self.token or self.parser._prev
        raise StatementError(message, self.parser.sql, at.start, at.end + 1, expected, like)

    def read(self) -> ReduceClause:
        self.parser._advance()
        name = self.token
        word = name.text.lower()
        self.parser._advance()
        if word == "by":
            reduction = self.interval()
        elif not self.token or self.token.token_type != TokenType.L_PAREN:
            self.fail(f"'{name.text}' is a function: it needs parentheses", name, like=nearest(word, [*FORMS]))
        else:
            reduction = self.call(word, name)
        end = self.parser._prev.end + 1
        return ReduceClause(reduction, (self.first.start, end), (name.start, name.end + 1))

    def interval(self) -> Reduction:
        """`BY INTERVAL '1 hour'`, or `BY INTERVAL 1 HOUR`."""
        if not self.token or self.token.text.upper() != "INTERVAL":
            self.fail("REDUCE BY takes an INTERVAL", expected=FORMS["interval"])
        self.parser._advance()
        first, text = self.token, ""
        while self.token and self.token.token_type in (TokenType.STRING, TokenType.NUMBER):
            text += f" {self.token.text}"
            quoted = self.token.token_type == TokenType.STRING
            self.parser._advance()
            if quoted and any(c.isalpha() for c in text):
                break
            if self.token and self.token.text.isalpha():
                text += f" {self.token.text}"
                self.parser._advance()
        span = self.span(text.strip(), first) if text else self.fail("a span of time is missing", first, EXPECTED)
        return Reduction("interval", spans=(span,))

    def call(self, word: str, name: Token) -> Reduction:
        """A function with constants in parentheses."""
        self.parser._advance()
        given: list[tuple[_Literal, Token]] = []
        while self.token and not self.closes():
            given.append(self.constant())
            if self.token and self.token.token_type == TokenType.COMMA:
                self.parser._advance()
            elif not self.closes():
                self.fail("',' or ')' is missing", expected=FORMS.get(word, "constants, with commas between them"))
        if not self.token:
            self.fail(f"the parenthesis of {word} is not closed", name)
        self.parser._advance()
        if word == "sample":
            return Reduction(word, drops=(self.fraction(given, 0, word, name),))
        if word == "load":
            return Reduction(word, drops=(self.fraction(given, 0, word, name) if given else MOST,))
        if word == "error":
            return Reduction(word, error=self.error(given, name))
        if word == "age":
            return self.age(given, name)
        if word == "interval":
            self.fail("an interval is written without parentheses", name, FORMS["interval"])
        return Reduction(word, arguments=tuple(value for value, _ in given))

    def closes(self) -> bool:
        """Whether the parenthesis is closed here."""
        return bool(self.token) and self.token.token_type == TokenType.R_PAREN

    def constant(self) -> tuple[_Literal, Token]:
        """A number, a text, or INTERVAL and a text."""
        if self.token.text.upper() == "INTERVAL" and self.token.token_type != TokenType.STRING:
            self.parser._advance()
        sign = 1
        if self.token and self.token.token_type == TokenType.DASH:
            sign = -1
            self.parser._advance()
        before = ""
        if self.token and self.token.token_type == TokenType.DOT:  # .4
            before = "0."
            self.parser._advance()
        at = self.token
        if (
            not at
            or at.token_type not in (TokenType.NUMBER, TokenType.STRING)
            or (before and at.token_type != TokenType.NUMBER)
        ):
            self.fail("a constant is missing: a number or a text", at)
        self.parser._advance()
        if at.token_type == TokenType.STRING:
            return at.text, at
        try:
            return sign * int(before + at.text), at
        except ValueError:
            return sign * float(before + at.text), at

    def fraction(self, given: list[tuple[_Literal, Token]], place: int, word: str, name: Token) -> float:
        """One argument that is a fraction to drop."""
        if len(given) != place + 1:
            self.fail(f"{word} takes one fraction to drop", name, FORMS[word])
        return self.drop(*given[place], word)

    def drop(self, value: _Literal, at: Token, word: str) -> float:
        if isinstance(value, str) or not 0 <= value < 1:
            self.fail("a fraction to drop is a number from 0 to below 1", at, FORMS[word])
        return float(value)

    def error(self, given: list[tuple[_Literal, Token]], name: Token) -> float:
        if len(given) != 1:
            self.fail("error takes one number", name, FORMS["error"])
        value, at = given[0]
        if isinstance(value, str) or not 0 < value < 1:
            self.fail("an error is a number above 0 and below 1", at, FORMS["error"])
        return float(value)

    def age(self, given: list[tuple[_Literal, Token]], name: Token) -> Reduction:
        """Pairs of a span of time and a fraction to drop."""
        if not given or len(given) % 2:
            self.fail("age takes pairs: a span of time and the fraction of older rows to drop", name, FORMS["age"])
        spans, drops = [], []
        for (span, at), (drop, drop_at) in zip(given[::2], given[1::2], strict=True):
            if not isinstance(span, str):
                self.fail("an age is a span of time, as a text", at, FORMS["age"])
            spans.append(self.span(span, at, zero=True))
            drops.append(self.drop(drop, drop_at, "age"))
            if len(spans) > 1 and spans[-1] <= spans[-2]:
                self.fail("ages stand in ascending order", at, "age('1 day', 0.5, '7 days', 0.9)")
            if len(drops) > 1 and drops[-1] < drops[-2]:
                self.fail("older rows are not read finer than newer ones", drop_at, "ascending fractions to drop")
        return Reduction("age", tuple(drops), tuple(spans))

    def span(self, text: str, at: Token, zero: bool = False) -> int:
        try:
            value = parse_duration(text)
        except ValueError as fault:
            self.fail(str(fault), at, EXPECTED)
        if value < 0 or (value == 0 and not zero):
            self.fail("the span of time must be longer than nothing", at, EXPECTED)
        return value
