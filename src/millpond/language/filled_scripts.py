"""Parameters: `?`, `$1` and `$name` in a script stand for values, which become constants of it before it is parsed.

filled = with_parameters("SELECT * FROM s WHERE k = $key", {"key": "a"})
filled.text                      # SELECT * FROM s WHERE k = 'a'

A parameter is a value: where a name stands it is refused. Errors point into the script as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot.tokenizer_core import TokenType

from millpond.language.syntax.source_text import nearest
from millpond.language.syntax.tokens import tokens_of
from millpond.support.errors import StatementError, without_secrets
from millpond.support.sql_values import NoConstant, Parameters, are_parameters, literal, typed

#: Words behind which a name stands.
_BEFORE_NAMES = frozenset(
    ("FROM", "JOIN", "AS", "STREAM", "TABLE", "QUERY", "INVOKE", "EXPLAIN", "DESCRIBE", "COLUMN", "ADD", "BY", "SET",
     "PIVOT", "UNPIVOT", "USING")
)  # fmt: skip

#: The `$` of a parameter `$name`; those of texts between `$$` or `$tag$` are none.
_DOLLAR = re.compile(r"(?<![\w$])\$(?=\w+(?![\w$]))")

#: The tokens that parameters begin with; `?::` is one.
_MARKS = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.QDCOLON)

#: Words that end the list of FROM items.
_ENDS_FROM = frozenset(
    ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "SELECT", "UNION", "EXCEPT",
     "INTERSECT", "ON", "USING", "BEGIN", "WITH", "FETCH")
)  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """A parameter: where it stands, what it is called ('' for `?`), and whether a list is written as `(…)` there."""

    start: int
    end: int
    name: str
    is_name: bool
    behind_in: bool


@dataclass(frozen=True)
class Filled:
    """A script with constants in the places of its parameters.

    text: the script with them. script: as it was written. pieces: (start in `text`, end in `text`, start in `script`,
    end in `script`) of each.
    """

    text: str
    script: str
    pieces: tuple[tuple[int, int, int, int], ...] = ()

    def pointing(self, error: StatementError) -> StatementError:
        """An error about `text` as one about the script as it was written."""
        if not self.pieces or error.text != without_secrets(self.text):
            return error
        start, end = self._before(error.start), self._before(error.end - 1, last=True) + 1
        return StatementError(error.message, self.script, start, end, error.expected, error.nearest)

    def _before(self, at: int, last: bool = False) -> int:
        shift = 0
        for start, end, first, beyond in self.pieces:
            if at >= end:
                shift = beyond - end
            elif at >= start:
                return beyond - 1 if last else first
        return at + shift


def with_parameters(script: str, parameters: Parameters | None) -> Filled:
    """A script in which parameters have their values.

    Arguments:
        parameters: by name, for `$name`; or in order, for `?` and `$1`, `$2`, …; None: nothing is filled in.
    Raises: StatementError for a parameter without a value, a value that none is for or that is no SQL constant, and a
        parameter where a name stands.

    >>> with_parameters("SELECT ? + $2", [1, 2.5]).text
    Traceback (most recent call last):
    ...
    millpond.support.errors.StatementError: line 1, column 12: ? counts by itself, and this names a place
      SELECT ? + $2
                 ^^
    expected one of the two kinds
    >>> with_parameters("SELECT $a + 1, '$a'", {"a": -5}).text
    "SELECT (-5) + 1, '$a'"
    """
    if parameters is None:
        return Filled(script, script)
    if not are_parameters(parameters):
        what = (
            f"parameters are a mapping of names, or a list of values, and this is of type {type(parameters).__name__}"
        )
        raise StatementError(what, script, 0, None, 'sql("… WHERE a = ?", [5]) or sql("… WHERE a = $a", {"a": 5})')
    values = dict(parameters) if isinstance(parameters, Mapping) else _by_place(parameters)
    places = list(_places(script))
    counted = [place for place in places if not place.name]
    if counted and len(counted) < len(places):
        other = next(place for place in places if place.name)
        _fail(script, other, "? counts by itself, and this names a place", "one of the two kinds")
    unused = set(values)
    text, pieces, done = "", [], 0
    for number, place in enumerate(places, 1):
        name = place.name or str(number)
        if _touches(script, place):
            _fail(script, place, "a parameter touches a word, and would be read as a part of it", "a space between")
        if place.is_name:
            _fail(script, place, "a name stands here, and a parameter is a value", "the name itself, in the text")
        if name not in values:
            what = f"there is no value for ${name}" if place.name else f"there is no value for parameter {name}"
            _fail(script, place, what, f"one of {', '.join(values)}" if values else "", nearest(name, list(values)))
        unused.discard(name)
        text += script[done : place.start]
        start = len(text)
        text += _constant(script, place, values[name])
        pieces.append((start, len(text), place.start, place.end))
        done = place.end
    if unused:
        name = min(unused)
        known = ", ".join(dict.fromkeys(f"${p.name}" if p.name else "?" for p in places)) or "none"
        raise StatementError(f"there is no parameter '{name}' in the script: it has {known}", script)
    return Filled(text + script[done:], script, tuple(pieces))


def _by_place(values: Sequence[Any]) -> dict[str, Any]:
    return {str(number): value for number, value in enumerate(values, 1)}


def _touches(script: str, place: _Place) -> bool:
    """Whether a value in this place would run together with a word or a number beside it."""
    before, behind = script[: place.start][-1:], script[place.end :][:1]
    number = before == "." and script[: place.start - 1][-1:].isdigit()
    return number or any(c.isalnum() or c in "_$\"'" for c in (before, behind) if c)


def _places(script: str) -> Iterator[_Place]:
    """The parameters of a script."""
    # In `$a,$b` the tokenizer takes `$a,$` for the start of a quoted text, so that it sees `?a,?b`.
    tokens = tokens_of(_DOLLAR.sub("?", script))
    words = [token.text.upper() for token in tokens]
    from_lists: list[bool] = [False]
    for at, token in enumerate(tokens):
        kind, word = token.token_type, words[at]
        if kind == TokenType.L_PAREN:
            from_lists.append(False)
        elif kind == TokenType.R_PAREN and len(from_lists) > 1:
            from_lists.pop()
        elif kind not in (TokenType.STRING, TokenType.IDENTIFIER):
            from_lists[-1] = word in ("FROM", "JOIN") or (
                from_lists[-1] and word.split(" ")[0] not in _ENDS_FROM and word != ";"
            )
        before = words[at - 1].split(" ")[-1] if at else ""  # ORDER BY is one token
        if kind in _MARKS:
            found = re.match(r"\$(\w+)|\?", script[token.start :])
            if found is None:
                continue
            name, end = found[1] or "", token.start + found.end()
            behind = script[end : end + 1] if name else ""
            listed = before == "," and from_lists[-1]
            is_name = before in _BEFORE_NAMES or listed or "." in (before, behind)
            yield _Place(token.start, end, name, is_name, before == "IN")


def _constant(script: str, place: _Place, value: Any) -> str:
    try:
        found = typed(value)
        if place.behind_in and isinstance(found, list):
            return "(" + (", ".join(literal(each) for each in found) or "NULL") + ")"
        return literal(found)
    except NoConstant as fault:
        _fail(script, place, str(fault), "a number, a text, a time, a list or a mapping of such")


def _fail(script: str, place: _Place, message: str, expected: str = "", like: str = "") -> NoReturn:
    raise StatementError(message, script, place.start, place.end, expected, like)


__all__ = ["Filled", "Parameters", "with_parameters"]
