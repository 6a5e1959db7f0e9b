"""Where a word of a statement stands, by its token: text that merely holds the same letters is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot.errors import TokenError

from millpond.language.syntax.dialect import tokenize
from millpond.language.syntax.statement_types import Statement
from millpond.support.errors import Refusal, StatementError


@contextmanager
def pointing(statement: Statement) -> Iterator[None]:
    """Inside of it a `Refusal` becomes an error that points into the statement.

    Raises: StatementError where the refusal points: its option, its words, else what the statement is about.

    >>> from millpond.language import parse
    >>> (statement,) = parse("CREATE QUERY q WITH (every = '1 s') AS SELECT every FROM s")
    >>> with pointing(statement):
    ...     raise Refusal("'every' is for RSTREAM", option="every")
    Traceback (most recent call last):
    ...
    millpond.support.errors.StatementError: line 1, column 22: 'every' is for RSTREAM
      CREATE QUERY q WITH (every = '1 s') AS SELECT every FROM s
                           ^^^^^
    """
    try:
        yield
    except Refusal as refusal:
        start, end = _fault_place(refusal, statement) or statement.named or _first(statement)
        raise StatementError(refusal.args[0], statement.script, start, end, refusal.expected, refusal.nearest) from None


@contextmanager
def pointing_into(text: str) -> Iterator[None]:
    """As `pointing`, for a query whose options are no part of its text: what these are refused for stays a `Refusal`.

    Raises: StatementError, with the place in `text`; Refusal.
    """
    try:
        yield
    except Refusal as refusal:
        place = _fault_place(refusal, Statement(text=text, offset=0, script=text))
        if place is None:
            raise
        raise StatementError(refusal.args[0], text, *place, refusal.expected, refusal.nearest) from None


def _fault_place(refusal: Refusal, statement: Statement) -> tuple[int, int] | None:
    if refusal.option in statement.places:
        return statement.places[refusal.option]
    return next((p for word in refusal.words if (p := _place_of(statement, word)) is not None), None)


def _place_of(statement: Statement, word: str) -> tuple[int, int] | None:
    named = statement.named[0] if statement.named is not None else statement.offset
    return next(((a, b) for a, b, text in _words(statement) if a >= named and text == word.lower()), None)


def _first(statement: Statement) -> tuple[int, int]:
    """The first word of a statement."""
    return statement.offset, next((end for _, end, _ in _words(statement)), statement.offset + 1)


def _words(statement: Statement) -> list[tuple[int, int, str]]:
    try:
        tokens = tokenize(statement.text)
    except (TokenError, ValueError):
        return []
    return [(t.start + statement.offset, t.end + 1 + statement.offset, t.text.lower()) for t in tokens]
