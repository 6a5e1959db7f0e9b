"""What statements are made of: words, names, columns, options and SELECTs, read from tokens."""

from __future__ import annotations

import builtins
import re
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.inference.column_types import NAMES, TypeRefused, canonical
from millpond.language.syntax.bounds_clause import cut_bounds
from millpond.language.syntax.dialect import MillpondParser, new_parser
from millpond.language.syntax.source_text import nearest
from millpond.language.syntax.written_select import WrittenSelect
from millpond.language.with_options.event_times import Written as WrittenColumn
from millpond.language.with_options.option_reader import OptionReader, Written
from millpond.support.errors import StatementError
from millpond.support.file_names import FILE_ENDINGS, is_file_name
from millpond.types import Column, QueryOptions
from millpond.types.columns import is_own, own_name_refused
from millpond.types.options import (
    Settings,
    Table,
    live,
    options_of,
)

#: Words that a SELECT may begin with.
QUERY_STARTS = ("SELECT", "WITH", "FROM", "(", "VALUES", "PIVOT", "UNPIVOT", "TABLE")
_MAX_NAME = 128


class StatementParts:
    """Reads parts of one statement from its tokens, with sqlglot's parser for types and queries."""

    def __init__(self, script: str, tokens: list[Token]) -> None:
        self.script, self.tokens = script, tokens
        self.start = tokens[0].start
        self.text = script[self.start : tokens[-1].end + 1]
        self.parser = self._load(tokens)
        self.named: tuple[int, int] | None = None
        self.places: dict[str, tuple[int, int]] = {}

    def _load(self, tokens: list[Token]) -> MillpondParser:
        parser = new_parser()
        parser.reset()
        parser.sql = self.script
        parser._chunks = [tokens]
        parser._advance_chunk()
        return parser

    @property
    def token(self) -> Token:
        return self.parser._curr

    @property
    def common(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "offset": self.start,
            "script": self.script,
            "named": self.named,
            "places": self.places,
        }

    @property
    def place(self) -> tuple[int, int]:
        """Where the current token stands; behind the last one there is none."""
        at = self.token or self.tokens[-1]
        return at.start, at.end + 1

    def fail(self, message: str, token: Token | None = None, expected: str = "", like: str = "") -> NoReturn:
        at = token or self.token
        place = (at.start, at.end + 1) if at else (self.tokens[-1].end, self.tokens[-1].end + 1)
        raise StatementError(message, self.script, *place, expected, like)

    def unexpected(self, expected: str, like: str = "", end: str = "the statement breaks off") -> NoReturn:
        self.fail(f"'{self.token.text}' is not expected here" if self.token else end, expected=expected, like=like)

    def word(self) -> str:
        """The current token as an upper-case word, '' for texts and quoted names."""
        token = self.token
        return token.text.upper() if token and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) else ""

    def take(self, *words: str) -> bool:
        """Skip these words if they come next."""
        return bool(self.parser._match_text_seq(*words))

    def expect(self, *words: str, what: str = "") -> str:
        """Skip one of these words, which has to come next."""
        if (word := self.word()) in words:
            self.parser._advance()
            return word
        self.unexpected(what or " or ".join(words), nearest(word, words) if word else "")

    def name(self, what: str) -> str:
        """An identifier."""
        token = self.token
        if not token:
            self.fail("the statement breaks off", expected=f"the name of {what}")
        word = token.token_type != TokenType.STRING and re.fullmatch(r"[^\W\d]\w*", token.text)
        if token.token_type != TokenType.IDENTIFIER and not word:
            self.fail(f"'{token.text}' cannot be the name of {what}", expected="a name")
        if not token.text or len(token.text) > _MAX_NAME or any(ord(c) < 32 for c in token.text):
            self.fail(f"a name has 1 to {_MAX_NAME} printable characters")
        self.named = self.named or (token.start, token.end + 1)  # a statement's own name goes first
        self.parser._advance()
        if self.word() == ".":
            self.fail("names have one part", expected=f"the name of {what}, without a schema")
        return token.text

    def text_value(self, what: str) -> str:
        """A text in single quotes."""
        token = self.token
        if not token or token.token_type != TokenType.STRING:
            self.unexpected(what)
        self.parser._advance()
        return token.text

    def file_name(self) -> str:
        """A text that names files."""
        token = self.token
        name = self.text_value("the name of a file in single quotes")
        if not is_file_name(name):
            self.fail(f"the format of '{name}' cannot be told from its name", token, ", ".join(FILE_ENDINGS))
        return name

    def columns(self) -> tuple[WrittenColumn, ...]:
        if not self.take("("):
            self.unexpected("(column type, …)")
        columns: list[WrittenColumn] = []
        while True:
            at = self.token
            column = self.column()
            if column.name.lower() in {c.column.name.lower() for c in columns}:
                self.fail(f"column '{column.name}' is declared twice", at)
            columns.append(WrittenColumn(column, *self.made()))
            if self.take(")"):
                return tuple(columns)
            if not self.take(","):
                self.unexpected("',' or ')'")

    def column(self) -> Column:
        """A column as it is declared: its name and its type."""
        at = self.token
        name = self.name("a column")
        if is_own(name):
            message, other = own_name_refused(name)
            self.fail(message, at, expected=other)
        return Column(name, self.type())

    def made(self) -> tuple[str, tuple[int, int]]:
        """`[GENERATED ALWAYS] AS (expression)` behind a column's type: the expression and its place; '': none."""
        at = self.token
        if not (self.take("GENERATED", "ALWAYS", "AS") or self.take("AS")):
            return "", (0, 0)
        if not self.take("("):
            self.unexpected("(an expression over other columns)")
        start, depth = self.parser._prev.end + 1, 1
        while self.token and depth:
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self.token.token_type, 0)
            self.parser._advance()
        if depth:
            self.fail("the expression is not closed", at, expected="')'")
        end = self.parser._prev.start
        self.take("STORED")
        return self.script[start:end].strip(), (start, end)

    def type(self) -> str:
        first = self.token
        if not first or first.text in (",", ")"):
            self.fail("the column has no type", expected="a type such as DOUBLE or VARCHAR")
        node = self.parser._parse_types(schema=True)
        if not isinstance(node, exp.DataType):
            self.fail(f"'{first.text}' is not a type", first, like=nearest(first.text, NAMES))
        place = (first.start, self.parser._prev.end + 1)
        try:
            return canonical(node)
        except TypeRefused as refused:
            like = nearest(refused.name, NAMES) if refused.name else ""
            raise StatementError(str(refused), self.script, *place, "a type of DuckDB", like) from None

    def query(self) -> WrittenSelect:
        """A SELECT up to the end of the tokens."""
        index = self.parser._index
        kept, bounds = cut_bounds(self.tokens, index, self.script)
        if bounds:
            self.parser = self._load(kept)
            self.parser._advance(index)
        node = self.parser.parse_query()
        if not isinstance(node, exp.Query):
            self.fail("this is not a query", self.tokens[0], expected="SELECT …")
        return WrittenSelect(node, bounds=bounds, **{name: self.common[name] for name in ("text", "offset", "script")})

    def as_select(self, known: Table, at: Token) -> tuple[WrittenSelect, OptionReader]:
        """`[WITH (options)] AS SELECT … [WITH (options)]`."""
        options = self.with_options(known, at)
        self.expect("AS", what="AS SELECT …")
        trailing = self.trailing_options()
        if trailing is not None:
            if options.options:
                self.fail("options are given twice", self.tokens[trailing])
            rest, self.tokens = self.tokens[trailing:], self.tokens[:trailing]
            index = self.parser._index
            self.parser = self._load(self.tokens)
            self.parser._advance(index)
        if self.word() not in QUERY_STARTS:
            self.unexpected("SELECT …", like=nearest(self.word(), ["SELECT"]))
        select = self.query()
        if trailing is not None:
            if self.token:
                self.fail(f"'{self.token.text}' is not expected here", expected="WITH (…) or the end of the statement")
            self.parser = self._load(rest)
            options = self.with_options(known, at)
        return select, options

    def trailing_options(self) -> int | None:
        """Index of the WITH of `… WITH (options)` at the end of the statement, which belongs to the query."""
        depth = 0
        for index in range(len(self.tokens) - 1, self.parser._index, -1):
            kind = self.tokens[index].token_type
            depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
            if depth <= 0:
                opening = kind == TokenType.L_PAREN and self.tokens[index - 1].token_type == TokenType.WITH
                return index - 1 if opening else None
        return None

    def with_options(self, known: Table, at: Token) -> OptionReader:
        place = (at.start, at.end + 1)
        if not self.take("WITH"):
            return OptionReader([], known, self.script, place)
        if not self.take("("):
            self.fail("WITH is followed by options in parentheses", expected="WITH (name = value, …)")
        return OptionReader(self.listed_options(), known, self.script, place)

    def assignments(self, owner: builtins.type, at: Token) -> OptionReader:
        """`name = value`, or several in parentheses: options of a dataclass that may change."""
        found = self.listed_options() if self.take("(") else [self.option()]
        fixed = options_of(owner).keys() - live(owner).keys()
        return OptionReader(
            found,
            live(owner),
            self.script,
            (at.start, at.end + 1),
            fixed=fixed,
            resets=owner in (QueryOptions, Settings),
        )

    def listed_options(self) -> list[Written]:
        """`name = value, …)`."""
        found: list[Written] = []
        while True:
            found.append(self.option())
            if self.take(")"):
                return found
            if not self.take(","):
                self.unexpected("',' or ')'", end="the options are not closed")

    def option(self) -> Written:
        """`name = value`."""
        token = self.token
        name = self.name("an option")
        if not self.take("="):
            self.fail(f"option '{name}' needs a value", expected=f"{name} = value")
        value, value_place = self.option_value(name)
        self.places[name.lower()] = token.start, token.end + 1
        return Written(name.lower(), value, self.places[name.lower()], value_place)

    def next_is_number(self) -> bool:
        """Whether a number stands behind the token that is looked at."""
        following = self.parser._next
        return bool(following) and following.token_type == TokenType.NUMBER

    def option_value(self, name: str) -> tuple[str, tuple[int, int]]:
        first = self.token
        if self.word() in ("INTERVAL", "TIMESTAMP", "TIMESTAMPTZ"):
            self.parser._advance()
        token = self.token
        if not token or self.word() in (",", ")"):
            self.fail(f"option '{name}' needs a value", expected=f"{name} = value")
        sign = ""
        if self.word() in ("-", "+") and self.next_is_number():
            sign = token.text.removeprefix("+")
            self.parser._advance()
            token = self.token
        value = sign + token.text
        literal = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        if not literal and not re.fullmatch(r"-?\w+(\.\d+)?", value):
            self.fail(f"'{value}' is not a value", expected="a text in single quotes, a number, true or false")
        self.parser._advance()
        unit = self.word()
        if token.token_type == TokenType.NUMBER and unit.isalpha():
            value += " " + unit.lower()
            self.parser._advance()
        return value, (first.start, self.parser._prev.end + 1)
