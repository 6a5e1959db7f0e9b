"""Scripts into statements."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.inference.column_types import NAMES, TypeRefused, canonical
from millpond.language.syntax.bounds_clause import EdgeReader, cut_bounds
from millpond.language.syntax.dialect import MillpondParser, SyntaxFault, everything_of, new_parser
from millpond.language.syntax.source_text import nearest, placed
from millpond.language.syntax.statement_types import (
    AlterColumns,
    AlterQuery,
    AlterStream,
    AlterSystem,
    AlterTable,
    Copy,
    CreateQuery,
    CreateStream,
    CreateStreamFrom,
    CreateTable,
    DeriveStream,
    Describe,
    Drain,
    Drop,
    Explain,
    Invoke,
    RefreshTable,
    Select,
    Show,
    ShowCreate,
    Statement,
)
from millpond.language.syntax.tokens import tokens_of
from millpond.language.syntax.window_clause import parse_window
from millpond.language.syntax.written_select import WrittenSelect
from millpond.language.with_options.event_times import Written as WrittenColumn
from millpond.language.with_options.event_times import patterned
from millpond.language.with_options.option_reader import OptionReader, Written
from millpond.language.with_options.stream_options import stream_options
from millpond.language.with_options.table_options import altered_table, table_of
from millpond.support.errors import StatementError
from millpond.support.file_names import FILE_ENDINGS, file_ending, is_file_name
from millpond.types import Column, QueryOptions, StreamDefinition
from millpond.types.as_of import AsOf
from millpond.types.columns import is_own, own_name_refused
from millpond.types.durations import parse_timestamp
from millpond.types.options import (
    DerivedTerms,
    Settings,
    StreamTerms,
    Table,
    TableTerms,
    derived_options,
    live,
    options_of,
)

STATEMENTS = ("CREATE", "DROP", "SHOW", "DESCRIBE", "COPY", "EXPLAIN", "SELECT", "INVOKE", "DRAIN", "ALTER", "REFRESH")
MAX_STATEMENT = 500_000
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "(", "VALUES", "PIVOT", "UNPIVOT", "TABLE")
_MAX_NAME = 128

#: How a file is written, by the end of its name.
_WRITTEN = {"tsv": "csv", "ndjson": "json", "jsonl": "json"}


def parse(script: str) -> list[Statement]:
    """The statements of a script, in order.

    Arguments:
        script: any number of statements with semicolons between them; comments (`--`, `/* */`) allowed.

    Returns:
        The statements; names and types inside SELECTs are not resolved yet.

    Raises:
        StatementError: with the place in the script.

    >>> [type(s).__name__ for s in parse("SHOW STREAMS; DRAIN FINAL")]
    ['Show', 'Drain']
    """
    statements: list[Statement] = []
    chunk: list[Token] = []
    for token in [*tokens_of(script), None]:
        if token is not None and token.token_type != TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            statements.append(_statement(script, chunk))
            chunk = []
    return statements


def _statement(script: str, tokens: list[Token]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    if end - start > MAX_STATEMENT:
        raise StatementError(f"the statement is longer than {MAX_STATEMENT:,} characters", script, start)
    reader = _Reader(script, tokens)
    try:
        statement = reader.statement()
        if reader.token:
            reader.fail(f"'{reader.token.text}' is not expected here", expected="the end of the statement or ';'")
        return statement
    except SyntaxFault as fault:
        word = script[fault.start : fault.end]
        if fault.message.startswith("Expected table name") and re.fullmatch(r"[^\W\d]\w*", word):
            message = f"'{word}' has a meaning of its own in SQL, and so names nothing here"
            like = f'a name; one like this in quotes: "{word}"'
            raise StatementError(message, script, fault.start, fault.end, like) from None
        raise StatementError(_plain(fault.message), script, fault.start, fault.end) from None
    except RecursionError:
        raise StatementError("the statement is nested too deeply", script, start, end) from None
    except (ParseError, TokenError):
        raise StatementError("this cannot be understood", script, start, end) from None
    except (AttributeError, AssertionError, IndexError, KeyError, TypeError, ValueError):
        # sqlglot trips over some broken texts; the place where it stood is the best there is
        at = reader.token or tokens[-1]
        raise StatementError(f"'{at.text}' is not expected here", script, at.start, at.end + 1) from None


def _plain(message: str) -> str:
    if message.startswith("Required"):
        return "something is missing here"
    if "Unexpected token" in message:
        return "this is not expected here"
    return re.sub(r"<Token .*>|<class .*>", "this", message).rstrip(".").strip() or "this cannot be understood"


class _Reader:
    """Reads one statement from its tokens, with sqlglot's parser for types and queries."""

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

    def statement(self) -> Statement:
        word = self.word()
        if word in _QUERY_STARTS:
            return Select(select=self.query(), **self.common)
        readers: dict[str, Callable[[], Statement]] = {
            "CREATE": self.create,
            "DROP": self.drop,
            "SHOW": self.show,
            "COPY": self.copy,
            "DESCRIBE": self.describe,
            "DESC": self.describe,
            "EXPLAIN": self.explain,
            "INVOKE": self.invoke,
            "DRAIN": self.drain,
            "ALTER": self.alter,
            "REFRESH": self.refresh,
        }
        if word not in readers:
            what = ", ".join(STATEMENTS)
            self.fail(f"'{self.token.text}' does not start a statement", expected=what, like=nearest(word, STATEMENTS))
        self.parser._advance()
        return readers[word]()

    # -- CREATE --------------------------------------------------------------------------------------------------

    def create(self) -> Statement:
        replace = self.take("OR", "REPLACE")
        at = self.token
        kind = self.expect("STREAM", "TABLE", "QUERY")
        if replace and kind != "QUERY":
            self.fail(f"OR REPLACE is for queries; a {kind.lower()} keeps what it holds", at, expected="QUERY")
        if_not_exists = self.take("IF", "NOT", "EXISTS")
        if replace and if_not_exists:
            self.fail("OR REPLACE and IF NOT EXISTS contradict each other", at)
        if kind == "QUERY":
            return self.create_query(replace, if_not_exists)
        name = self.name("a " + kind.lower())
        if kind == "STREAM" and self.word() in ("AS", "WITH"):
            select, options = self.as_select(derived_options(), at)
            own = {name: options.value(name) for name in options_of(DerivedTerms)}
            return DeriveStream(
                name=name,
                select=select,
                options=QueryOptions(**{n: v for n, v in options.values.items() if n not in own}),
                if_not_exists=if_not_exists,
                **own,
                **self.common,
            )
        if kind == "STREAM" and self.take("FROM"):
            return self.create_from(name, if_not_exists, at)
        if self.take("AS"):
            self.fail(f"CREATE {kind} … AS is not available yet", self.parser._prev, expected="(column type, …)")
        written = self.columns()
        options = self.with_options(options_of(StreamTerms if kind == "STREAM" else TableTerms), at)
        if kind == "STREAM":
            read, columns = stream_options(options, written, self.script)
            stream = StreamDefinition(name, columns, read)
            return CreateStream(definition=stream, if_not_exists=if_not_exists, **self.common)
        for each in (w for w in written if w.made):
            raise StatementError("columns of tables are not generated", self.script, *each.place, "a stream, or a view")
        columns = tuple(w.column for w in written)
        table, uri = table_of(name, columns, options)
        return CreateTable(definition=table, if_not_exists=if_not_exists, uri=uri, **self.common)

    def create_from(self, name: str, if_not_exists: bool, at: Token) -> CreateStreamFrom:
        """`FROM 'files' [WITH (options)]`: what the options say is looked at when the columns are known."""
        path = self.file_name()
        start = self.token.start if self.token else 0
        options = self.with_options(options_of(StreamTerms), at)
        written = self.script[start : self.parser._prev.end + 1] if options.options else ""
        return CreateStreamFrom(
            name=name,
            path=path,
            options=written.partition("(")[2].removesuffix(")"),
            given=frozenset(options.options),
            patterned=patterned(options),
            if_not_exists=if_not_exists,
            **self.common,
        )

    def file_name(self) -> str:
        """A text that names files."""
        token = self.token
        if not token or token.token_type != TokenType.STRING:
            self.unexpected("the name of a file in single quotes")
        if not is_file_name(token.text):
            self.fail(f"the format of '{token.text}' cannot be told from its name", token, ", ".join(FILE_ENDINGS))
        self.parser._advance()
        return token.text

    def copy(self) -> Copy:
        """`COPY (SELECT …) TO 'file'`, `COPY name TO 'file.csv' (FORMAT csv)`: the name says the format."""
        opening = self.parser._index
        if self.word() == "(":
            tree = self.parser._parse_select(nested=True, parse_subquery_alias=False)
            tree = tree.unnest() if isinstance(tree, exp.Subquery) else tree
        else:
            at = self.place
            item = exp.Identifier(this=self.name("a stream, table or query (or (SELECT …))"), quoted=True)
            tree = everything_of(exp.Table(this=placed(item, at)))
        if not isinstance(tree, exp.Query):
            self.fail("this is not a query", self.tokens[opening], expected="COPY (SELECT …) TO 'file.parquet'")
        self.expect("TO", what="TO 'file.parquet'")
        path = self.file_name()
        form = file_ending(path)
        form = _WRITTEN.get(form, form)
        if self.take("("):
            self.expect("FORMAT")
            given = self.token
            if self.expect("PARQUET", "CSV", "JSON").lower() != form:
                self.fail(f"a file that is called '{path}' is read as {form}", given, f"{form}, or another name")
            if not self.take(")"):
                self.unexpected("')'")
        common = {name: self.common[name] for name in ("text", "offset", "script")}
        return Copy(select=WrittenSelect(tree, **common), path=path, **self.common)

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

    def create_query(self, replace: bool, if_not_exists: bool) -> CreateQuery:
        at = self.token
        name = self.name("a query")
        select, options = self.as_select(options_of(QueryOptions), at)
        return CreateQuery(
            name=name,
            select=select,
            options=QueryOptions(**options.values),
            replace=replace,
            if_not_exists=if_not_exists,
            **self.common,
        )

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
        if self.word() not in _QUERY_STARTS:
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

    def drop(self) -> Drop:
        kind = self.expect("STREAM", "TABLE", "QUERY").lower()
        if_exists = self.take("IF", "EXISTS")
        name = self.name("a " + kind)
        cascade = self.take("CASCADE")
        # `expect` gave one of its words, which mypy cannot follow through `lower`
        return Drop(kind=kind, name=name, if_exists=if_exists, cascade=cascade, **self.common)  # type: ignore[arg-type] # one of the words

    def describe(self) -> Describe:
        if self.word() in _QUERY_STARTS and self.word() != "TABLE":
            return Describe(target=self.query(), **self.common)
        self.take("STREAM") or self.take("TABLE") or self.take("QUERY")
        return Describe(target=self.name("a stream, table or query (or SELECT …)"), **self.common)

    def show_create(self) -> ShowCreate:
        kind = self.word().lower() if self.word() in ("STREAM", "TABLE", "QUERY") and self.parser._next else None
        if kind is not None:
            self.parser._advance()
        name = self.name(f"a {kind}" if kind else "a stream, table or query")
        return ShowCreate(kind=kind, name=name, **self.common)  # type: ignore[arg-type]  # one of the words

    def show(self) -> Show | Describe | ShowCreate:
        if self.take("CREATE"):
            return self.show_create()
        if self.take("COLUMNS"):
            self.expect("FROM", "IN")
            return Describe(target=self.name("a stream, table or query"), **self.common)
        if self.word() == "PROGRESS":
            self.fail("SHOW PROGRESS is called SHOW WATERMARKS now", expected="SHOW WATERMARKS")
        what = self.expect(
            "STREAMS",
            "TABLES",
            "QUERIES",
            "SYNOPSES",
            "WATERMARKS",
            "LOAD",
            "SETTINGS",
            "FUNCTIONS",
            "ARCHIVE",
            what="STREAMS, TABLES, QUERIES, SYNOPSES, WATERMARKS, LOAD, SETTINGS, FUNCTIONS, ARCHIVE,"
            " COLUMNS FROM name or CREATE name",
        ).lower()
        name = self.name("a stream") if what == "archive" and self.token else None
        return Show(what=what, name=name, **self.common)  # type: ignore[arg-type]  # one of the words, in lower case

    def explain(self) -> Explain:
        analyze = self.take("ANALYZE")
        if self.word() in _QUERY_STARTS:
            return Explain(target=self.query(), analyze=analyze, **self.common)
        self.take("QUERY")
        return Explain(target=self.name("a query (or SELECT …)"), analyze=analyze, **self.common)

    def invoke(self) -> Invoke:
        name = self.name("a query")
        as_of = self.as_of() if self.take("AS", "OF") else None
        index = self.parser._index
        reader = EdgeReader(self.tokens, index, self.script)
        begin, end = reader.edges()
        self.parser._advance(reader.index - index)
        return Invoke(query=name, as_of=as_of, begin=begin, end=end, **self.common)

    def as_of(self) -> AsOf:
        # A text alone is an instant, as behind BEGIN.
        text = self.token is not None and self.token.token_type == TokenType.STRING
        if not text and self.word() == "PROGRESS":
            self.fail("AS OF PROGRESS is called AS OF WATERMARK now", expected="AS OF WATERMARK")
        word = "TIMESTAMP" if text else self.expect("WATERMARK", "TIMESTAMP", "EPOCH")
        if word == "WATERMARK":
            return "watermark"
        token = self.token
        if word == "EPOCH":
            if not token or token.token_type != TokenType.NUMBER or not token.text.isdigit() or len(token.text) > 18:
                self.fail("an epoch is a whole number", expected="AS OF EPOCH 12")
            self.parser._advance()
            return ("epoch", int(token.text))
        if not token or token.token_type != TokenType.STRING:
            self.fail("a timestamp is a text", expected="AS OF TIMESTAMP '2024-05-01 12:00:00'")
        try:
            moment = parse_timestamp(token.text)
        except ValueError as fault:
            self.fail(str(fault), expected="AS OF TIMESTAMP '2024-05-01 12:00:00'")
        self.parser._advance()
        return ("timestamp", moment)

    def drain(self) -> Drain:
        return Drain(final=self.take("FINAL"), **self.common)

    def alter(self) -> Statement:
        at = self.token
        what = self.expect("QUERY", "STREAM", "TABLE", "SYSTEM")
        if what != "SYSTEM":
            return {"STREAM": self.alter_stream, "TABLE": self.alter_table, "QUERY": self.alter_query}[what]()
        self.expect("SET", what="SET name = value")
        return AlterSystem(settings=self.assignments(Settings, at).values, **self.common)

    def alter_table(self) -> AlterTable:
        at = self.token
        name = self.name("a table")
        self.expect("SET", what="SET (reload = …)")
        options, uri = altered_table(self.assignments(TableTerms, at))
        return AlterTable(name=name, options=options, uri=uri, **self.common)

    def refresh(self) -> RefreshTable:
        self.expect("TABLE")
        return RefreshTable(name=self.name("a table"), **self.common)

    def alter_stream(self) -> AlterStream | AlterColumns:
        at = self.token
        name = self.name("a stream")
        what = self.word()
        if self.take("SET"):
            options = self.assignments(StreamTerms, at).values
            return AlterStream(name=name, options=options, **self.common)
        self.expect("ADD", "ALTER", what="SET (archive = …), ADD COLUMN … or ALTER COLUMN … SET TYPE …")
        if what == "ADD":
            self.take("COLUMN")
            if_not_exists = self.take("IF", "NOT", "EXISTS")
            place = self.place
            column = self.column()
            self.places["column"] = place
            return AlterColumns(name=name, action="add", column=column, if_not_exists=if_not_exists, **self.common)
        self.take("COLUMN")
        place = self.place
        known = self.name("a column")
        if self.take("SET"):
            self.take("DATA")
        self.expect("TYPE", what="SET TYPE …")
        self.places["column"] = place
        return AlterColumns(name=name, action="type", column=Column(known, self.type()), **self.common)

    @property
    def place(self) -> tuple[int, int]:
        """Where the current token stands; behind the last one there is none."""
        at = self.token or self.tokens[-1]
        return at.start, at.end + 1

    def alter_query(self) -> AlterQuery:
        name = self.name("a query")
        if self.take("SET", "WINDOW"):
            if self.word() != "[":
                self.fail("a window stands in brackets", expected="[RANGE 10 MINUTES SLIDE 1 MINUTE]")
            start, end = parse_window(self.parser).place
            return AlterQuery(name=name, action="window", window=self.script[start:end], **self.common)
        at = self.token
        if self.take("SET"):
            options = self.assignments(QueryOptions, at).values
            return AlterQuery(name=name, action="set", options=options, **self.common)
        action = self.expect("PAUSE", "RESUME", what="PAUSE, RESUME, SET WINDOW […] or SET option = value").lower()
        return AlterQuery(name=name, action=action, **self.common)  # type: ignore[arg-type]  # one of the words, too
