"""Expressions: DuckDB SQL together with what it reads and calls, known since it was bound."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from millpond.support.sql import quote
from millpond.types.function_definitions import is_reference
from millpond.types.json_records import Written

#: The column that the result of a call stands in, in what is left of its condition (`Call.rest`).
RESULT = "_u0"


@dataclass(frozen=True)
class Expression(Written):
    """DuckDB SQL of a value. In an f-string it stands for its SQL; equal SQL is the same expression.

    columns: the columns that it reads, as they are called, each once. calls: what is called in it: functions by name
    (registered ones by reference), 'CAST', and operators that compute, such as '+'; not comparisons.
    conjuncts: what AND stands between, where registered functions are called; empty: it is one itself.
    call: the call of a registered function in it that is made for every row; None: there is none, there are several, or
    whether it is made depends on something else.
    type: its DuckDB type; '': nobody has asked DuckDB for it.

    >>> Expression('"a" > 1', ("a",)).columns, f"NOT ({Expression.column_of('a')})"
    (('a',), 'NOT ("a")')
    """

    sql: str
    columns: tuple[str, ...] = field(default=(), compare=False)
    calls: tuple[str, ...] = field(default=(), compare=False)
    conjuncts: tuple[Expression, ...] = field(default=(), compare=False)
    call: Call | None = field(default=None, compare=False)
    type: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.sql

    @functools.cached_property
    def column(self) -> str | None:
        """The column that it is and nothing else; None for any other expression."""
        return self.columns[0] if len(self.columns) == 1 and self.sql == quote(self.columns[0]) else None

    @property
    def registered(self) -> tuple[str, ...]:
        """The registered functions that it calls, by reference."""
        return tuple(each for each in self.calls if is_reference(each))

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def column_of(name: str, kind: str = "") -> Expression:
        """The expression that is a column."""
        return Expression(quote(name), (name,), type=kind)

    def typed(self, kind: str) -> Expression:
        """With its DuckDB type."""
        if kind == self.type:
            return self
        if self.column is not None:
            return Expression.column_of(self.column, kind)
        return Expression(self.sql, self.columns, self.calls, self.conjuncts, self.call, kind)

    def within(self, before: str, after: str, kind: str) -> Expression:
        """With SQL around it that reads no columns and calls nothing that can fail. kind: its DuckDB type then."""
        return composed(f"{before}{self.sql}{after}", kind, [self])

    def written(self) -> list[Any]:
        """As JSON: a column as its name alone, all else as SQL, columns and so on, as far as there is anything.

        The type, where it is known, goes last.
        """
        kind = [self.type] if self.type else []
        if self.column is not None:
            return [self.column, *kind]
        if not self.calls:
            return [self.sql, list(self.columns), *kind]
        parts = [each.written() for each in self.conjuncts]
        call = None if self.call is None else self.call.written()
        found = [self.sql, list(self.columns), list(self.calls), parts, call]
        while len(found) > 2 and not found[-1]:
            found.pop()
        return [*found, *kind]

    @classmethod
    def read(cls, value: Any) -> Expression:
        """What `written` gave; or SQL from before expressions said what they are made of."""
        if isinstance(value, str):
            return parsed(value)
        kind = ""
        if len(value) > 1 and isinstance(value[-1], str):
            *value, kind = value
        if len(value) == 1:  # a column
            return cls.column_of(value[0], kind)
        if len(value) == 2:
            return cls(value[0], tuple(value[1]), type=kind)
        sql, columns, calls, parts, call = [*value, [], None] if len(value) == 3 else [*value, None][:5]
        conjuncts = tuple([cls.read(each) for each in parts])
        return cls(sql, tuple(columns), tuple(calls), conjuncts, None if call is None else Call.read(call), kind)


@dataclass(frozen=True)
class Call(Written):
    """A call of a registered function that is made for every row.

    reference: of the function. arguments: of the call. rest: the condition that it stands in, over the column `RESULT`
    in its place; None: its result is the condition.
    """

    reference: str
    arguments: tuple[Expression, ...]
    rest: Expression | None = None

    def written(self) -> list[Any]:
        """As JSON."""
        rest = None if self.rest is None else self.rest.written()
        return [self.reference, [each.written() for each in self.arguments], rest]

    @classmethod
    def read(cls, value: Any) -> Call:
        """What `written` gave."""
        reference, arguments, rest = value
        return cls(reference, tuple(map(Expression.read, arguments)), None if rest is None else Expression.read(rest))


def retyped(written: Any, kind: str) -> list[Any]:
    """What was written of an expression, with the type that stood beside it."""
    return Expression.read(written).typed(kind).written()


def composed(sql: str, kind: str, parts: Iterable[Expression], columns: Iterable[str] = ()) -> Expression:
    """An expression of a DuckDB type made of others: it reads and calls what they do, and reads `columns`."""
    read: list[str] = []
    calls: list[str] = []
    for part in parts:
        read += part.columns
        calls += part.calls
    called = tuple(dict.fromkeys(calls)) if calls else ()
    return Expression(sql, tuple(dict.fromkeys([*read, *columns])), called, type=kind)


def all_of(conditions: Iterable[Expression]) -> Expression | None:
    """Conditions with AND between them; None without any.

    >>> str(all_of([Expression.column_of("a"), Expression('"b" > 1', ("b",))]))
    '("a") AND ("b" > 1)'
    """
    listed = list(conditions)
    if len(listed) < 2:
        return listed[0] if listed else None
    whole = composed(f"({') AND ('.join([each.sql for each in listed])})", "BOOLEAN", listed)
    if not whole.calls or not whole.registered:
        return whole
    parts = tuple(part for each in listed for part in each.conjuncts or (each,))
    return Expression(whole.sql, whole.columns, whole.calls, parts, type="BOOLEAN")


def columns_read(*expressions: Expression | None) -> frozenset[str]:
    """The columns that some expressions read together; None reads nothing."""
    return frozenset([column for each in expressions if each is not None for column in each.columns])


def expressions_in(value: Any) -> Iterator[Expression]:
    """The expressions that a query, a spec or another value is made of, at whatever depth."""
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from expressions_in(each)
    elif is_dataclass(value):
        for each in fields(value):
            yield from expressions_in(getattr(value, each.name))


def registered_in(value: Any) -> frozenset[str]:
    """The registered functions that the expressions in a value call, by reference."""
    return frozenset(each for found in expressions_in(value) for each in found.registered)


# -- SQL from before expressions said what they are made of ------------------------------------------------------------

#: A part of the syntax tree that DuckDB's parser gives, as JSON.
_Node = dict[str, Any]


@functools.lru_cache(maxsize=4096)
def parsed(sql: str) -> Expression:
    """An expression of which only the SQL was written down, as DuckDB's parser reads it. Its calls are made by DuckDB.

    >>> found = parsed('"a" > 1 AND udf__f__00000000_1("b")')
    >>> found.columns, [str(each) for each in found.conjuncts]
    (('a', 'b'), ['(a > 1)', 'udf__f__00000000_1(b)'])
    """
    tree: _Node = json.loads(_asked("json_serialize_sql", f"SELECT {sql}"))
    if tree["error"]:
        raise ValueError(f"no expression: {sql}: {tree['error_message']}")
    listed: list[_Node] = tree["statements"][0]["node"]["select_list"]
    whole = _told(listed[0], sql)
    if not any(map(is_reference, whole.calls)):
        return whole
    conjuncts = []
    for part in _conjuncts(listed[0]):
        listed[0] = part
        conjuncts.append(_told(part, _asked("json_deserialize_sql", json.dumps(tree)).removeprefix("SELECT ")))
    return replace(whole, conjuncts=tuple(conjuncts) if len(conjuncts) > 1 else ())


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """An expression over columns that are called otherwise.

    >>> str(renamed(parsed('"a" + upper("b")'), {"a": "c d"}))
    '("c d" + upper(b))'
    """
    if not any(column in names for column in expression.columns):
        return expression
    tree: _Node = json.loads(_asked("json_serialize_sql", f"SELECT {expression.sql}"))
    for node in _walk(tree):
        if node.get("class") == "COLUMN_REF":
            first, *fields = node["column_names"]
            node["column_names"] = [names.get(first, first), *fields]
    found = parsed(_asked("json_deserialize_sql", json.dumps(tree)).removeprefix("SELECT "))
    return found.typed(expression.type)


@functools.lru_cache(maxsize=1024)
def calls_of_statement(sql: str) -> tuple[str, ...]:
    """The registered functions that a SELECT calls of which only the SQL was written down, by reference."""
    tree = json.loads(_asked("json_serialize_sql", sql))
    names = [n["function_name"] for n in _walk(tree) if n.get("class") == "FUNCTION"]
    return tuple(name for name in dict.fromkeys(names) if is_reference(name))


def _asked(function: str, value: str) -> str:
    with _parser().cursor() as db:
        ((found,),) = db.execute(f"SELECT {function}(?)", [value]).fetchall()
    return str(found)


@functools.cache
def _parser() -> Any:
    import duckdb  # who has no such SQL, such as a client, does without it

    return duckdb.connect(":memory:")


def _told(node: _Node, sql: str) -> Expression:
    nodes = list(_walk(node))
    columns = dict.fromkeys(n["column_names"][0] for n in nodes if n.get("class") == "COLUMN_REF")
    calls = dict.fromkeys(n.get("function_name", "CAST") for n in nodes if n.get("class") in ("FUNCTION", "CAST"))
    return Expression(sql, tuple(columns), tuple(calls))


def _walk(value: Any) -> Iterator[_Node]:
    """The nodes of a tree, those above first."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _walk(each)


def _conjuncts(node: _Node) -> list[_Node]:
    if node.get("type") != "CONJUNCTION_AND":
        return [node]
    return [part for each in node["children"] for part in _conjuncts(each)]
