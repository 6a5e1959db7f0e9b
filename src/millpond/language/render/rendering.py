"""Trees as DuckDB SQL."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generators.duckdb import DuckDBGenerator

from millpond.language.syntax.dialect import Millpond
from millpond.language.syntax.nodes import (
    CheckedCast,
    FromItem,
    FromParentheses,
    RegisteredCall,
    WindowedCall,
    WrittenInterval,
)
from millpond.support.sql import quote


def _checked_cast(generator: Any, node: exp.Expr) -> str:
    return f"{'TRY_' if node.args.get('safe') else ''}CAST({generator.sql(node, 'this')} AS {node.args['kind']})"


def _safe_division(generator: Any, node: exp.Binary) -> str:
    """Division by zero is NULL, also of floating numbers, for which DuckDB says infinity."""
    symbol = {exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%"}[type(node)]
    divisor = node.expression
    text = generator.sql(divisor)
    if not (isinstance(divisor, exp.Literal) and not divisor.is_string and float(divisor.this) != 0):
        text = f"nullif({text}, 0)"
    return f"{generator.sql(node.this)} {symbol} {text}"


def _pivot(generator: Any, node: exp.Pivot) -> str:
    """PIVOT and UNPIVOT: DuckDB takes their own columns by bare names; columns of SELECTs in them keep their tables."""
    for column in list(node.find_all(exp.Column)):
        if column.find_ancestor(exp.Query, exp.Pivot) is node:
            for part in column.parts[:-1]:
                part.pop()
    text: str = generator.pivot_sql(node)
    return text


class _Rendered(Millpond):
    """The dialect as it is written for DuckDB."""

    class Generator(DuckDBGenerator):
        """DuckDB's generator, with checked casts and divisions that cannot fail."""

        # string_agg(DISTINCT text, ',') has two arguments, of which DISTINCT is about the first.
        MULTI_ARG_DISTINCT = True

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **DuckDBGenerator.TRANSFORMS,
            CheckedCast: _checked_cast,
            FromItem: lambda generator, node: generator.table_sql(node),
            FromParentheses: lambda generator, node: generator.subquery_sql(node),
            WrittenInterval: lambda generator, node: generator.interval_sql(node),
            RegisteredCall: lambda generator, node: generator.anonymous_sql(node),
            WindowedCall: lambda generator, node: generator.sql(node, "this"),
            exp.Pivot: _pivot,
            exp.IgnoreNulls: lambda generator, node: f"{generator.sql(node, 'this')} IGNORE NULLS",
            exp.RespectNulls: lambda generator, node: f"{generator.sql(node, 'this')} RESPECT NULLS",
            **dict.fromkeys((exp.Div, exp.IntDiv, exp.Mod), _safe_division),
        }

        def anonymous_sql(self, expression: exp.Anonymous) -> str:
            """A call. Of equally frequent values DuckDB's mode takes the one that it sees first: here the smallest one
            comes first, whatever the order of the rows."""
            text: str = super().anonymous_sql(expression)
            [value, *more] = expression.expressions or [None]
            if (
                expression.name.lower() != "mode"
                or more
                or value is None
                or isinstance(value, exp.Order | exp.Distinct)
            ):
                return text
            return f"{text[:-1]} ORDER BY {self.sql(value)})"


class _Tools(threading.local):
    """What a thread needs, made once: making it costs more than using it."""

    def __init__(self) -> None:
        self.generator = _Rendered().generator(identify=True, comments=False, normalize_functions=False)


_tools = _Tools()


def render(node: exp.Expr, copy: bool = True) -> str:
    """DuckDB SQL of a checked tree: every identifier quoted, no comments.

    copy: False for a tree that is not used afterwards, which the generator may change.
    """
    if type(node) is exp.Column and len(node.args) == 1 and type(node.this) is exp.Identifier:
        return quote(node.name)
    text: str = _tools.generator.generate(node, copy=copy)
    return text


def as_written(node: exp.Expr) -> str:
    """A tree as it could have been written: only names that were quoted are."""
    return str(node.sql(dialect=_Rendered, comments=False, normalize_functions=False))
