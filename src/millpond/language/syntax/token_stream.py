"""What a clause is read from: the tokens of a parser, one after the other."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp
from sqlglot.tokenizer_core import Token


class TokenStream(Protocol):
    """The part of sqlglot's parsers that readers of clauses use.

    sql: the script. A token behind the last one is false, as sqlglot has it.
    """

    sql: str
    _curr: Token
    _next: Token
    _prev: Token

    def _advance(self, times: int = 1) -> None:
        """Go to the next token."""

    def _parse_bitwise(self) -> exp.Expr | None:
        """The expression at the current token, without comparisons and what binds weaker; None: there is none."""
