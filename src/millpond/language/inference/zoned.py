"""Texts with an offset beside values of type TIMESTAMP.

A TIMESTAMP is UTC, and DuckDB's cast of a text to it leaves the text's offset out. Such a text is written in UTC
before DuckDB sees it, so that it means the same instant beside TIMESTAMP and TIMESTAMPTZ.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from sqlglot import exp

from millpond.language.inference.duck import evaluate
from millpond.language.inference.enum_texts import is_text
from millpond.support.sql import text_literal

#: A date, and more: what could be a time with an offset.
_DATED = re.compile(r"\s*\d{1,6}-\d{1,2}-\d{1,2}.{2,50}", re.ASCII)

#: Calls whose text arguments stay texts beside times.
_TEXTUAL = ("concat", "concat_ws", "format", "printf")


@functools.lru_cache(maxsize=4096)
def utc_text(text: str) -> str | None:
    """The same instant in UTC for a text with an offset from UTC; None for any other text.

    >>> utc_text("1970-01-01 01:00:05+01:00"), utc_text("1970-01-01 01:00:05"), utc_text("one")
    ('1970-01-01 00:00:05', None, None)
    """
    if not _DATED.fullmatch(text):
        return None
    written = text_literal(text)
    instant = f"TRY_CAST({written} AS TIMESTAMPTZ) AT TIME ZONE 'UTC'"
    found = evaluate(f"CASE WHEN ({instant}) <> TRY_CAST({written} AS TIMESTAMP) THEN CAST({instant} AS VARCHAR) END")
    return found if isinstance(found, str) else None


def in_utc(node: exp.Expr, kind: Callable[[exp.Expr], str]) -> exp.Expr:
    """The node with the texts beside a TIMESTAMP in UTC; a copy when that changes one.

    Arguments:
        kind: the type of an operand; asked only when there is a text with an offset.
    """
    if not any(_zoned(each) for group in _operands(node) for each in group):
        return node
    beside = [any(kind(each) == "TIMESTAMP" for each in group if not _zoned(each)) for group in _operands(node)]
    if not any(beside):
        return node
    found = node.copy()
    for group, times in zip(_operands(found), beside, strict=True):
        for literal in (each.unnest() for each in group):
            if times and is_text(literal) and (utc := utc_text(literal.name)) is not None:
                literal.set("this", utc)
    return found


def cast_in_utc(value: exp.Expr, kind: str) -> exp.Expr:
    """What a cast to a type is of: the text in UTC, if it has an offset and the type is TIMESTAMP."""
    literal = value.unnest()
    utc = utc_text(literal.name) if kind == "TIMESTAMP" and is_text(literal) else None
    return value if utc is None else exp.Literal.string(utc)


def _zoned(node: exp.Expr) -> bool:
    literal = node.unnest() if isinstance(node, exp.Paren) else node
    return is_text(literal) and utc_text(literal.name) is not None


def _operands(node: exp.Expr) -> Iterator[list[exp.Expr]]:
    """Operands that take the same type, group by group."""
    if isinstance(node, exp.Cast | exp.DPipe | exp.Like | exp.ILike | exp.Literal | exp.Column):
        return
    if isinstance(node, exp.Anonymous) and node.name.lower() in _TEXTUAL:
        return
    if isinstance(node, exp.Case):
        branches = [b for b in node.args.get("ifs") or () if isinstance(b, exp.If)]
        yield [v for v in (node.args.get("this"), *(b.this for b in branches)) if v is not None]
        yield [v for v in (node.args.get("default"), *(b.args.get("true") for b in branches)) if v is not None]
        return
    yield list(node.iter_expressions())
