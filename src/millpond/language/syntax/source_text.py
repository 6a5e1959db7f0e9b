"""Where in the text something stands, and errors that point there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from sqlglot import exp

from millpond.support.errors import StatementError
from millpond.support.spelling import nearest as nearest

#: A syntax node, a token's (start, end) in the script (end exclusive), or None for the whole statement.
Place: TypeAlias = "exp.Expr | tuple[int, int] | None"

_Node = TypeVar("_Node", bound=exp.Expr)


def token_span(node: exp.Expr) -> tuple[int, int] | None:
    """The characters of the node's own token; None where sqlglot has kept none."""
    kept = node.meta
    return (kept["start"], kept["end"] + 1) if kept.get("start") is not None else None


def placed(node: _Node, at: tuple[int, int] | None) -> _Node:
    """The node, whose token covers these characters from now on; None: it stays as it is."""
    if at is not None:
        node.meta.update(start=at[0], end=at[1] - 1)
    return node


def unplaced(tree: exp.Expr) -> None:
    """Forget where a tree stood, which is part of another text from now on."""
    for node in tree.walk():
        for key in ("start", "end", "line", "col"):
            node.meta.pop(key, None)


def around(spans: Iterable[tuple[int, int] | None]) -> tuple[int, int] | None:
    """From where the first of some places begins to where the last one ends; None without any."""
    known = [each for each in spans if each is not None]
    return (min(start for start, _ in known), max(end for _, end in known)) if known else None


def span(node: exp.Expr) -> tuple[int, int] | None:
    """The characters that a node and everything below it cover, as far as its tokens are known."""
    return around(map(token_span, node.walk()))


def own_span(node: exp.Expr) -> tuple[int, int] | None:
    """The characters of the node's own token (a function's name), else all that it covers."""
    return token_span(node) or span(node)


@dataclass(frozen=True)
class Source:
    """The text that positions point into. `shift` is taken from every position (0 for a whole script).

    whole: the tree that an error without a place points at; `start`, `end`: where, if its tokens are not known.
    """

    text: str
    shift: int = 0
    start: int = 0
    end: int | None = None
    whole: exp.Expr | None = None

    def error(self, message: str, place: Place = None, expected: str = "", like: str = "") -> StatementError:
        """A StatementError at `place`; `like` is the nearest known name."""
        where = place
        if isinstance(where, exp.Expr):
            node: exp.Expr | None = where
            where = None
            while node is not None and where is None:
                where, node = span(node), node.parent
        if where is None and self.whole is not None:
            where = span(self.whole)
        start, end = where if where is not None else (self.start, self.end)
        stop = None if end is None else end - self.shift
        return StatementError(message, self.text, start - self.shift, stop, expected, like)
