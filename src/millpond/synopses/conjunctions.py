"""Conditions cut into what is cheap and what is not: conjuncts that call registered functions are filters of their own.

Text in, text out: conditions are DuckDB SQL that the engine rendered, with every identifier quoted.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from millpond.functions import references_in

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[A-Za-z_]\w*|\S""")
_COLUMN = re.compile(r'"(?:[^"]|"")*"')
_DECIDES = {"AND", "OR", "CASE", "WHEN", "IF", "COALESCE"}

#: The name of the result of a call in what is left of its conjunct.
RESULT = '"_u0"'


@dataclass(frozen=True)
class Filter:
    """A conjunct that calls a registered function.

    sql: the whole. reference, arguments: of the call that is to be made for every row, with its arguments as SQL; None
    where that cannot be told from the text, or rests on conditions inside of the conjunct. rest: the conjunct over the
    result of that call; None when the result is the conjunct.
    """

    sql: str
    reference: str | None = None
    arguments: tuple[str, ...] = ()
    rest: str | None = None

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, without quotes."""
        return columns_in(self.sql)


@dataclass(frozen=True)
class Conjunction:
    """A condition. cheap: the conjuncts without registered functions, as one; None without any. filters: the others, in
    the order in which they are written, equal ones once."""

    cheap: str | None
    filters: tuple[Filter, ...]


@functools.lru_cache(maxsize=1024)
def conjunction_of(where: str | None) -> Conjunction | None:
    """A condition cut into its parts; None without registered functions.

    >>> conjunction_of('("a" > 1) AND (udf__f__00000000_1("b", \\'x\\') = TRUE)')
    ... # doctest: +NORMALIZE_WHITESPACE
    Conjunction(cheap='("a" > 1)', filters=(Filter(sql='udf__f__00000000_1("b", \\'x\\') = TRUE',
        reference='udf__f__00000000_1', arguments=('"b"', "'x'"), rest=None),))
    """
    if not where or not references_in(where):
        return None
    parts = list(dict.fromkeys(split(where)))
    cheap = [p for p in parts if not references_in(p)]
    filters = tuple(_filter(p) for p in parts if references_in(p))
    return Conjunction(" AND ".join(f"({p})" for p in cheap) or None, filters)


def columns_in(sql: str) -> tuple[str, ...]:
    """The names in double quotes, each once."""
    found = [t for t, _, _ in _tokens(sql) if t[0] == '"']
    return tuple(dict.fromkeys(t[1:-1].replace('""', '"') for t in found))


def _tokens(sql: str) -> Iterator[tuple[str, int, int]]:
    """(token, start, depth) of SQL; CASE … END is as deep as parentheses."""
    depth = 0
    for found in _TOKEN.finditer(sql):
        token = found[0]
        if token in ")]}" or token.upper() == "END":
            depth -= 1
        yield token, found.start(), depth
        if token in "([{" or token.upper() == "CASE":
            depth += 1


def split(sql: str) -> list[str]:
    """The conjuncts of a condition.

    >>> split('("a" BETWEEN 1 AND 2 AND ("b" OR "c")) AND CASE WHEN "a" AND "b" THEN 1 END = 1')
    ['"a" BETWEEN 1 AND 2', '"b" OR "c"', 'CASE WHEN "a" AND "b" THEN 1 END = 1']
    """
    sql = _bare(sql)
    cuts: list[int] = []
    between = 0
    for token, start, depth in _tokens(sql):
        word = token.upper() if depth == 0 else ""
        if word == "OR":
            return [sql]
        if word == "BETWEEN":
            between += 1
        elif word == "AND":
            if between:
                between -= 1
            else:
                cuts.append(start)
    if not cuts:
        return [sql]
    edges = zip([0, *(c + 3 for c in cuts)], [*cuts, len(sql)], strict=True)
    return [part for start, end in edges for part in split(sql[start:end])]


def _bare(sql: str) -> str:
    """The condition without parentheses around all of it."""
    sql = sql.strip()
    while sql.startswith("("):
        close = next((s for t, s, d in _tokens(sql) if t == ")" and d == 0), None)
        if close != len(sql) - 1:
            break
        sql = sql[1:-1].strip()
    return sql


def _filter(sql: str) -> Filter:
    """A conjunct with the one call in it that is made for every row, if there is one."""
    tokens = list(_tokens(sql))
    calls = [n for n, (t, _, _) in enumerate(tokens) if references_in(t) and t[0] not in "\"'"]
    outer = [n for n in calls if not any(_inside(tokens, n, other) for other in calls if other != n)]
    if len(outer) != 1:
        return Filter(sql)
    at = outer[0]
    reference, start, depth = tokens[at]
    close = next(n for n in range(at + 2, len(tokens)) if tokens[n][0] == ")" and tokens[n][2] == depth)
    around = [t.upper() for n, (t, _, _) in enumerate(tokens) if n < at or n > close]
    opened = [n for n in range(at) if tokens[n][0] == "(" and tokens[n][2] < depth and not _closed(tokens, n, at)]
    if _DECIDES & set(around) or any(n and re.fullmatch(r"[A-Za-z_]\w*", tokens[n - 1][0]) for n in opened):
        return Filter(sql)
    end = tokens[close][1] + 1
    commas = [s for t, s, d in tokens[at + 2 : close] if t == "," and d == depth + 1]
    edges = zip([tokens[at + 1][1] + 1, *(c + 1 for c in commas)], [*commas, end - 1], strict=True)
    arguments = tuple(sql[a:b].strip() for a, b in edges)
    rest = f"{sql[:start]}{RESULT}{sql[end:]}"
    plain = rest in (RESULT, f"{RESULT} = TRUE", f"TRUE = {RESULT}")
    return Filter(sql, reference, arguments, None if plain else rest)


def _inside(tokens: list[tuple[str, int, int]], place: int, call: int) -> bool:
    """Whether a token stands in the arguments of a call."""
    depth = tokens[call][2]
    close = next(n for n in range(call + 2, len(tokens)) if tokens[n][0] == ")" and tokens[n][2] == depth)
    return call < place < close


def _closed(tokens: list[tuple[str, int, int]], opened: int, before: int) -> bool:
    depth = tokens[opened][2]
    return any(tokens[n][0] == ")" and tokens[n][2] == depth for n in range(opened + 1, before))


def is_column(sql: str) -> bool:
    """Whether SQL is the name of a column."""
    return _COLUMN.fullmatch(sql) is not None


def text_of(sql: str) -> str | None:
    """The value of a text literal; None for anything else.

    >>> text_of("'it''s'"), text_of('"a"')
    ("it's", None)
    """
    return sql[1:-1].replace("''", "'") if re.fullmatch(r"'(?:[^']|'')*'", sql) else None
