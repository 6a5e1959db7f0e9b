"""Names and texts as SQL has them."""

from __future__ import annotations


def quote(name: str) -> str:
    """An identifier in double quotes.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A text as a SQL literal."""
    return "'" + value.replace("'", "''") + "'"
