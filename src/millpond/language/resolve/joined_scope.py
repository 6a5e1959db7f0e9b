"""Names inside a SELECT over several streams: the joined row has columns "0.column", "1.column", …"""

from __future__ import annotations

import re
from typing import NoReturn

from sqlglot import exp

from millpond.language.resolve.scope import RowScope
from millpond.language.resolve.select_list import SelectItem
from millpond.language.syntax.source_text import Source, nearest, placed, token_span
from millpond.support.errors import StatementError
from millpond.types import Column, StreamDefinition, StreamOptions

#: Streams that a row query can join: a side is a digit.
MOST_SIDES = 8
_JOINED = re.compile(r"[0-7]\.")


class JoinedScope(RowScope):
    """Names at the level of joined rows: columns of several streams, with the stream's name where they clash."""

    def __init__(self, source: Source, streams: tuple[StreamDefinition, ...], aliases: list[str]) -> None:
        self.streams, self.names_of_sides = streams, aliases
        self.seen = len(streams)
        columns = [Column(f"{n}.{c.name}", c.type) for n, s in enumerate(streams) for c in s.all_columns]
        clash = next((c.name for s in streams for c in s.all_columns if _JOINED.match(c.name)), None)
        if clash is not None:
            raise source.error(f"a stream with a column named '{clash}' cannot be joined")
        joined = StreamDefinition(" and ".join(aliases), tuple(columns), StreamOptions(time="0."))
        super().__init__(source, joined, joined.name)

    def resolved(self, node: exp.Expr, seen: int | None = None) -> exp.Expr:
        """A condition over columns of the joined row.

        Arguments:
            seen: how many of the streams are joined where it stands, as in ON; None: all.
        """
        self.seen = len(self.streams) if seen is None else seen
        try:
            return self.resolver.resolve(node)
        finally:
            self.seen = len(self.streams)

    def names(self) -> list[str]:
        """Names that could have been meant."""
        plain = [c.name for s in self.streams for c in s.all_columns]
        return list(dict.fromkeys([*plain, *(f"{a}.{n}" for a in self.names_of_sides for n in plain)]))

    def split(self, node: exp.Column) -> tuple[exp.Identifier, list[exp.Identifier]]:
        """The column of the joined row that is meant, and the fields of a struct behind it."""
        parts = [p for p in node.parts if isinstance(p, exp.Identifier)]
        first = parts[0]
        if len(parts) > 1 and (side := self.side(first.name)) is not None:
            self._check_seen(side, first)
            known = self.streams[side].column(parts[1].name)
            if known is None:
                like = nearest(parts[1].name, [c.name for c in self.streams[side].all_columns])
                raise self.source.error(f"there is no column '{parts[1].name}' in {first.name}", parts[1], like=like)
            return _identifier(f"{side}.{known.name}", parts[1]), parts[2:]
        found = [(n, c) for n, s in enumerate(self.streams) if (c := s.column(first.name)) is not None]
        found = [each for each in found if each[0] < self.seen] or found
        if found:
            self._check_seen(found[0][0], first)
        if len(found) > 1:
            choices = " or ".join(f"{self.names_of_sides[n]}.{column.name}" for n, column in found)
            raise self.source.error(f"column '{first.name}' is in {_several(len(found))} streams", first, choices)
        if found:
            return _identifier(f"{found[0][0]}.{found[0][1].name}", first), parts[1:]
        if len(parts) > 1 and first.name.lower() not in self.columns:
            like = nearest(first.name, [*self.names_of_sides, *self.names()])
            raise self.source.error(f"there is no stream or column '{first.name}' here", first, like=like)
        return first, parts[1:]

    def _check_seen(self, side: int, name: exp.Expr) -> None:
        """Refuse what is joined behind the ON that names it, as SQL does."""
        if side >= self.seen:
            later = self.names_of_sides[side]
            raise self.source.error(
                f"'{later}' is joined behind this ON, which is about the streams up to here", name,
                f"the condition in WHERE, or behind JOIN {later} ON",
            )  # fmt: skip

    def side(self, name: str) -> int | None:
        """Which stream a qualifier means: an alias, or the name of a stream that only one side reads."""
        low = name.lower()
        for listed in (self.names_of_sides, [s.name for s in self.streams]):
            found = [n for n, each in enumerate(listed) if each.lower() == low]
            if len(found) == 1:
                return found[0]
        return None

    def shown(self, name: str) -> str:
        """A column of the joined row as the user knows it."""
        return f"{self.names_of_sides[int(name[0])]}.{name[2:]}" if _JOINED.match(name) else name

    def item(self, item: SelectItem) -> SelectItem:
        """An item that is just a column gets the column's own name."""
        node = item.node
        if item.alias is not None or not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return item
        name, fields = self.split(node)
        if fields or not _JOINED.match(name.name):
            return item
        return SelectItem(node, exp.Identifier(this=name.name[2:], quoted=True))

    def star(self, item: SelectItem) -> list[SelectItem]:
        """`*`, `alias.*` and `* EXCLUDE (a)` as columns of the streams, in the order of FROM."""
        node = item.node
        star = node.this if isinstance(node, exp.Column) else node
        if not isinstance(star, exp.Star):
            return [item]
        sides = list(range(len(self.streams)))
        if isinstance(node, exp.Column):
            of = node.parts[0]
            side = self.side(of.name)
            if side is None:
                like = nearest(of.name, self.names_of_sides)
                raise self.source.error(f"there is no stream '{of.name}' here", of, like=like)
            sides = [side]
        for key, value in star.args.items():
            if value and key != "except_":
                raise self.source.error(f"* {key.upper()} is not available", star, "* EXCLUDE (column)")
        columns = [(n, c.name) for n in sides for c in self.streams[n].all_columns]
        left_out = {each.name.lower(): each for each in star.args.get("except_") or ()}
        for name, each in left_out.items():
            if all(name != known.lower() for _, known in columns):
                like = nearest(each.name, [known for _, known in columns])
                raise self.source.error(f"there is no column '{each.name}'", each, like=like)
        kept = [(n, name) for n, name in columns if name.lower() not in left_out]
        if not kept:
            raise self.source.error("no column is left", star)
        return [SelectItem(_joined(n, name), exp.Identifier(this=name, quoted=True)) for n, name in kept]

    def explain(self, error: StatementError) -> NoReturn:
        """Raise the error with columns named as the user knows them."""

        def known(text: str) -> str:
            for each in sorted(self.stream.columns, key=lambda c: -len(c.name)):
                text = text.replace(each.name, self.shown(each.name)) if each.name in text else text
            return text

        parts = (known(error.message), error.text, error.start, error.end, known(error.expected), known(error.nearest))
        raise StatementError(*parts) from None


def _several(count: int) -> str:
    return "both" if count == 2 else f"{count}"


def _joined(side: int, name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=f"{side}.{name}", quoted=True))


def _identifier(name: str, place: exp.Expr) -> exp.Identifier:
    return placed(exp.Identifier(this=name, quoted=True), token_span(place))


def side_of(name: str) -> int | None:
    """The side of a column of the joined row."""
    return int(name[0]) if _JOINED.match(name) else None


def own_columns(node: exp.Expr) -> exp.Expr:
    """A condition about one side, over that stream's own columns."""
    found = node.copy()
    for each in list(found.find_all(exp.Column)):
        each.this.set("this", each.name[2:])
    return found
