"""Names and texts as SQL has them."""

from __future__ import annotations

from collections.abc import Sequence


def quote(name: str) -> str:
    """An identifier in double quotes.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def group_text(columns: Sequence[str]) -> str:
    """SQL for the text by which a group is called that rows with equal values in some columns are; NULL: all are NULL.

    >>> group_text(["a"])
    'CAST("a" AS VARCHAR)'
    """
    texts = [f"CAST({quote(c)} AS VARCHAR)" for c in columns]
    if len(texts) == 1:
        return texts[0]
    return f"CASE WHEN coalesce({', '.join(texts)}) IS NOT NULL THEN CAST(to_json([{', '.join(texts)}]) AS VARCHAR) END"


def cast_item(name: str, kind: str) -> str:
    """An item of a SELECT list: a column, by its quoted name, as a type.

    >>> cast_item('"a"', "UUID")
    'CAST("a" AS UUID) AS "a"'
    """
    return f"CAST({name} AS {kind}) AS {name}"


def text_literal(value: str) -> str:
    """A text as a SQL literal."""
    return "'" + value.replace("'", "''") + "'"
