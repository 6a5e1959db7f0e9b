"""Scripts into statements."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.copy_options import read_form
from millpond.language.statement_parts import QUERY_STARTS, StatementParts
from millpond.language.syntax.bounds_clause import EdgeReader
from millpond.language.syntax.dialect import SyntaxFault, everything_of
from millpond.language.syntax.flat_chains import flattened
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
from millpond.language.with_options.event_times import patterned
from millpond.language.with_options.stream_options import stream_options
from millpond.language.with_options.table_options import altered_table, table_of
from millpond.support.errors import StatementError
from millpond.types import Column, QueryOptions, StreamDefinition
from millpond.types.as_of import AsOf
from millpond.types.durations import parse_timestamp
from millpond.types.options import (
    DerivedTerms,
    Settings,
    StreamTerms,
    TableTerms,
    derived_options,
    options_of,
)

STATEMENTS = ("CREATE", "DROP", "SHOW", "DESCRIBE", "COPY", "EXPLAIN", "SELECT", "INVOKE", "DRAIN", "ALTER", "REFRESH")
MAX_STATEMENT = 500_000


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


class _Reader(StatementParts):
    """Reads one statement from its tokens."""

    def statement(self) -> Statement:
        word = self.word()
        if word in QUERY_STARTS:
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
            like = nearest(word, STATEMENTS, 0.7)  # SET and DELETE are words of their own, not SELECT misspelt
            self.fail(f"'{self.token.text}' does not start a statement", expected=", ".join(STATEMENTS), like=like)
        self.parser._advance()
        return readers[word]()

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

    def copy(self) -> Copy:
        """`COPY (SELECT …) TO 'file'`, `COPY name TO 'file.csv' (HEADER false)`."""
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
        named = self.token
        form = read_form(self, self.text_value("the name of a file in single quotes"), named)
        common = {name: self.common[name] for name in ("text", "offset", "script")}
        return Copy(select=WrittenSelect(flattened(tree), **common), form=form, **self.common)

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

    def drop(self) -> Drop:
        kind = self.expect("STREAM", "TABLE", "QUERY").lower()
        if_exists = self.take("IF", "EXISTS")
        name = self.name("a " + kind)
        cascade = self.take("CASCADE")
        # `expect` gave one of its words, which mypy cannot follow through `lower`
        return Drop(kind=kind, name=name, if_exists=if_exists, cascade=cascade, **self.common)  # type: ignore[arg-type] # one of the words

    def describe(self) -> Describe:
        if self.word() in QUERY_STARTS and self.word() != "TABLE":
            return Describe(target=self.query(), **self.common)
        if self.token and self.token.token_type == TokenType.STRING:
            return Describe(target=self.file_name(), **self.common)
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
        if self.word() in QUERY_STARTS:
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
