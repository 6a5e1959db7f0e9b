"""Nodes of syntax trees that sqlglot does not have: what stands behind FROM items and calls in this language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

from sqlglot import exp

from millpond.language.syntax.reduce_clause import ReduceClause
from millpond.language.syntax.source_text import placed, token_span
from millpond.language.syntax.window_clause import Place, WindowClause
from millpond.types import FunctionDefinition

_Item = TypeVar("_Item", exp.Table, exp.Subquery)


@dataclass(frozen=True)
class Suffix:
    """What stands behind a FROM item.

    tolerance: the window behind a table of an ASOF join, which says how old a row may be.
    revisions, final: where ALL REVISIONS and FINAL stand. union: the other streams of the union of which it is the
    first.
    """

    window: WindowClause | None = None
    tolerance: WindowClause | None = None
    revisions: Place | None = None
    final: Place | None = None
    reduce: ReduceClause | None = None
    union: tuple[exp.Table, ...] = ()


_NOTHING = Suffix()


class StatesCall(exp.Anonymous):
    """The states of a registered aggregate: its reference as a text, and the arguments."""


class FromItem(exp.Table):
    """A name in FROM with a suffix."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Table.arg_types, "suffix": True}


class FromParentheses(exp.Subquery):
    """Parentheses in FROM with a window behind them."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Subquery.arg_types, "suffix": True}


def suffix_of(item: exp.Expr) -> Suffix:
    """What stands behind a FROM item; nothing behind anything else."""
    found: Suffix = item.args.get("suffix", _NOTHING)
    return found


def window_of(item: exp.Expr) -> WindowClause | None:
    """The window behind a FROM item."""
    return suffix_of(item).window


def with_suffix(item: _Item, **changed: Any) -> _Item:
    """A FROM item in the place of another, which has a different suffix.

    Arguments:
        item: what it is made of, which is not to be used afterwards. changed: fields of its `Suffix`.
    """
    kind: Any = FromItem if isinstance(item, exp.Table) else FromParentheses
    made: _Item = kind(**item.args | {"suffix": replace(suffix_of(item), **changed)})
    made.comments = item.comments
    item.replace(placed(made, token_span(item)))
    return made


class WindowedCall(exp.Expression):
    """What a window stands behind: a call of an aggregate, where the text is right."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": True}

    @property
    def window(self) -> WindowClause:
        """The window."""
        found: WindowClause = self.args["window"]
        return found


class RegisteredCall(exp.Anonymous):
    """A call of a function that was registered."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Anonymous.arg_types, "definition": True}

    @property
    def definition(self) -> FunctionDefinition:
        """What was registered."""
        found: FunctionDefinition = self.args["definition"]
        return found


class WrittenInterval(exp.Interval):
    """An INTERVAL with its text, of which sqlglot keeps one number and one unit. whole: no unit follows the text."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Interval.arg_types, "text": True, "whole": True}


class CheckedCast(exp.Expression, exp.Func):
    """A cast whose type is the text that `column_types.type_sql` built, so that sqlglot does not reword the type."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "safe": False}


@dataclass(frozen=True)
class ToStream:
    """ISTREAM, DSTREAM, RSTREAM or PAIRS around a select list, and where it stands."""

    word: Literal["istream", "dstream", "rstream", "pairs"]
    place: Place


class SelectList(exp.Expression):
    """A select list as it is parsed, until it is part of its SELECT (`settled`).

    texts: what was written, item by item. to_stream: what stands around it.
    """

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "texts": True, "to_stream": False}


def settled(select: exp.Select) -> exp.Select:
    """A SELECT whose `SelectList` is taken apart: the items are its own again, beside what was written of them."""
    listed = select.expressions[0] if len(select.expressions) == 1 else None
    if isinstance(listed, SelectList):
        select.set("expressions", listed.expressions)
        select.set("texts", listed.args["texts"])
        select.set("to_stream", listed.args.get("to_stream"))
    return select


def to_stream_of(select: exp.Expr) -> ToStream | None:
    """What makes a stream of a SELECT."""
    found: ToStream | None = select.args.get("to_stream")
    return found


def texts_of(select: exp.Select) -> Sequence[str]:
    """What was written of each item of a SELECT; '' where it was not written so."""
    texts: tuple[str, ...] = select.args.get("texts") or ()
    return texts if len(texts) == len(select.expressions) else [""] * len(select.expressions)
