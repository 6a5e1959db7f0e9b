"""Millpond's SQL: DuckDB's, with windows behind the FROM items.

Functions keep the name that was written (sqlglot would turn them into its own idea of them), so that the allow-list
and DuckDB see what the user meant.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.builtins.approximate import approximate
from millpond.language.syntax.flat_chains import MOST_TERMS, flattened
from millpond.language.syntax.nodes import (
    SelectList,
    ToStream,
    WindowedCall,
    WrittenInterval,
    settled,
    suffix_of,
    window_of,
    with_suffix,
)
from millpond.language.syntax.reduce_clause import begins_reduce, parse_reduce
from millpond.language.syntax.source_text import token_span
from millpond.language.syntax.window_clause import begins_window, parse_window
from millpond.language.syntax.window_functions import begins_window_function, parse_window_function

_SELECTS = ("SELECT", "WITH", "FROM", "VALUES", "BY", "TABLE", "PIVOT", "UNPIVOT")

_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")

#: Functions that take a function.
TAKE_LAMBDAS = frozenset(
    f"{kind}_{name}" for kind in ("list", "array") for name in ("transform", "apply", "filter", "reduce")
) | {"apply", "filter", "reduce", "columns"}

_TO_STREAM = ("ISTREAM", "DSTREAM", "RSTREAM", "PAIRS")


class SyntaxFault(ParseError):
    """A syntax error with its place; the statement parser turns it into a StatementError."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message, [{"description": message}])
        self.message, self.start, self.end = message, start, end


class MillpondParser(DuckDBParser):
    """DuckDB's parser with windows, `ALL REVISIONS`, and places on more nodes."""

    #: DuckDB has no LIST[1, 2]: brackets behind list(x) are a subscript.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {"ARRAY": exp.Array}
    JSON_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        TokenType.ARROW: lambda self, value, path: _extracted("json_extract", value, path),
        TokenType.DARROW: lambda self, value, path: _extracted("json_extract_string", value, path),
    }
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser for name, parser in DuckDBParser.FUNCTION_PARSERS.items() if name in _SPECIAL_SYNTAX
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser for name, parser in DuckDBParser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("CASE", "IF", "@")
    }

    #: The calls that the parser is within, innermost last: what an arrow means depends on the function.
    within: tuple[str, ...] = ()

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise with the place of the token instead of a formatted text."""
        at = token or self._curr or self._prev
        start, end = (at.start, at.end + 1) if at else (0, 1)
        raise SyntaxFault(message, start, end)

    def parse_query(self) -> exp.Expr | None:
        """A statement that asks: SELECT, WITH, FROM, VALUES, or a short form of SELECT * (PIVOT, UNPIVOT, TABLE)."""
        if self._match_texts(("PIVOT", "UNPIVOT")):
            pivot = self._parse_simplified_pivot(is_unpivot=self._prev.text.upper() == "UNPIVOT")
            found: exp.Expr | None = everything_of(exp.Subquery(this=pivot))
        elif self._curr.text.upper() == "TABLE" and self._next.token_type != TokenType.L_PAREN:
            self._advance()
            table = self._parse_table()
            found = None if table is None else everything_of(table)
        else:
            found = self._parse_statement()
        if isinstance(found, exp.Values):
            found = self._values_to_select(found)
        found = found.unnest() if isinstance(found, exp.Subquery) else found
        return found if found is None or len(self._tokens) < MOST_TERMS else flattened(found)

    def _parse_limit(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """LIMIT; FETCH FIRST n ROWS ONLY is another spelling."""
        found = super()._parse_limit(*args, **kwargs)
        if not isinstance(found, exp.Fetch):
            return found
        options = found.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            return found
        return exp.Limit(expression=found.args.get("count") or exp.Literal.number(1))

    def _parse_table_parts(
        self,
        schema: bool = False,
        is_db_reference: bool = False,
        wildcard: bool = False,
        fast: bool = False,
    ) -> exp.Table | exp.Dot | None:
        table = super()._parse_table_parts(schema, is_db_reference, wildcard, fast)
        if isinstance(table, exp.Table) and not schema:
            return self._parse_suffix(self._unalias_final(table))
        return table

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        parse_bracket: bool = False,
        is_db_reference: bool = False,
        parse_partition: bool = False,
        consume_pipe: bool = False,
    ) -> exp.Expr | None:
        if not schema and (union := self._parse_union_of_streams()) is not None:
            return union
        if not schema and begins_window_function(self._tokens, self._index):
            found = parse_window_function(self, super()._parse_table_parts)
            found.set("alias", self._parse_table_alias())
            return found
        table = super()._parse_table(
            schema, joins, alias_tokens, parse_bracket, is_db_reference, parse_partition, consume_pipe
        )
        if isinstance(table, exp.Table) and not schema:
            return self._parse_suffix(self._unalias_final(table))
        return table

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        """What stands in parentheses, with the window behind it, and a name before or behind that."""
        found = super()._parse_subquery(this, parse_alias)
        if isinstance(found, exp.Subquery) and parse_alias and self._curr.token_type == TokenType.L_BRACKET:
            found = with_suffix(found, window=parse_window(self))
            if not found.alias:
                found.set("alias", self._parse_table_alias())
        return found

    def _unalias_final(self, table: exp.Table) -> exp.Table:
        """`FROM q FINAL` has no alias: without AS and quotes, the word says which answers are meant."""
        alias = table.args.get("alias")
        at = alias.this if isinstance(alias, exp.TableAlias) else None
        said = self._tokens[self._index - 1] if self._index else None
        before = self._tokens[self._index - 2] if self._index > 1 else None
        if (
            isinstance(at, exp.Identifier)
            and not at.args.get("quoted")
            and at.name.upper() == "FINAL"
            and said is not None
            and said.text.upper() == "FINAL"
            and (before is None or before.token_type != TokenType.ALIAS)
        ):
            table.set("alias", None)
            table = with_suffix(table, final=(said.start, said.end + 1))
            if self._curr.token_type == TokenType.ALIAS or self._curr.token_type == TokenType.VAR:
                table.set("alias", self._parse_table_alias())
        return table

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        """The items of SELECT; `ISTREAM(a, b)` and `ISTREAM a, b` are written around all of them (CQL)."""
        word, follows = self._curr, self._next
        if not self._is_to_stream(word, follows):
            return self._parse_select_list(), None
        self._advance()
        inside = self._curr.token_type == TokenType.L_PAREN
        if inside:
            self._advance()
        name = word.text.upper()
        if self._curr and self._curr.text.upper() == "DISTINCT" and self._curr.token_type == TokenType.DISTINCT:
            if name == "PAIRS":
                self.raise_error(
                    "PAIRS gives each pair by itself, and DISTINCT needs many: a window over a stream of pairs"
                )
            self.raise_error(f"DISTINCT stands in a SELECT of its own: SELECT {name}(*) FROM (SELECT DISTINCT …)")
        if inside and self._curr and self._curr.token_type == TokenType.R_PAREN:
            self.raise_error(f"{name} needs columns: {name}(*), {name}(a, b)")
        items = self._parse_select_list()
        if inside:
            if self._curr.token_type != TokenType.R_PAREN:
                self.raise_error(f"the parenthesis of {name} is not closed")
            self._advance()
            if self._curr.token_type == TokenType.COMMA:
                self.raise_error(f"{name} stands around the whole select list")
        place = (word.start, word.end + 1)
        items[0].set("to_stream", ToStream(word.text.lower(), place))  # type: ignore[arg-type]  # one of _TO_STREAM
        return items, None

    def _parse_select_list(self) -> list[exp.Expr]:
        """The items of SELECT in one `SelectList`, which `_parse_query_modifiers` takes apart."""
        texts: list[str] = []

        def item() -> exp.Expr | None:
            first = self._curr
            found = self._parse_expression()
            if found is not None:
                texts.append(self.sql[first.start : self._prev.end + 1])
            return found

        items = self._parse_csv(item)
        return [SelectList(expressions=items, texts=tuple(texts))]

    def _parse_group(self, *args: Any, **kwargs: Any) -> exp.Group | None:
        behind = self._after_next()
        if self._next.token_type == TokenType.WINDOW and behind is not None and behind.text == "(":
            self._advance()  # a function of Spark
            self.raise_error("there is no function window: windows stand in FROM, FROM s [RANGE TUMBLING 5 MINUTES]")
        group = super()._parse_group(*args, **kwargs)
        if group is not None and not any(group.args.values()):
            self.raise_error("GROUP BY names what rows are grouped by, or ALL")
        return group

    def _parse_limit_by(self) -> list[exp.Expr] | None:
        """`PER a, b` behind a LIMIT (also `BY a, b`): the first rows of each."""
        if not self._match_text_seq("PER") and not self._match_text_seq("BY"):
            return None
        return self._parse_csv(self._parse_bitwise)

    def _parse_query_modifiers(self, this: Any) -> Any:
        return super()._parse_query_modifiers(settled(this) if isinstance(this, exp.Select) else this)

    def _is_to_stream(self, word: Token, follows: Token) -> bool:
        """Whether the word at the start of a select list is CQL's, not a column of that name."""
        if not word or not follows or word.text.upper() not in _TO_STREAM or word.token_type == TokenType.IDENTIFIER:
            return False
        if follows.token_type == TokenType.L_PAREN:
            return True
        if word.text.upper() == "PAIRS":  # a column may be called so
            return False
        if follows.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.CASE):
            return True
        if follows.token_type == TokenType.STAR:
            behind = self._tokens[self._index + 2] if self._index + 2 < len(self._tokens) else None
            return behind is not None and behind.text.upper() in ("FROM", "EXCLUDE", "REPLACE")
        return follows.token_type in (TokenType.VAR, TokenType.IDENTIFIER)

    def _parse_union_of_streams(self) -> exp.Table | None:
        """`(a UNION ALL b)` and `a UNION b` as one FROM item: the first table, with the others in its suffix."""
        at = self._index
        if at >= len(self._tokens):
            return None
        while self._tokens[at].token_type == TokenType.L_PAREN and at + 1 < len(self._tokens):
            at += 1
        words = [t.text.upper() for t in self._tokens[at : at + 4]]
        names = (TokenType.VAR, TokenType.IDENTIFIER)
        if len(words) < 3 or self._tokens[at].token_type not in names or words[1] != "UNION":
            return None
        behind = at + (3 if words[2] in ("ALL", "DISTINCT") else 2)
        while behind < len(self._tokens) and self._tokens[behind].token_type == TokenType.L_PAREN:
            behind += 1
        if behind >= len(self._tokens) or self._tokens[behind].text.upper() in _SELECTS:
            return None
        members = self._parse_members()
        table = self._parse_suffix(with_suffix(members[0], union=tuple(members[1:])))
        if suffix_of(table).reduce is None and (alias := self._parse_table_alias()) is not None:
            table.set("alias", alias)
            table = self._parse_suffix(table)
        return table

    def _parse_members(self) -> list[exp.Table]:
        """Names between UNION [ALL], any of them in parentheses with others."""
        members: list[exp.Table] = []
        while True:
            if self._match(TokenType.L_PAREN):
                members += self._parse_members()
                if not self._match(TokenType.R_PAREN):
                    self.raise_error("the parenthesis of the union is not closed here; its window stands behind it")
            else:
                table = super()._parse_table_parts()
                if not isinstance(table, exp.Table):
                    self.raise_error("a union in FROM is of streams, by their names")
                else:
                    members.append(table)
            if not self._curr or self._curr.text.upper() != "UNION":
                return members
            self._advance()
            if self._curr and self._curr.text.upper() == "DISTINCT":
                self.raise_error("a union of streams keeps every row: UNION ALL, or UNION for short")
            if self._curr and self._curr.token_type == TokenType.ALL:
                self._advance()

    def _parse_suffix(self, table: exp.Table) -> exp.Table:
        """A FROM item with what follows its name, or its alias."""
        while True:
            if self._curr.token_type == TokenType.L_BRACKET:
                if window_of(table) is not None:
                    self.raise_error("a second window behind the same stream")
                table = with_suffix(table, window=parse_window(self))
            elif self._curr.token_type == TokenType.ALL and self._next.text.upper() == "REVISIONS":
                table = with_suffix(table, revisions=(self._curr.start, self._next.end + 1))
                self._advance(2)
            elif begins_reduce(self._curr, self._next, self._after_next()):
                if suffix_of(table).reduce is not None:
                    self.raise_error("a second REDUCE behind the same stream")
                table = with_suffix(table, reduce=parse_reduce(self))
            elif self._curr.text.upper() == "FINAL" and self._curr.token_type != TokenType.IDENTIFIER:
                table = with_suffix(table, final=(self._curr.start, self._curr.end + 1))
                self._advance()
            else:
                return table

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """A subscript, or the window behind an aggregate call (or behind what should be one)."""
        if this is None:
            return _uncomprehended(super()._parse_bracket(this))
        if isinstance(this, WindowedCall) or window_of(this) is not None:
            return super()._parse_bracket(this)
        if not begins_window(self._curr, self._next, self._after_next()):
            return super()._parse_bracket(this)
        if isinstance(this, exp.Subquery):
            return with_suffix(this, window=parse_window(self))
        return WindowedCall(this=this, window=parse_window(self))

    def _after_next(self) -> Token | None:
        return self._tokens[self._index + 2] if self._index + 2 < len(self._tokens) else None

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token, around = self._curr, self.within
        self.within = (*around, token.text.lower() if token else "")
        try:
            found = super()._parse_function_call(*args, **kwargs)
        finally:
            self.within = around
        if isinstance(found, exp.Expr) and token_span(found) is None and not isinstance(found, exp.Identifier):
            found.update_positions(token)
        return found

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        """An argument of a call: `x -> …` is a function where one is taken, and looks into JSON elsewhere."""
        if self._next.token_type == TokenType.ARROW and self.within and self.within[-1] not in TAKE_LAMBDAS:
            return self._parse_select_or_expression(alias=alias)
        return super()._parse_lambda(alias)

    def _parse_primary(self) -> exp.Expr | None:
        """A constant; `MAP {key: value}`, whose keys are expressions, as the call that it stands for."""
        if self._curr and self._curr.text.upper() == "MAP" and self._next.token_type == TokenType.L_BRACE:
            return self._parse_map_constant()
        return super()._parse_primary()

    def _parse_map_constant(self) -> exp.Expr:
        start = self._curr
        self._advance(2)
        keys: list[exp.Expr | None] = []
        values: list[exp.Expr | None] = []
        while not self._match(TokenType.R_BRACE):
            if keys and not self._match(TokenType.COMMA):
                self.raise_error("',' or '}' is missing in MAP {key: value, …}")
            keys.append(self._parse_disjunction())
            if not self._match(TokenType.COLON):
                self.raise_error("':' is missing in MAP {key: value, …}")
            values.append(self._parse_disjunction())
        found = exp.Anonymous(this="map", expressions=[exp.Array(expressions=keys), exp.Array(expressions=values)])
        found.update_positions(start)
        return found

    def _parse_comprehension(self, this: exp.Expr | None) -> exp.Comprehension | None:
        """`value FOR x IN list IF condition`, whose x is a name of its own."""
        found = super()._parse_comprehension(this)
        if isinstance(found, exp.Comprehension):
            names = [n for n in (found.expression, found.args.get("position")) if n is not None]
            for key in ("this", "condition"):
                if (value := found.args.get(key)) is not None:
                    found.set(key, self._replace_lambda(value, names))
        return found

    def _parse_column(self) -> exp.Expr | None:
        if self._curr and self._curr.text.upper() == "APPROX":
            behind = self._tokens[self._index + 2 : self._index + 3]
            if behind and behind[0].token_type == TokenType.L_PAREN and self._next.text[:1].isalpha():
                found = self._parse_approximate()
                return self._parse_column_ops(found) if found is not None else None
        return super()._parse_column()

    def _parse_approximate(self) -> exp.Expr | None:
        """`APPROX name(…)`: a call of the approximate form."""
        self._advance()
        name = approximate(self._curr.text, self.raise_error)
        found = self._parse_function_call()
        call = found
        while isinstance(call, exp.Filter | exp.WithinGroup):
            call = call.this
        if not isinstance(call, exp.Anonymous):
            self.raise_error("APPROX stands before a call of an aggregate")
            return None
        distinct = bool(call.expressions) and isinstance(call.expressions[0], exp.Distinct)
        if call.name.lower() == "count":
            if not distinct:
                self.raise_error("APPROX count needs DISTINCT: count(*) and count(x) are cheap as they are")
            call.set("expressions", [*call.expressions[0].expressions, *call.expressions[1:]])
        call.set("this", name)
        return found

    def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query | None:
        """Pipes are another language than the one documented here."""
        self.raise_error("|> is not available")
        return None

    def _parse_interval(self, *args: Any, **kwargs: Any) -> exp.Add | exp.Interval | None:
        text = self._next
        if text.token_type == TokenType.L_BRACKET:
            return None
        found = super()._parse_interval(*args, **kwargs)
        if isinstance(found, exp.Interval) and text.token_type == TokenType.STRING:
            written = WrittenInterval(**found.args, text=text.text, whole=self._prev is text)
            written.update_positions(text)
            return written
        return found

    def _parse_user_defined_type(self, identifier: exp.Identifier) -> exp.Expr | None:
        """A type that sqlglot does not know: kept by name, to be refused with its place."""
        return exp.DataType(this=exp.DType.USERDEFINED, kind=identifier.name)

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        first = self._curr
        if kwargs.get("check_func") and self._next.token_type == TokenType.L_BRACKET and not kwargs.get("schema"):
            return None  # in an expression `date[1]` is a column's element
        found = super()._parse_types(*args, **kwargs)
        if isinstance(found, exp.DataType):
            found.update_positions(line=first.line, col=first.col, start=first.start, end=self._prev.end)
        return found


class Millpond(DuckDB):
    """The sqlglot dialect of Millpond."""

    #: Subscripts stay as written; sqlglot would otherwise count from 0 inside and shift constants only.
    INDEX_OFFSET = 0

    class Tokenizer(DuckDB.Tokenizer):
        """DuckDB's tokenizer, without words that swallow the rest of the statement as text."""

        COMMANDS: ClassVar[set[TokenType]] = set()

    Parser = MillpondParser


def everything_of(item: exp.Expr) -> exp.Select:
    """SELECT * FROM item."""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=item))


def _extracted(function: str, value: exp.Expr, path: exp.Expr) -> exp.Expr:
    """`value -> path` as the call that it stands for: whatever stands around it, it means the same."""
    return exp.Anonymous(this=function, expressions=[value, path])


def _uncomprehended(found: exp.Expr | None) -> exp.Expr | None:
    """`[value FOR x IN list IF condition]` as the calls that it stands for."""
    inner = found.expressions[0] if isinstance(found, exp.Array) and len(found.expressions) == 1 else None
    if not isinstance(inner, exp.Comprehension):
        return found
    names = [n for n in (inner.expression, inner.args.get("position")) if n is not None]
    rows = inner.args["iterator"]
    if (condition := inner.args.get("condition")) is not None:
        rows = exp.Anonymous(this="list_filter", expressions=[rows, exp.Lambda(this=condition, expressions=names)])
    value = exp.Lambda(this=inner.this, expressions=[n.copy() for n in names])
    return exp.Anonymous(this="list_transform", expressions=[rows, value])


class _Tools(threading.local):
    """What a thread needs of the dialect, made once: making them costs more than using them."""

    def __init__(self) -> None:
        self.dialect = Millpond()
        self.tokenizer = self.dialect.tokenizer()


_tools = _Tools()


def tokenize(text: str) -> list[Token]:
    """The tokens of a script."""
    tokens: list[Token] = _tools.tokenizer.tokenize(text)
    return tokens


def parsed_expression(sql: str) -> exp.Expr | None:
    """The tree of an expression that was rendered; None where it cannot be read back."""
    parser = new_parser()
    try:
        found = parser.parse(tokenize(f"SELECT {sql}"), sql)[0]
    except (ParseError, TokenError):
        return None
    item = found.expressions[0] if isinstance(found, exp.Select) and len(found.expressions) == 1 else None
    return item


def new_parser() -> MillpondParser:
    """A parser without text."""
    return MillpondParser(dialect=_tools.dialect)
