"""Unions of streams in FROM: `(a UNION ALL b)`, `a UNION b` (Li's spelling), nested; every row counts (a bag)."""

from __future__ import annotations

from sqlglot import exp

from millpond.language.inference.widening import is_wider
from millpond.language.resolve.expressions import column
from millpond.language.resolve.from_items import find
from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import CheckedCast, suffix_of, window_of
from millpond.language.syntax.source_text import Source
from millpond.language.syntax.window_clause import WORKS
from millpond.types import Feed, StreamDefinition

#: Streams that one union may have.
MOST = 16

#: The column that says whether a row comes or takes another back, in streams that do.
OP = "op"


def union_feeds(table: exp.Table, stream: StreamDefinition, schema: Schema, source: Source) -> tuple[Feed, ...]:
    """The streams of a union in FROM; empty for a single stream.

    Raises: StatementError where a member is no stream, or columns don't match by position.
    """
    members = suffix_of(table).union
    if not members:
        return ()
    if len(members) >= MOST:
        raise source.error(f"a union has at most {MOST} streams", members[MOST - 1])
    feeds = [_feed(stream, stream, table, source)]
    for member in members:
        if (clause := window_of(member)) is not None:
            raise source.error("the window of a union stands behind it", clause.place, f"FROM (a UNION ALL b) {WORKS}")
        other = find(schema, member, source)
        if not isinstance(other, StreamDefinition) or suffix_of(member).revisions:
            raise source.error(f"'{other.name}' is not a stream", member.this, "the name of a stream")
        if any(f.stream == other.id and f.name == other.name for f in feeds):
            raise source.error(f"stream {other.name} stands in the union twice", member.this)
        feeds.append(_feed(stream, other, member, source))
    return tuple(feeds)


def _feed(first: StreamDefinition, stream: StreamDefinition, table: exp.Table, source: Source) -> Feed:
    """A stream of the union, its columns checked against those of the first."""
    wanted, given = first.all_columns, stream.all_columns
    if len(wanted) != len(given):
        raise source.error(
            f"{stream.name} has {len(given)} columns and {first.name} has {len(wanted)}", table.this,
            "streams whose columns match by position",
        )  # fmt: skip
    for a, b in zip(wanted, given, strict=True):
        if b.type != a.type and not is_wider(b.type, a.type):
            raise source.error(
                f"column {b.name} of {stream.name} is {b.type}, and column {a.name} of {first.name} is {a.type}",
                table.this, "streams whose columns match by position, that with the widest types first",
            )  # fmt: skip
        if (a.name == first.options.time) != (b.name == stream.options.time):
            raise source.error(
                f"the event time of {first.name} is {first.options.time}, that of {stream.name} is "
                f"{stream.options.time}, which stands elsewhere",
                table.this, "streams whose event times stand in the same place",
            )  # fmt: skip
        if (a.name == OP and first.takes_back) != (b.name == OP and stream.takes_back):
            signed, plain = (first, stream) if first.takes_back else (stream, first)
            if plain.takes_back:
                what = f"the columns op of {first.name} and {stream.name} stand in different places"
                raise source.error(what, table.this, "streams whose columns match by position")
            raise source.error(
                f"{signed.name} takes rows back and {plain.name} does not: in a union both or none do", table.this,
                "revisions='retract' for all of them, or for none",
            )  # fmt: skip
    return Feed(stream.id, stream.name, tuple(c.name for c in given), stream.options.late == "drop")


def in_words_of(first: StreamDefinition, stream: StreamDefinition, node: exp.Expr) -> exp.Expr:
    """An expression over the columns of a union (those of its first stream), over the columns of one of its streams.

    A column of a narrower type is widened as it enters the union.
    """
    if stream.id == first.id and stream.name == first.name:
        return node
    own = {a.name: (a, b) for a, b in zip(first.all_columns, stream.all_columns, strict=True)}

    def renamed(each: exp.Expr) -> exp.Expr:
        if not isinstance(each, exp.Column) or each.name not in own:
            return each
        wanted, given = own[each.name]
        found = column(given.name)
        return found if given.type == wanted.type else CheckedCast(this=found, kind=wanted.type)

    return node.transform(renamed)
