"""Expressions over the rows of a stream that is being declared: what makes a column, what marks a record."""

from __future__ import annotations

from typing import Any

from sqlglot.errors import ParseError, TokenError

from millpond.language.inference.types_of import Item, Typer
from millpond.language.resolve.scope import RowScope
from millpond.language.syntax.dialect import SyntaxFault, new_parser, tokenize
from millpond.language.syntax.source_text import Source
from millpond.support.errors import StatementError
from millpond.types import Column, StreamDefinition, StreamOptions
from millpond.types.options import OptionFault

_UNREADABLE = (SyntaxFault, ParseError, TokenError, RecursionError, ValueError, IndexError, AttributeError)

#: What messages call the stream, whose name is not known here.
_STREAM = "the stream"


def condition_of(text: str, columns: tuple[Column, ...], time: str) -> str:
    """A condition over columns as DuckDB SQL.

    Arguments:
        time: the event time.
    Raises: OptionFault: what is wrong with it.
    """
    return _bound(f"SELECT 1 FROM s WHERE {text}", "condition", columns, time)[0]


def expression_of(text: str, columns: tuple[Column, ...]) -> tuple[str, str]:
    """An expression over columns as DuckDB SQL, and its type.

    Raises: OptionFault: what is wrong with it.

    >>> expression_of("epoch_ms(t)", (Column("t", "BIGINT"),))
    ('epoch_ms("t")', 'TIMESTAMP')
    """
    return _bound(f"SELECT {text} FROM s", "expression", columns, columns[0].name if columns else "")


def _bound(script: str, what: str, columns: tuple[Column, ...], time: str) -> tuple[str, str]:
    try:
        trees = [t for t in new_parser().parse(tokenize(script), script) if t is not None]
        tree = trees[0].args if len(trees) == 1 else {}
        node: Any = tree.get("where") and tree["where"].this
        allowed = {"expressions", "texts", "from_"}
        if what == "expression":
            node = tree["expressions"][0] if len(tree.get("expressions") or ()) == 1 else None
        else:
            allowed.add("where")
        if node is None or {k for k, v in tree.items() if v} - allowed:
            raise OptionFault(f"this is no {what}")
        stream, source = StreamDefinition(_STREAM, columns, StreamOptions(time=time)), Source(script)
        rows = RowScope(source, stream, _STREAM)
        item = Item(rows.expression(node), node)
        typer = Typer(source, stream.all_columns, rows.text)
        kind = typer.typed([item])[0].type
        if what == "condition":
            typer.truth("marks", item, kind)
    except StatementError as error:
        raise OptionFault(error.message, error.expected, error.nearest) from None
    except _UNREADABLE as error:
        if isinstance(error, OptionFault):  # which is a ValueError
            raise
        raise OptionFault(f"the {what} cannot be understood") from None
    return item.sql, kind


__all__ = ["condition_of", "expression_of"]
