"""Queries over queries: FROM q, in a standing query, where q is another one.

    CREATE QUERY per_minute AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 1 MINUTE] GROUP BY k;
    CREATE QUERY busiest AS SELECT max(n) AS n FROM per_minute [RANGE TUMBLING 1 HOUR];
    CREATE QUERY busy AS SELECT k, n FROM per_minute WHERE n > 100;

What q answers stands in its place, as it is registered: in parentheses with a window behind them, which make a stream
without a name of it, or, where q is a relation, as a derived table. Without a window answers are a relation: those that
hold. Asked once, the answers that q has so far are the rows of that stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from millpond.language.resolve.from_items import of_answers
from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import suffix_of, window_of, with_suffix
from millpond.language.syntax.source_text import Source, placed, span, unplaced
from millpond.language.syntax.walks import tables_of
from millpond.language.syntax.window_clause import WindowClause
from millpond.language.syntax.written_select import WrittenSelect
from millpond.types import Column, InnerStream, QueryDefinition

#: The SELECT of a query's text.
SelectOf = Callable[[str], WrittenSelect]


def queries_read(written: WrittenSelect, schema: Schema) -> tuple[QueryDefinition, ...]:
    """The queries whose answers a SELECT names, each once."""
    found = {q.id: q for _, q in _named(written.tree, schema)}
    return tuple(found.values())


def over_answers(written: WrittenSelect, schema: Schema, select_of: SelectOf) -> WrittenSelect:
    """The SELECT of a standing query with what other queries answer in the places of their names.

    Arguments:
        select_of: the SELECT of a query's text.
    Raises: StatementError where answers cannot stand.
    """
    if next(_named(written.tree, schema), None) is None:
        return written
    tree, source = written.tree.copy(), written.source
    for table, query in list(_named(tree, schema)):
        if not query.text:
            message = f"'{query.name}' is a query, and an older version has not kept its text"
            raise source.error(message, table.this, of_answers(query.name))
        inner = over_answers(select_of(query.text), schema, select_of).tree
        _put(table, query, inner.copy(), source)
    return replace(written, tree=tree)


def answers_asked(written: WrittenSelect, schema: Schema) -> tuple[WrittenSelect, tuple[InnerStream, ...]]:
    """An ad hoc SELECT over the streams that the answers of queries are, where a window stands behind these; and these.

    Raises: StatementError where answers cannot stand.
    """
    if all(window_of(table) is None for table, _ in _named(written.tree, schema)):
        return written, ()
    tree, source = written.tree.copy(), written.source
    held: dict[int, InnerStream] = {}
    for table, query in list(_named(tree, schema)):
        if (clause := window_of(table)) is None:
            continue
        _check_held(table, query, source)
        _check_events(query, clause, source)
        each = held.setdefault(query.id, _held(query))
        alias = table.args.get("alias") or exp.TableAlias(this=exp.Identifier(this=query.name, quoted=True))
        table.set("this", placed(exp.Identifier(this=each.name, quoted=True), span(table.this)))
        table.set("alias", alias)
    return replace(written, tree=tree), tuple(held.values())


def _held(query: QueryDefinition) -> InnerStream:
    """The stream that the answers are which a query has so far."""
    columns = tuple(Column(o.name, o.type) for o in query.query.select)
    times = tuple(c for c in query.query.time_columns if c.name != "revision")
    name, end = f"answers of {query.name}", query.query.end_column
    return InnerStream(name, query.query, "forward", (*times, *columns), end, query.name)


def _named(tree: exp.Expr, schema: Schema) -> Iterator[tuple[exp.Table, QueryDefinition]]:
    for table in tables_of(tree):
        if isinstance(table.this, exp.Identifier) and not table.args.get("db"):
            found = schema.lookup(table.name)
            if isinstance(found, QueryDefinition):
                yield table, found


def _put(table: exp.Table, query: QueryDefinition, inner: exp.Query, source: Source) -> None:
    clause = window_of(table)
    _check_held(table, query, source)
    if clause is not None:
        _check_events(query, clause, source)
    unplaced(inner)  # places in the text of the other query are none in this one
    name = exp.Identifier(this=query.name, quoted=True)
    alias = table.args.get("alias") or exp.TableAlias(this=placed(name, span(table.this)))
    item = exp.Subquery(this=inner, alias=alias)
    if query.is_relation:
        table.replace(item)
        return
    _without_op(table)
    table.replace(item)
    with_suffix(item, window=clause if clause is not None else WindowClause("unbounded", (0, 0)))


def _check_held(table: exp.Table, query: QueryDefinition, source: Source) -> None:
    """Refuse what stands behind a query and asks for more, or less, than its answers."""
    suffix = suffix_of(table)
    if suffix.revisions or suffix.final or suffix.reduce:
        place = suffix.revisions or suffix.final or table
        message = f"windows and standing queries read the answers of '{query.name}' that hold"
        raise source.error(message, place, f"FROM {query.name}")


def _check_events(query: QueryDefinition, clause: WindowClause, source: Source) -> None:
    """Refuse a window behind a relation."""
    if query.is_relation:
        raise source.error(
            f"'{query.name}' is a relation, which has rows at every instant: a window stands behind events",
            clause.place, f"FROM {query.name} without a window, or a query with ISTREAM",
        )  # fmt: skip


def _without_op(table: exp.Table) -> None:
    """Leave out of `*` what says of an answer that comes as a row whether it is one, or takes one back."""
    select = table.parent_select
    if not isinstance(select, exp.Select):
        return
    name, alone = table.alias_or_name, not select.args.get("joins")
    for node in select.expressions:
        star = node.this if isinstance(node, exp.Column) else node
        of = node.table.lower() if isinstance(node, exp.Column) else ""
        if isinstance(star, exp.Star) and of in ("", name.lower()):
            op = exp.Identifier(this="op", quoted=True)
            item = exp.Identifier(this=name, quoted=True)
            left_out = op if alone or of else exp.Column(this=op, table=item)
            star.set("except_", [*(star.args.get("except_") or []), left_out])
