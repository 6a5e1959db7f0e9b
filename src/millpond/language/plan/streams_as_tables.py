"""Ad hoc SELECTs over streams as tables: whatever DuckDB can do, over what is kept of each stream.

Every SELECT in it that is about one stream alone, with a window or without, is asked of that stream by itself: it goes
to where the rows are, and only its answer comes. Of a stream that stands beside other things in FROM the rows are read:
those columns that the SELECT may mean, and those rows that its conditions on the stream let pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from millpond.language.check.beyond_scans import beyond_scans
from millpond.language.check.joins_written import check_conditions, check_joins
from millpond.language.check.relation_nodes import check_nodes
from millpond.language.plan.binding import SelectBinder
from millpond.language.plan.table_queries import TableQuery, finished
from millpond.language.resolve.aggregate_windows import windowed_calls
from millpond.language.resolve.expressions import column
from millpond.language.resolve.from_items import find, side_stream
from millpond.language.resolve.relation_refs import RelationRef, free_prefix, with_relations
from millpond.language.resolve.relation_values import with_values
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.select_list import with_names
from millpond.language.resolve.stream_items import StreamItems
from millpond.language.rewrite.scanned_conditions import scanned_conditions
from millpond.language.syntax.nodes import CheckedCast, suffix_of, window_of
from millpond.language.syntax.source_text import Source
from millpond.language.syntax.walks import tables_of
from millpond.support.errors import StatementError
from millpond.types import (
    NUMBER,
    Column,
    Expression,
    GroupScan,
    Output,
    RowScan,
    RowWindowQuery,
    ScanQuery,
    SessionQuery,
    StreamDefinition,
    WindowedQuery,
    WindowQuery,
    all_of,
)

_WINDOW_COLUMNS = (Column("window_start", "TIMESTAMP"), Column("window_end", "TIMESTAMP"))


def bind_over_streams(select: exp.Expr, text: str, source: Source, schema: Schema) -> TableQuery:
    """Bind an ad hoc SELECT in which streams are tables.

    Raises:
        StatementError: a name that does not exist, a function or syntax that is not available, a wrong type.
    """
    return _Binder(select, text, source, schema).bind()


class _Binder:
    def __init__(self, select: exp.Expr, text: str, source: Source, schema: Schema) -> None:
        self.select, self.text, self.source, self.schema = select, text, source, schema
        self.prefix = free_prefix(select)
        self.asked: dict[str, WindowedQuery | ScanQuery] = {}
        self.refs: list[RelationRef] = []

    def bind(self) -> TableQuery:
        """The bound SELECT."""
        tree = with_names(self.asked_apart(self.select.copy()))
        check_nodes(tree, self.source)
        check_joins(tree, self.source, True)
        check_conditions(tree, self.source)
        items = StreamItems(tree, frozenset(), False, self.source, self.schema)

        def stream_item(table: exp.Table, stream: StreamDefinition, alias: str) -> RelationRef:
            self.check_plain(table)
            return items.bind(table, stream, alias)

        tree, refs = with_relations(tree, self.prefix, self.source, self.schema, stream_item, self.refs)
        tree = with_values(tree, refs, self.source)
        conditions = scanned_conditions(tree, items.inputs)
        for alias, each in items.inputs.items():
            outputs = tuple(Output(c.name, Expression.column_of(c.name, c.type)) for c in each.columns)
            where = all_of(conditions.get(alias, ()))
            scan = RowScan(stream=each.stream.name, select=outputs, where=where, feeds=each.feeds, text=self.text)
            self.asked[alias] = scan
        tree = _typed(tree, {ref.alias: ref.columns for ref in refs if ref.kind == "stream"})
        return replace(finished(tree, refs, self.select, self.text, self.source), asked=self.asked)

    def asked_apart(self, tree: exp.Expr) -> exp.Expr:
        """The tree with the SELECTs that are about one stream replaced by the relations that their answers are."""
        for inner in list(self.single(tree)):
            windows = _has_window(inner, self.text)
            if not windows and (inner is tree or self.beyond(inner)):
                continue
            try:
                bound = SelectBinder(inner, self.text, self.source, self.schema, False).bind()
            except StatementError:
                if windows:
                    raise
                continue  # it may mean columns of the SELECT around it
            alias = f"{self.prefix}{len(self.refs)}"
            shown = _shown(bound)
            self.refs.append(RelationRef(alias, "stream", bound.stream, shown))
            self.asked[alias] = bound
            table = exp.Table(this=exp.Identifier(this=alias, quoted=True))
            fields: list[exp.Expr] = [column(c.name) for c in shown]
            replaced = exp.Select(expressions=fields, from_=exp.From(this=table))
            if inner is tree:
                return replaced
            inner.replace(replaced)
        return tree

    def single(self, tree: exp.Expr) -> Iterator[exp.Select]:
        """The SELECTs of one stream, and of nothing else."""
        named = {id(table) for table in tables_of(tree)}
        for each in tree.find_all(exp.Select):
            clause = each.args.get("from_")
            item = clause.this if clause is not None else None
            if not isinstance(item, exp.Table) or item.args.get("pivots") or len(list(each.find_all(exp.Query))) > 1:
                continue
            if id(item) not in named or side_stream(item, self.source) is not None:
                continue
            if isinstance(find(self.schema, item, self.source), StreamDefinition):
                yield each

    def beyond(self, select: exp.Select) -> bool:
        """Whether a SELECT of one stream needs its rows as a table."""
        stream = find(self.schema, select.args["from_"].this, self.source)
        return beyond_scans(select, {c.name.lower() for c in stream.columns}) is not None

    def check_plain(self, table: exp.Table) -> None:
        """Refuse what stands behind a stream and asks for more than its rows."""
        suffix = suffix_of(table)
        if suffix.window is not None:
            raise self.source.error(
                f"the window behind '{table.name}' has an answer of its own: it stands in a SELECT of its own", table,
                f"FROM (SELECT … FROM {table.name} [RANGE … SLIDE …] GROUP BY …) AS w JOIN …",
            )  # fmt: skip
        if suffix.reduce is not None:
            raise self.source.error(
                f"REDUCE stands in a SELECT that is about {table.name} alone", suffix.reduce.place,
                f"FROM (SELECT … FROM {table.name} REDUCE …) AS x JOIN …",
            )  # fmt: skip


def _typed(tree: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> exp.Expr:
    """The tree with what is read of streams as derived tables of columns with their declared types."""
    for table in list(tree.find_all(exp.Table)):
        if table.name not in columns:
            continue
        fields: list[exp.Expr] = [
            exp.Alias(
                this=CheckedCast(this=column(c.name), kind=c.type), alias=exp.Identifier(this=c.name, quoted=True)
            )
            for c in columns[table.name]
        ]
        read = exp.Table(this=exp.Identifier(this=table.name, quoted=True))
        inner = exp.Select(expressions=fields, from_=exp.From(this=read))
        name = table.args.get("alias") or exp.TableAlias(this=exp.Identifier(this=table.name, quoted=True))
        table.replace(exp.Subquery(this=inner, alias=name, pivots=table.args.get("pivots")))
    return tree


def _has_window(select: exp.Select, text: str) -> bool:
    items = [t for t in select.find_all(exp.Table) if window_of(t) is not None or suffix_of(t).reduce is not None]
    return bool(items) or bool(windowed_calls(select, text))


def _shown(bound: WindowedQuery | ScanQuery) -> tuple[Column, ...]:
    """The columns of the answer of a query over one stream, as an ad hoc SELECT sees them."""
    own = tuple(Column(o.name, o.type) for o in bound.select)
    match bound:
        case RowScan() | GroupScan():
            return own
        case RowWindowQuery():
            return (*_WINDOW_COLUMNS, NUMBER, *own)
        case WindowQuery() | SessionQuery():
            return (*_WINDOW_COLUMNS, *own)
        case _:
            assert_never(bound)
