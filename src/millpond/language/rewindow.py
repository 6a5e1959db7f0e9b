"""ALTER QUERY … SET WINDOW: the text of a query with another window."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from millpond.language.registering import select_of
from millpond.language.syntax.nodes import WindowedCall, window_of
from millpond.language.syntax.statement_types import CreateQuery, Select
from millpond.language.syntax.tokens import tokens_of
from millpond.language.syntax.written_select import WrittenSelect
from millpond.support.errors import Refusal


def with_window(name: str, text: str, window: str) -> tuple[str, WrittenSelect]:
    """The text of query `name` with its one window exchanged for `window` (brackets included), and its SELECT.

    Raises: Refusal when the query has no window in brackets, or several; StatementError when the new one is wrong.

        >>> with_window("q", "SELECT count(*) FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE]", "[RANGE TUMBLING 1 HOUR]")[0]
        'SELECT count(*) FROM s [RANGE TUMBLING 1 HOUR]'
    """
    places = sorted(_places(select_of(text).tree))
    if len(places) != 1:
        what = f"has {len(places)} windows" if places else "has no window in brackets"
        raise Refusal(f"query '{name}' {what}; CREATE OR REPLACE QUERY gives it another text")
    start, end = places[0]
    changed = text[:start] + window + text[end:]
    return changed, select_of(changed)


def select_text(statement: CreateQuery | Select) -> str:
    """What a statement asks, as it is written: without CREATE QUERY and the options before and behind it.

    >>> [statement] = parse("CREATE QUERY q WITH (since = 'start') AS SELECT a FROM s WHERE a > 1;")
    >>> select_text(statement)
    'SELECT a FROM s WHERE a > 1'
    """
    if isinstance(statement, Select):
        return statement.text
    tokens = tokens_of(statement.text)
    depth, start, end = 0, 0, len(statement.text)
    for at, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if not start and depth == 0 and token.token_type == TokenType.ALIAS:
            start = tokens[at + 1].start
        elif start and depth == 0 and token.token_type == TokenType.WITH and tokens[at - 1].start >= start:
            end = token.start  # nothing else begins with WITH behind a SELECT
    return statement.text[start:end].strip()


def _places(select: exp.Query) -> list[tuple[int, int]]:
    clause = select.args.get("from_")
    around = window_of(clause.this) if clause is not None and isinstance(clause.this, exp.Subquery) else None
    if around is not None:
        return [around.place]  # the windows in parentheses say how long rows may be joined
    behind = [node.window if isinstance(node, WindowedCall) else window_of(node) for node in select.walk()]
    return [clause.place for clause in behind if clause is not None]
