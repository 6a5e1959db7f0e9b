"""`BEGIN … END …`: the window of a row query, read from tokens before the rest of the SELECT is parsed.

The clause may stand at the end of the SELECT or anywhere after FROM, outside of parentheses; what it says is kept
beside the syntax tree (`written_select.WrittenSelect`), so that sqlglot never sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.syntax.source_text import nearest
from millpond.support.errors import StatementError
from millpond.types import Edge, Span
from millpond.types.durations import UNITS, parse_duration, parse_timestamp, to_microseconds
from millpond.types.selections import NOW, OPEN, ConstantEdge, NowEdge, RowsEdge

WORKS = "BEGIN NOW - INTERVAL '5 minutes' END NOW"
_TYPES = ("TIMESTAMP", "TIMESTAMPTZ", "DATE")
_LITERALS = (TokenType.STRING, TokenType.IDENTIFIER)
_SIGNS = {TokenType.PLUS: 1, TokenType.DASH: -1}
_MOST_ROWS = 2**31 - 1
_LIMIT = 2**62

#: Words before `begin` that make it a name.
_BEFORE_NAME = frozenset({
    "SELECT", "DISTINCT", "WHERE", "AND", "OR", "NOT", "BY", "ON", "HAVING", "AS", "FROM", "JOIN", "IN", "LIKE",
    "BETWEEN", "IS", "CASE", "WHEN", "THEN", "ELSE",
})  # fmt: skip
#: What an edge can start with, also when it is a wrong one.
_EDGE_STARTS = frozenset({"NOW", "INTERVAL", "END", *_TYPES})


@dataclass(frozen=True)
class BoundsClause:
    """One `BEGIN b END e [FOR alias]`. `place` covers it all, `alias_place` the name behind FOR."""

    span: Span
    place: tuple[int, int]
    alias: str | None = None
    alias_place: tuple[int, int] = (0, 0)


def cut_bounds(tokens: Sequence[Token], start: int, script: str) -> tuple[list[Token], tuple[BoundsClause, ...]]:
    """Take the BEGIN … END clauses out of a statement's tokens.

    Arguments:
        tokens: of one statement. start: index of the first token of the SELECT.
        script: what errors show.

    Returns:
        The tokens without the clauses, and the clauses in their order.

    Raises:
        StatementError: a clause that cannot be understood.
    """
    if not any(token.token_type == TokenType.BEGIN for token in tokens[start:]):
        return list(tokens), ()
    kept: list[Token] = list(tokens[:start])
    clauses: list[BoundsClause] = []
    depth, index = 0, start
    while index < len(tokens):
        token = tokens[index]
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and index > start and _starts_clause(tokens, index):
            reader = EdgeReader(tokens, index, script)
            clauses.append(reader.clause())
            index = reader.index
            continue
        kept.append(token)
        index += 1
    return kept, tuple(clauses)


def _starts_clause(tokens: Sequence[Token], index: int) -> bool:
    """Whether the word BEGIN at `index` starts a clause, rather than being a name."""
    if tokens[index].token_type != TokenType.BEGIN:
        return False
    before = tokens[index - 1]
    literal = before.token_type in (*_LITERALS, TokenType.NUMBER, TokenType.VAR, TokenType.R_PAREN)
    name = literal or before.token_type in (TokenType.R_BRACKET, TokenType.STAR) or before.text.isidentifier()
    if not name or (before.token_type not in _LITERALS and before.text.upper() in _BEFORE_NAME):
        return False
    if index + 1 == len(tokens):
        return True
    after = tokens[index + 1]
    if after.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.DASH):
        return True
    return after.token_type != TokenType.IDENTIFIER and (
        after.text.upper() in _EDGE_STARTS or (after.token_type == TokenType.VAR and before.text.upper() != "AS")
    )


class EdgeReader:
    """Reads edges from tokens, starting at `index`; `index` moves behind what was read."""

    def __init__(self, tokens: Sequence[Token], index: int, script: str) -> None:
        self.tokens, self.index, self.script = tokens, index, script

    @property
    def token(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def word(self) -> str:
        token = self.token
        return "" if token is None or token.token_type in _LITERALS else token.text.upper()

    def take(self, word: str) -> bool:
        if self.word() != word:
            return False
        self.index += 1
        return True

    def fail(self, message: str, at: Token | None = None, expected: str = WORKS, like: str = "") -> NoReturn:
        token = at or self.token
        if token is None:
            end = self.tokens[-1].end
            raise StatementError(message, self.script, end, end + 1, expected, like)
        raise StatementError(message, self.script, token.start, token.end + 1, expected, like)

    def clause(self) -> BoundsClause:
        """`BEGIN b [END e] [FOR alias]` at the current token; without END the window ends at NOW."""
        first = self.tokens[self.index]
        begin, end = self.edges()
        stop = self.tokens[self.index - 1]
        alias, alias_place = None, (stop.start, stop.end + 1)
        if self.take("FOR"):
            name = self.token
            if name is None or not (name.token_type == TokenType.IDENTIFIER or self.word().isidentifier()):
                self.fail("FOR names one of the streams", expected="FOR stream, or FOR alias")
            alias, alias_place = name.text, (name.start, name.end + 1)
            self.index += 1
        span = Span(OPEN if begin is None else begin, NOW if end is None else end)
        stop = self.tokens[self.index - 1]
        return BoundsClause(span, (first.start, stop.end + 1), alias, alias_place)

    def edges(self) -> tuple[Edge | None, Edge | None]:
        """`[BEGIN b] [END e]` at the current token."""
        first = self.token
        begin = self.edge("BEGIN") if self.take("BEGIN") else None
        end = self.edge("END") if self.take("END") else None
        if begin is not None and end is not None and begin.follows(end):
            self.fail("the window begins after it ends", first)
        return begin, end

    def edge(self, which: str) -> Edge:
        """What stands behind BEGIN or END."""
        token = self.token
        if token is None:
            self.fail(f"something is missing behind {which}")
        if self.take("NOW"):
            if self.word() == "(" and self.index + 1 < len(self.tokens) and self.tokens[self.index + 1].text == ")":
                self.index += 2
            return self.moving(which, token)
        typed = self.word() in _TYPES
        if typed:
            self.index += 1
        text = self.token
        if text is None or text.token_type != TokenType.STRING:
            expected = f"{which} NOW, {which} NOW - INTERVAL '5 minutes' or {which} TIMESTAMP '2024-05-01 12:00:00'"
            found = f"'{token.text}' is no edge of a window" if not typed else "a timestamp is a text"
            self.fail(found, token, expected, nearest(token.text, ["NOW"]))
        try:
            value = parse_timestamp(text.text)
        except ValueError as fault:
            self.fail(str(fault), text, f"{which} TIMESTAMP '2024-05-01 12:00:00'")
        self.index += 1
        return ConstantEdge(value)

    def moving(self, which: str, first: Token) -> Edge:
        """What may follow NOW."""
        total = 0
        while (token := self.token) is not None and (sign := _SIGNS.get(token.token_type)):
            self.index += 1
            rows = self.rows()
            if rows is not None:
                if sign > 0 or total:
                    self.fail("a number of rows counts back from NOW", first, f"{which} NOW - 1000 ROWS")
                return RowsEdge(rows)
            total += sign * self.time()
        if abs(total) > _LIMIT:
            self.fail("the span of time is too long", first)
        return NowEdge(total)

    def rows(self) -> int | None:
        """`n ROWS`, or None."""
        token = self.token
        if token is None or token.token_type != TokenType.NUMBER or self.index + 1 >= len(self.tokens):
            return None
        if self.tokens[self.index + 1].text.upper() not in ("ROWS", "ROW"):
            return None
        digits = token.text.replace("_", "")
        if not digits.isdigit() or not 0 < int(digits) <= _MOST_ROWS:
            self.fail("a number of rows is a whole number above 0", token, "BEGIN NOW - 1000 ROWS")
        self.index += 2
        return int(digits)

    def time(self) -> int:
        """`INTERVAL '5 minutes'`, `INTERVAL 5 MINUTES`, `INTERVAL '5' MINUTES`, `'5 minutes'`, `1 HOUR 30 MINUTES`."""
        expected = "NOW - INTERVAL '5 minutes' or NOW - 1000 ROWS"
        self.take("INTERVAL")
        token = self.token
        if token is None:
            self.fail("a span of time is missing", expected=expected)
        if token.token_type == TokenType.STRING:
            self.index += 1
            if self.word().lower() in UNITS:
                return self.counted(token.text.strip(), token)
            try:
                return parse_duration(token.text)
            except ValueError as fault:
                self.fail(str(fault), token, expected)
        if token.token_type != TokenType.NUMBER:
            self.fail(f"'{token.text}' is not a span of time", token, expected)
        total = 0
        while (at := self.token) is not None and at.token_type == TokenType.NUMBER:
            self.index += 1
            total += self.counted(at.text, at)
        return total

    def counted(self, amount: str, at: Token) -> int:
        """`amount` of the unit at the current token."""
        unit = self.token
        if unit is None or not self.word().isalpha() or self.word() in ("END", "FOR"):
            self.fail(f"{amount} of what? A unit of time is missing", at, "NOW - 5 MINUTES or NOW - 1000 ROWS")
        self.index += 1
        try:
            return to_microseconds(amount, unit.text)
        except (ValueError, ZeroDivisionError) as fault:
            known = [u for u in UNITS if len(u) > 2]
            self.fail(str(fault), unit, "a unit such as MINUTES", nearest(unit.text, known))
