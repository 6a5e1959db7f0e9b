"""Where a word of a statement stands, by its token: text that merely holds the same letters is none."""

from __future__ import annotations

from sqlglot.errors import TokenError

from millpond.language.dialect import tokenize
from millpond.language.statements import Statement


def token_place(statement: Statement, word: str) -> tuple[int, int]:
    """Start and end of a name, a text or a keyword in a statement's script, case aside.

    The name of what the statement is about goes first, then what stands behind it. A word that does not stand there
    (it was made from something else): the first word of the statement.

    >>> from millpond.language import parse
    >>> (statement,) = parse("CREATE STREAM r (ts TIMESTAMP) WITH (progress = 'ts')")
    >>> token_place(statement, "r"), token_place(statement, "ts")
    ((14, 15), (17, 19))
    """
    try:
        tokens = tokenize(statement.text)
    except (TokenError, ValueError):
        tokens = []
    places = [(t.start + statement.offset, t.end + 1 + statement.offset, t.text.lower()) for t in tokens]
    named = statement.named[0] if statement.named is not None else statement.offset
    for start, end, text in places:
        if start >= named and text == word.lower():
            return start, end
    first = places[0][1] if places else statement.offset + 1
    return statement.offset, first
