"""Names and texts as SQL has them."""

from __future__ import annotations


def quote(name: str) -> str:
    """An identifier in double quotes.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def cast_item(name: str, kind: str) -> str:
    """An item of a SELECT list: a column, by its quoted name, as a type.

    >>> cast_item('"a"', "UUID")
    'CAST("a" AS UUID) AS "a"'
    """
    return f"CAST({name} AS {kind}) AS {name}"


def text_literal(value: str) -> str:
    """A text as a SQL literal."""
    return "'" + value.replace("'", "''") + "'"
