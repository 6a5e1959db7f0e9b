"""Windows over another column than the event time are over the stream that has the same rows by that column.

    CREATE STREAM by_end AS SELECT * FROM flow WITH (event_time='ended', lateness='30 minutes')

    FROM flow [RANGE 5 MINUTES SLIDE 1 MINUTE ON ended]  is  FROM by_end [RANGE 5 MINUTES SLIDE 1 MINUTE ON ended] flow

A stream may progress on several attributes (Li 2008, section 3.1), each with a bound of its own: that of such a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from millpond.language.resolve.aggregate_windows import windowed_calls
from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import suffix_of, window_of, with_suffix
from millpond.language.syntax.source_text import placed, token_span
from millpond.language.syntax.written_select import WrittenSelect
from millpond.types import StreamDefinition


def over_other_times(written: WrittenSelect, schema: Schema) -> WrittenSelect:
    """The SELECT over the streams that its windows run by; binding refuses a column that none goes by."""
    if next(_windows(written.tree, written.text), None) is None:
        return written
    tree = written.tree.copy()
    changed = False
    for item, attribute in list(_windows(tree, written.text)):
        members = (item, *suffix_of(item).union)
        others = [(m, other) for m in members if (other := _by_time(schema, m.name, attribute)) is not None]
        if len(others) < len(members) or all(m.name.lower() == other.name.lower() for m, other in others):
            continue
        changed = True
        if not item.alias:
            item.set("alias", exp.TableAlias(this=exp.Identifier(this=item.name, quoted=True)))
        renamed = [_renamed(member, other.name) for member, other in others]
        item.set("this", renamed[0].this)
        with_suffix(item, union=tuple(renamed[1:]))
    return replace(written, tree=tree) if changed else written


def _windows(tree: exp.Expr, text: str) -> Iterator[tuple[exp.Table, str]]:
    """Streams in FROM, and the columns that are named in windows over them."""
    for item in tree.find_all(exp.Table):
        clause = window_of(item)
        if clause is not None and clause.attribute and isinstance(item.this, exp.Identifier):
            yield item, clause.attribute
    for call in windowed_calls(tree, text):
        select = call.find_ancestor(exp.Select)
        first = None if select is None else select.args.get("from_")
        if call.window.attribute and first is not None and isinstance(first.this, exp.Table):
            yield first.this, call.window.attribute


def _by_time(schema: Schema, name: str, attribute: str) -> StreamDefinition | None:
    """The stream of that name, or the one of its rows that goes by a column; None: there is none."""
    stream = schema.lookup(name)
    if not isinstance(stream, StreamDefinition):
        return None
    return stream if attribute.lower() == stream.options.time.lower() else schema.by_time(stream, attribute)


def _renamed(table: exp.Table, name: str) -> exp.Table:
    """A stream in FROM under another name, at the same place."""
    made = table.copy()
    made.set("this", placed(exp.Identifier(this=name, quoted=True), token_span(table.this)))
    return made
