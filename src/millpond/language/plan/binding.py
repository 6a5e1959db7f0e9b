"""Names and types: a SELECT over a stream into a bound query."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any

from sqlglot import exp

from millpond.language.check.beyond_scans import beyond_scans
from millpond.language.check.impossible import check_constants
from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.inference.types_of import Item, Typer
from millpond.language.plan.table_lookups import LookupScope, allowed_clauses, bound_lookup, joined_tables
from millpond.language.plan.table_queries import TableQuery, bind_relation
from millpond.language.resolve.aggregate_windows import OVER_JOINS, CallWindows, refuse_windowed_calls, windowed_calls
from millpond.language.resolve.expressions import check_arguments, check_known, has_aggregate
from millpond.language.resolve.from_items import bound_window, find, of_answers, side_stream
from millpond.language.resolve.grouping import GroupScope
from millpond.language.resolve.reductions_bound import bound_reduction
from millpond.language.resolve.registered_calls import with_registered
from millpond.language.resolve.relation_refs import streams_in
from millpond.language.resolve.row_window_clauses import bound_row_window, bound_session
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.scope import RowScope
from millpond.language.resolve.select_list import (
    SelectItem,
    constant,
    expand_stars,
    names_of,
    order_terms,
    select_items,
)
from millpond.language.resolve.stream_unions import union_feeds
from millpond.language.rewrite.corrections import over_corrections
from millpond.language.rewrite.fidelity_columns import with_fidelity
from millpond.language.rewrite.grouping_sets import with_sets
from millpond.language.rewrite.top_rows import per_of
from millpond.language.syntax.flat_chains import SHALLOW
from millpond.language.syntax.nodes import suffix_of, window_of, with_suffix
from millpond.language.syntax.source_text import Source
from millpond.language.syntax.window_clause import WORKS
from millpond.language.syntax.written_select import WrittenSelect
from millpond.types import (
    EXACT,
    Expression,
    GroupScan,
    Lookup,
    Output,
    QueryDefinition,
    Reduction,
    RowScan,
    RowWindow,
    RowWindowQuery,
    ScanQuery,
    SessionQuery,
    SessionWindow,
    StreamDefinition,
    Window,
    WindowedQuery,
    WindowQuery,
    all_of,
)

AnyWindow = Window | RowWindow | SessionWindow

_CLAUSES = (
    "expressions",
    "from_",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
    "texts",
    "to_stream",
)
_LATER = {
    "joins": "windows that say when they end (SLIDE, TUMBLING, …) do not join streams",
    "laterals": "LATERAL is not available over a stream",
    "with_": "WITH is not available over a stream yet",
    "qualify": "QUALIFY is for the answers of a query, and for windows",
    "windows": "functions with OVER are not available over a stream",
    "sample": "samples are not available",
    "into": "SELECT INTO is not available",
    "locks": "locks are not available",
}


def bind_query(written: WrittenSelect, schema: Schema) -> WindowedQuery:
    """Bind a SELECT over one stream with a window in brackets.

    Arguments:
        written: of a `CreateQuery`, `Select` or `Explain` statement. schema: what names mean.

    Returns:
        The query with names and types resolved.

    Raises:
        StatementError: with the place in the script.
    """
    source = written.source
    try:
        bound = SelectBinder(
            with_registered(written.tree, schema, merging=True), written.text, source, schema, True
        ).bind()
    except RecursionError:
        raise source.error("the query is nested too deeply", None, SHALLOW) from None
    assert isinstance(bound, WindowedQuery)  # see `check_shape`
    return bound


def bind_select(written: WrittenSelect, schema: Schema) -> WindowedQuery | ScanQuery | TableQuery | None:
    """Bind an ad hoc SELECT: over one stream, or over any number of answers, tables and side streams.

    Arguments and errors as `bind_query`.

    Returns:
        A `TableQuery` when FROM names no stream; None where streams are needed as tables.
    """
    source, text = written.source, written.text
    select = with_registered(written.tree, schema)
    try:
        streams = streams_in(select, schema, source)
        if not streams:
            refuse_windowed_calls(select, text, source)
            return bind_relation(select, text, source, schema)
        columns = {c.name.lower() for c in find(schema, streams[0], source).columns}
        if not answered_by_scan(select, text, columns):
            return None
        return SelectBinder(select, text, source, schema, False).bind()
    except RecursionError:
        raise source.error("the query is nested too deeply", None, SHALLOW) from None


def answered_by_scan(select: exp.Expr, text: str, columns: Set[str]) -> bool:
    """Whether a SELECT over streams is about one of them, and asks nothing that needs its rows as a table.

    Arguments:
        columns: names of the stream's columns, in small letters.
    """
    if not isinstance(select, exp.Select) or len(list(select.find_all(exp.Query))) > 1 or select.args.get("with_"):
        return False
    windowed = any(window_of(t) is not None for t in select.find_all(exp.Table)) or bool(windowed_calls(select, text))
    return windowed or beyond_scans(select, columns) is None


class SelectBinder:
    """Binds one SELECT over one stream."""

    calls: CallWindows | None = None

    def __init__(self, select: exp.Expr, text: str, source: Source, schema: Schema, standing: bool) -> None:
        if not isinstance(select, exp.Select):
            raise source.error("a query over a stream is one SELECT", select)
        self.select, self.sets = with_sets(select, source)
        self.text, self.source, self.schema, self.standing = text, source, schema, standing

    def bind(self) -> WindowedQuery | ScanQuery:
        """The bound query."""
        joined = joined_tables(self.select, self.schema, self.source)
        self.check_clauses(allowed_clauses(self.select, joined, self.source))
        table, stream = self.stream() if joined is None else self.named(joined.stream, True)
        self.calls = CallWindows(self.select, self.text, window_of(table), stream, self.source)
        if self.calls.common is not None:
            table = with_suffix(table.copy(), window=self.calls.common)
        ending = bound_window(table, stream, self.source, self.schema) or self.calls.shared
        window: AnyWindow | None = ending or bound_row_window(table, stream, self.source)
        feeds = union_feeds(table, stream, self.schema, self.source)
        alias = table.alias or stream.name
        rows = (
            LookupScope(self.source, stream, alias, joined.tables) if joined else RowScope(self.source, stream, alias)
        )
        window = window or bound_session(table, rows, self.source)
        bound = self.bind_rows(table, window, rows)
        if joined is not None and isinstance(rows, LookupScope):
            one = isinstance(window, RowWindow)
            lookup = bound_lookup(joined, rows, stream, self.select, self.schema, one)
            bound = replace(bound, lookup=lookup, where=_where_met(lookup, bound.where) if one else bound.where)
        bound = replace(bound, feeds=feeds) if feeds else bound
        if not isinstance(bound, ScanQuery):
            bound = over_corrections(bound, table, stream, self.source)
        reduction = bound_reduction(table, self.schema, self.source)
        if reduction is not None and stream.takes_back:
            raise self.source.error(f"REDUCE is not available over {stream.name}, whose rows take others back", table)
        return bound if reduction is None else self.reduced(replace(bound, reduce=reduction), reduction)

    def reduced(self, query: WindowedQuery | ScanQuery, reduction: Reduction) -> WindowedQuery | ScanQuery:
        """A query over less than all rows, with columns that say how good its answer is."""
        if not isinstance(query, RowScan) and query.distinct:
            raise self.source.error(
                "DISTINCT over groups does not go with REDUCE: estimates differ where values agree",
                self.select.args.get("distinct"),
            )
        bound = with_fidelity(query, reduction)
        measured = () if isinstance(bound, RowScan) else bound.aggregates
        if reduction.function == "error" and not any(a.measure == "low" for a in measured):
            raise self.source.error(
                "error() is about the interval of a count, sum or avg, and none of these is a column of the answer",
                None, "a column such as count(*) or avg(x), or REDUCE sample(0.4)",
            )  # fmt: skip
        clash = next((o.name for o in query.select if o.name.lower() == EXACT), None)
        if reduction.samples and clash is not None:
            raise self.source.error(f"a reduced answer has a column {EXACT} of its own", None, "another name with AS")
        return bound

    def check_clauses(self, allowed: tuple[str, ...] = ()) -> None:
        """Refuse clauses that have no meaning over a stream, but for those of `allowed`."""
        select, source = self.select, self.source
        for key, message in _LATER.items():
            if key not in allowed and (value := select.args.get(key)):
                expected = OVER_JOINS if key == "joins" else ""
                raise source.error(message, value[0] if isinstance(value, list) else value, expected)
        check_arguments(select, (*_CLAUSES, *allowed), source)
        if (distinct := select.args.get("distinct")) and distinct.args.get("on"):
            raise source.error("DISTINCT ON is not available over a stream", distinct)

    def bind_rows(self, table: exp.Table, window: AnyWindow | None, rows: RowScope) -> WindowedQuery | ScanQuery:
        """All but FROM, over the rows of a stream (or of two that are joined)."""
        select, source, stream = self.select, self.source, rows.stream
        written = select_items(select, source)
        rows.aliases = {i.alias.name.lower(): i.node for i in reversed(written) if i.alias is not None}
        grouped = bool(select.args.get("group")) or any(map(has_aggregate, self.grouped_parts(written)))
        grouped = grouped or (isinstance(window, RowWindow | SessionWindow) and bool(window.partition))
        self.check_shape(table, window, grouped)
        typer = Typer(source, stream.all_columns, rows.text)
        where = self.where(rows)
        self.check_constants(rows)
        written = self.items(written, rows, grouped)
        window_of = self.calls.window_of if self.calls is not None else lambda node: (None, None)
        groups = GroupScope(rows, window is not None, window_of) if grouped else None
        if groups is not None and self.sets:
            groups.indices = self.grouping_sets(window)
        if groups is not None and isinstance(window, RowWindow):
            groups.number_windows()
        if groups is not None and isinstance(window, RowWindow | SessionWindow):
            groups.partition_by(window.partition)
        return self.finish(stream, window, where, rows, typer, written, groups)

    def grouping_sets(self, window: AnyWindow | None) -> tuple[frozenset[int], ...]:
        """The grouping sets, where windows have them."""
        if not isinstance(window, Window | SessionWindow):
            message = "GROUPING SETS, ROLLUP and CUBE are for windows that end at instants, sessions, and relations"
            raise self.source.error(message, self.select.args["group"], WORKS)
        return self.sets

    def items(self, written: list[SelectItem], rows: RowScope, grouped: bool) -> list[SelectItem]:
        """The SELECT list as it is bound."""
        return [rows.item(i) for i in written] if isinstance(rows, LookupScope) else written

    def stream(self) -> tuple[exp.Table, StreamDefinition]:
        """The FROM item."""
        clause = self.select.args.get("from_")
        if clause is None:
            raise self.source.error("a query needs a stream", None, "FROM stream [RANGE …]")
        return self.named(clause.this)

    def named(self, table: exp.Expr, with_tables: bool = False) -> tuple[exp.Table, StreamDefinition]:
        """The stream that a FROM item names. with_tables: what it is joined with are tables."""
        source = self.source
        if not isinstance(table, exp.Table):
            raise source.error("subqueries in FROM are not available over streams yet", table, "the name of a stream")
        check_arguments(table, ("this", "alias", "db", "catalog", "suffix"), source)
        if not with_tables and self.select.args.get("joins") and suffix_of(table).union:
            raise source.error("unions of streams cannot be joined yet", table, "one union with a window behind it")
        alias = table.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise source.error("names for the columns of a stream are not available", alias)
        if side_stream(table, source) is not None:
            raise source.error("late(…) and dead(…) can only be read by an ad hoc SELECT", table)
        found = find(self.schema, table, source)
        if not isinstance(found, StreamDefinition):
            if isinstance(found, QueryDefinition):
                what = f"'{found.name}' is a query, and a standing query reads streams"
                raise source.error(what, table.this, of_answers(found.name))
            raise source.error(
                f"'{found.name}' is a table, and streams without a window behind them are joined with streams only",
                table.this,
                "the name of a stream; or a window behind each stream, such as [RANGE 1 HOUR], which makes relations",
            )
        if revisions := suffix_of(table).revisions:
            raise source.error("ALL REVISIONS is for the answers of a query, and this is a stream", revisions)
        if final := suffix_of(table).final:
            raise source.error("FINAL is for the answers of a query, and this is a stream", final)
        return table, found

    def grouped_parts(self, items: list[SelectItem]) -> Iterator[exp.Expr]:
        yield from (i.node for i in items)
        for key in ("having", "order"):
            if clause := self.select.args.get(key):
                yield clause

    def check_shape(self, table: exp.Table, window: AnyWindow | None, grouped: bool) -> None:
        """Refuse what has no meaning yet: rows without groups in windows, standing queries without windows."""
        if window is None and self.standing:
            raise self.source.error(
                "a query whose answers are windows needs one behind its stream", table, WORKS,
            )  # fmt: skip
        if window is not None and not grouped:
            for call in (call for item in self.select.expressions for call in item.find_all(exp.Anonymous)):
                check_known(call, self.source)
            stars = [e for e in self.select.expressions if e.is_star]
            raise self.source.error(
                "a query with a window in brackets needs an aggregate or GROUP BY",
                stars[0] if stars else self.select.expressions[0] if self.select.expressions else table,
                "an aggregate such as count(*); single rows of a window are asked for with BEGIN … END …",
            )
        having = self.select.args.get("having")
        if having is not None and not grouped:
            raise self.source.error("HAVING needs an aggregate or GROUP BY", having, "WHERE")

    def where(self, rows: RowScope) -> Item | None:
        """The condition of WHERE."""
        item = None
        if clause := self.select.args.get("where"):
            rows.aggregates_refused = "an aggregate cannot stand in WHERE, which is about single rows"
            item = Item(rows.expression(clause.this), clause.this)
        rows.aggregates_refused = "an aggregate cannot stand inside another one"
        return item

    def check_constants(self, rows: RowScope) -> None:
        """Refuse constants in WHERE that are no values of the type that they are compared with."""
        if clause := self.select.args.get("where"):
            factors = conjuncts(rows.resolver.resolve(clause.this))
            check_constants(factors, rows.stream.all_columns, [clause.this], self.source)

    def finish(
        self,
        stream: StreamDefinition,
        window: AnyWindow | None,
        where: Item | None,
        rows: RowScope,
        typer: Typer,
        written: list[SelectItem],
        groups: GroupScope | None,
    ) -> WindowedQuery | ScanQuery:
        """SELECT, HAVING, ORDER BY and their types."""
        select, source = self.select, self.source
        if groups is not None:
            groups.group_by(select.args.get("group"), written)
            items = [i for i in written if i.window_column is None or not groups.has(i.window_column)]
            for item in items:
                if item.node.is_star:
                    raise source.error(
                        "* has no meaning beside groups", item.node, "columns of GROUP BY and aggregates"
                    )
            values = [groups.expression(i.node, i.alias.name if i.alias else "") for i in items]
        else:
            items = expand_stars(written, rows, source)
            values = [rows.expression(i.node) for i in items]
        bound = groups.expression if groups is not None else rows.expression
        names = names_of(items, rows, window is not None)
        clause = select.args.get("having")
        having = Item(bound(clause.this), clause.this) if clause is not None else None
        order = order_terms(select, items, names, values, written, bound, source)
        conditions = []
        if groups is not None:
            groups.settle(typer, where)
            typer = Typer(source, groups.columns, groups.text)
            conditions = [("HAVING", having)] if having is not None else []
        elif where is not None:
            conditions = [("WHERE", where)]
        per = [Item(bound(node), node) for node in self.per(window, groups)]
        parts = [Item(v, i.node) for v, i in zip(values, items, strict=True)]
        orders = [Item(o.term.expression, o.node) for o in order]
        typed = iter(typer.typed([*(item for _, item in conditions), *parts, *orders, *per]))
        for name, condition in conditions:
            typer.truth(name, condition, next(typed).type)
        common: dict[str, Any] = {
            "stream": stream.name,
            "select": tuple(_output(name, next(typed)) for name in names),
            "where": where.expression.typed("BOOLEAN") if where is not None else None,
            "distinct": bool(select.args.get("distinct")),
            "order_by": tuple(replace(o.term, expression=next(typed)) for o in order),
            "limit": constant(select.args.get("limit"), "LIMIT", source, per=True),
            "offset": constant(select.args.get("offset"), "OFFSET", source) or 0,
            "text": self.text,
        }
        return _query(common, window, groups, having, tuple(next(typed) for _ in per))

    def per(self, window: AnyWindow | None, groups: GroupScope | None) -> list[exp.Expr]:
        """What stands behind LIMIT n PER, but for columns of the window."""
        nodes = per_of(self.select)
        if not nodes:
            return []
        if window is None or groups is None or self.select.args.get("distinct"):
            what = "DISTINCT" if self.select.args.get("distinct") else "rows that are in no window"
            raise self.source.error(f"LIMIT … PER does not go with {what}", nodes[0], "GROUP BY, and a window")
        return nodes


def _where_met(lookup: Lookup, where: Expression | None) -> Expression | None:
    """The condition of rows that met a row of each table."""
    met = Expression.column_of(lookup.met)
    both = met if where is None else all_of([met, where])
    return both if where is None or both is None else replace(both, sql=f"{met} AND ({where})")


def _query(
    common: dict[str, Any],
    window: AnyWindow | None,
    groups: GroupScope | None,
    having: Item | None,
    per: tuple[Expression, ...],
) -> WindowedQuery | ScanQuery:
    """The query as what it is. common: what all queries over a stream have. per: see `Aggregation`."""
    if groups is None:
        return RowScan(**common)
    common = common | {
        "keys": tuple(groups.keys),
        "aggregates": tuple(groups.aggregates),
        "having": having.expression.typed("BOOLEAN") if having is not None else None,
        "per": per,
        "sets": groups.sets,
    }
    if window is None:
        return GroupScan(**common)
    if isinstance(window, RowWindow):
        return RowWindowQuery(window=window, **common)
    if isinstance(window, SessionWindow):
        return SessionQuery(window=window, **common)
    return WindowQuery(window=window, **common)


def _output(name: str, value: Expression) -> Output:
    nothing = value.type in ('"NULL"', "NULL")
    return Output(name, value.within("CAST(", " AS INTEGER)", "INTEGER") if nothing else value)
