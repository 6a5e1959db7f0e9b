"""A script's text cut into tokens; what cannot be cut is an error with its place."""

from __future__ import annotations

import itertools
import re

import duckdb
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.syntax.dialect import tokenize
from millpond.support.errors import StatementError


def tokens_of(script: str) -> list[Token]:
    """The tokens of a script. Raises: StatementError where a text, a name or a comment is not closed."""
    try:
        tokens = tokenize(script)
    except TokenError:
        start, what = _unclosed(script)
        raise StatementError(f"{what} is not closed", script, start) from None
    except (ValueError, IndexError, RecursionError):
        raise StatementError("this cannot be read as SQL", script) from None
    for before, token in itertools.pairwise(tokens):
        # `0x1F` or `12abc` would be read as a number with an alias.
        glued = before.token_type == TokenType.NUMBER and token.start == before.end + 1
        if glued and token.token_type == TokenType.VAR and not re.fullmatch(r"[a-zµ]+", token.text, re.IGNORECASE):
            raise StatementError(f"'{before.text}{token.text}' is no number", script, before.start, token.end + 1)
    return tokens


def _unclosed(script: str) -> tuple[int, str]:
    """Where the text, name or comment starts that runs to the end of the script."""
    pattern = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(/\*|'|\")", re.DOTALL)
    for found in pattern.finditer(script):
        if found[1]:
            return found.start(), {"'": "the text", '"': "the name"}.get(found[1], "the comment")
    return 0, "a text"


def is_plain_name(name: str) -> bool:
    """Whether a name stands for itself without quotes, here and in DuckDB: in small letters, and no keyword.

    >>> is_plain_name("price"), is_plain_name("Price"), is_plain_name("order"), is_plain_name("a b")
    (True, False, False, False)
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        return False
    own = [token.token_type for token in tokenize(name)] == [TokenType.VAR]
    return own and [kind for _, kind in duckdb.tokenize(name)] == [duckdb.token_type.identifier]
