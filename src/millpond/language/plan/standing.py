"""Row queries: SELECTs over one stream or several with BEGIN … END, into selections.

The condition is cut into factors: those of one stream become that side's alternatives. One comparison between two
streams becomes the join factor by which the later of them comes in, and what is left is evaluated on joined rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from millpond.language.check.impossible import fault_of, type_over
from millpond.language.conditions.axes import ConstantFault, axis_of
from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.conditions.factors import NEGATED, Factor, FactorReader, Marks, boxes_of
from millpond.language.inference.duck import Refused, typed_relation
from millpond.language.inference.types_of import Item, Typer
from millpond.language.plan import binding
from millpond.language.plan.binding import SelectBinder
from millpond.language.plan.continuous import bind_relational, is_relational
from millpond.language.plan.streams_as_tables import bind_over_streams
from millpond.language.plan.table_queries import TableQuery
from millpond.language.render.bound_expressions import expression_of
from millpond.language.render.rendering import render
from millpond.language.resolve.aggregate_windows import OVER_JOINS, windowed_calls
from millpond.language.resolve.expressions import check_arguments
from millpond.language.resolve.from_items import bound_window
from millpond.language.resolve.joined_scope import MOST_SIDES, JoinedScope, own_columns, side_of
from millpond.language.resolve.reductions_bound import refuse_reduction
from millpond.language.resolve.registered_calls import with_registered
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.scope import RowScope
from millpond.language.resolve.select_list import SelectItem
from millpond.language.resolve.stream_unions import in_words_of
from millpond.language.rewrite.top_rows import in_windows, qualified
from millpond.language.rewrite.unnamed_streams import (
    PAIRS_WORK,
    Split,
    WithInner,
    inner_stream,
    named,
    split,
    stream_of,
)
from millpond.language.rewrite.validity import with_tolerances
from millpond.language.syntax.bounds_clause import BoundsClause
from millpond.language.syntax.flat_chains import SHALLOW
from millpond.language.syntax.nodes import window_of
from millpond.language.syntax.source_text import Source, nearest, token_span
from millpond.language.syntax.written_select import WrittenSelect
from millpond.support.errors import StatementError
from millpond.support.sql import text_literal
from millpond.types import (
    Column,
    Expression,
    InnerStream,
    JoinFactor,
    Query,
    RowQuery,
    ScanQuery,
    Side,
    Span,
    Staged,
    StreamDefinition,
    WindowedQuery,
    all_of,
    composed,
)

_CONTRADICT = "a window in brackets and BEGIN … END contradict each other"
_JOIN_TESTS = ("=", "<", "<=", ">", ">=")
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_NUMBERS = (*_INTEGERS, "UBIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def bind_standing(written: WrittenSelect, schema: Schema) -> Query | Staged:
    """Bind the SELECT of a standing query.

    Arguments and errors as `bind_query`.

    Returns:
        A `RowQuery` where no stream has a window in brackets (whose answers are windows, or changes of a relation) and
        neither ISTREAM, DSTREAM nor RSTREAM is written; `Staged` over streams without a name.
    """
    if (found := split(written, schema)) is not None:
        _refuse_bounds(written, _CONTRADICT)
        return _staged(written, found, schema)
    written = _dated(written, schema)
    if is_relational(written.tree):
        _refuse_bounds(written, _CONTRADICT)
        return bind_relational(written, schema)
    if not _has_windows(written):
        return bind_selection(written, schema)
    _refuse_bounds(written, _CONTRADICT)
    return binding.bind_query(written, schema)


def _dated(written: WrittenSelect, schema: Schema) -> WrittenSelect:
    """The SELECT as its kind knows it: windows behind tables of ASOF joins, and the first rows of each group."""
    tree = with_tolerances(written.tree, schema, written.source)
    windows = not is_relational(tree) and _have_ends(tree, written.text)
    tree = in_windows(tree, written.source) if windows else qualified(tree, written.source)
    return written if tree is written.tree else replace(written, tree=tree)


def _has_windows(written: WrittenSelect) -> bool:
    """Whether a window stands behind a stream or a call."""
    return _have_ends(written.tree, written.text)


def _have_ends(tree: exp.Expr, text: str) -> bool:
    return any(window_of(t) is not None for t in _tables(tree)) or bool(windowed_calls(tree, text))


def bind_select(written: WrittenSelect, schema: Schema) -> Query | ScanQuery | TableQuery | Staged:
    """Bind an ad hoc SELECT.

    Arguments and errors as `bind_query`.

    Returns:
        A `RowQuery` when BEGIN … END is written; a `TableQuery` when FROM names answers, tables and side streams, or
        streams are needed as tables; `Staged` over streams without a name.
    """
    if (found := split(written, schema)) is not None:
        _refuse_bounds(written, _CONTRADICT)
        return _staged(written, found, schema)
    written = _dated(written, schema)
    if is_relational(written.tree):
        _refuse_bounds(written, _CONTRADICT)
        return bind_relational(written, schema, standing=False)
    if written.bounds:
        named = [t.name for t in _tables(written.tree) if isinstance(t.this, exp.Identifier)]
        # A name that nothing has is an error of its own, whatever else is written.
        known = [schema.lookup(name) for name in named]
        rows = any(each is None or isinstance(each, StreamDefinition) for each in known)
        if rows and not _has_windows(written):
            return bind_selection(written, schema)
        _refuse_bounds(written, _CONTRADICT if _has_windows(written) else "BEGIN … END is for rows of streams")
    bound = binding.bind_select(written, schema)
    if bound is not None:
        return bound
    select = with_registered(written.tree, schema)
    return bind_over_streams(select, written.text, written.source, schema)


def _staged(written: WrittenSelect, found: Split, schema: Schema) -> Staged:
    """A query over streams without a name: these are bound first."""
    source = written.source
    inner: list[InnerStream] = []
    names: dict[str, StreamDefinition] = {}
    for unnamed in found.streams:
        bound = bind_standing(replace(written, tree=unnamed.select, bounds=()), schema)
        if isinstance(bound, Staged):
            query = bound.query
            renamed: dict[str, str] = {}  # those of pairs of pairs read one another
            for each in bound.inner:
                own = each.query
                for name, new in renamed.items():
                    own = named(own, name, new)
                further = replace(each, name=f"{each.name} within {unnamed.name}", query=own)
                inner.append(further)
                renamed[each.name] = further.name
                query = named(query, each.name, further.name)
            bound = query
        inner.append(inner_stream(unnamed, bound, source))
        names[unnamed.name] = stream_of(inner[-1])
    outer = bind_standing(replace(written, tree=found.select, bounds=()), WithInner(schema, names))
    if isinstance(outer, RowQuery | Staged):
        raise source.error("a join in parentheses needs a window behind them", found.streams[0].select, PAIRS_WORK)
    return Staged(outer, tuple(inner))


def bind_selection(written: WrittenSelect, schema: Schema) -> RowQuery:
    """Bind a SELECT over the rows of one stream, or of several with join factors.

    Arguments and errors as `bind_query`.

    Returns:
        The selection; its `query.where` is None, or, over several streams, what is neither one side's own nor a join
        factor. Of several comparisons that bring a stream in the first equality is the factor, else the first of them.
    """
    return analyse(written, schema).selection()


def _tables(select: exp.Expr) -> list[exp.Table]:
    """The FROM items of a plain SELECT that are names."""
    if not isinstance(select, exp.Select) or (clause := select.args.get("from_")) is None:
        return []
    items = [clause.this, *(join.this for join in select.args.get("joins") or ())]
    return [item for item in items if isinstance(item, exp.Table)]


def _refuse_bounds(written: WrittenSelect, message: str) -> None:
    if written.bounds:
        raise written.source.error(message, written.bounds[0].place)


@dataclass
class Analysis:
    """A bound SELECT with its condition in factors: what a selection, or a template of such, is made from.

    sides: per stream its name, its span and its factors. query: without a condition but for what is left of it.
    rest: the factors that are left for joined rows.
    """

    query: ScanQuery
    streams: list[StreamDefinition]
    spans: list[Span]
    factors: list[list[Factor]]
    joins: list[JoinFactor] = field(default_factory=list)
    rest: list[Expression] = field(default_factory=list)
    select: exp.Expr | None = None

    def selection(self) -> RowQuery:
        """The selection."""
        sides = tuple(
            Side(stream.name, span, all_of(f.sql for f in factors), boxes_of(factors))
            for stream, span, factors in zip(self.streams, self.spans, self.factors, strict=True)
        )
        return RowQuery(replace(self.query, where=all_of(self.rest)), sides, *in_steps(self.joins))


def in_steps(joins: Sequence[JoinFactor]) -> tuple[JoinFactor | None, tuple[JoinFactor, ...]]:
    """Join factors as a `RowQuery` has them."""
    return (joins[0] if joins else None), tuple(joins[1:])


def analyse(written: WrittenSelect, schema: Schema, marks: Marks | None = None) -> Analysis:
    """Bind a SELECT and cut its condition into factors.

    marks: for templates: constants whose texts are marks in a copy of the condition.
    """
    source, select = written.source, with_registered(written.tree, schema)
    kind = _JoinBinder if isinstance(select, exp.Select) and select.args.get("joins") else _RowBinder
    try:
        return kind(select, written.text, source, schema, written.bounds).analyse(marks)
    except RecursionError:
        raise source.error("the query is nested too deeply", None, SHALLOW) from None


def marked(node: exp.Expr, marks: Marks | None) -> exp.Expr:
    """A copy of a condition with marks in the places of its constants."""
    if not marks:
        return node
    by_place = {token_span(literal): mark for mark, (_, literal) in marks.items()}
    copy = node.copy()
    for literal in list(copy.find_all(exp.Literal)):
        if (mark := by_place.get(token_span(literal))) is not None:
            literal.set("this", mark)
    return copy


def without_marks(asked: Expression, marks: Marks | None) -> Expression:
    """An expression with the constants themselves in the places of their marks."""
    sql = unmarked(asked.sql, marks)
    return asked if sql == asked.sql else composed(sql, asked.type, [asked])


def unmarked(sql: str, marks: Marks | None) -> str:
    """SQL with the constants themselves in the places of their marks."""
    for mark, (_, literal) in (marks or {}).items():
        if mark in sql:
            written = text_literal(literal.name) if literal.is_string else literal.name
            sql = sql.replace(text_literal(mark), written) if literal.is_string else sql.replace(mark, written)
    return sql


class _RowBinder(SelectBinder):
    """Binds one SELECT over the rows of one stream."""

    rows: RowScope
    marks: Marks | None = None

    def __init__(
        self, select: exp.Expr, text: str, source: Source, schema: Schema, bounds: Sequence[BoundsClause]
    ) -> None:
        super().__init__(select, text, source, schema, False)
        self.bounds = bounds

    def where(self, rows: RowScope) -> Item | None:
        self.rows = rows
        return super().where(rows)

    def conditions(self) -> list[exp.Expr]:
        """The conditions as written."""
        where = self.select.args.get("where")
        return [where.this] if where is not None else []

    def kind(self, columns: Sequence[Column], node: exp.Expr, sql: str) -> str:
        """The type of an expression."""
        return type_over(columns, node, unmarked(sql, self.marks))

    def check_constants(self, rows: RowScope) -> None:
        """`read` does, of each factor."""

    def analyse(self, marks: Marks | None) -> Analysis:
        """The bound query and its factors."""
        query, self.marks = self.scan(), marks
        first = self.rows.stream
        (span,) = self.spans([(query.stream, self.rows.alias)])
        streams = [self.fed(f.name) for f in query.feeds] or [first]
        factors = []
        for stream in streams:  # the condition in the words of each stream of a union
            reader = FactorReader(partial(self.kind, stream.all_columns), marks)
            leaves = [(in_words_of(first, stream, node), negated) for node, negated in self.leaves(marks)]
            found = [self.read(reader, node, negated) for node, negated in leaves]
            factors.append([f for f in found if f is not None])
        return Analysis(query, streams, [span] * len(streams), factors, select=self.select)

    def scan(self) -> ScanQuery:
        """The bound query."""
        query = self.bind()
        assert isinstance(query, ScanQuery)  # there are no windows in brackets
        return query

    def fed(self, name: str) -> StreamDefinition:
        """A stream of the union."""
        found = self.schema.lookup(name)
        assert isinstance(found, StreamDefinition)
        return found

    def leaves(self, marks: Marks | None) -> list[tuple[exp.Expr, bool]]:
        """The factors of all conditions, resolved."""
        nodes = [self.rows.resolver.resolve(marked(c, marks)) for c in self.conditions()]
        return [leaf for node in nodes for leaf in conjuncts(node)]

    def read(self, reader: FactorReader, node: exp.Expr, negated: bool) -> Factor | None:
        """One factor; the error for a constant points at it."""
        try:
            return reader.read(node, negated)
        except ConstantFault as fault:
            raise fault_of(fault, self.conditions(), self.source) from None

    def spans(self, names: Sequence[tuple[str, str]]) -> list[Span]:
        """The window of every stream (given as name and alias)."""
        found: list[Span | None] = [None] * len(names)
        common: BoundsClause | None = None
        for clause in self.bounds:
            if clause.alias is None:
                if common is not None:
                    raise self.source.error("BEGIN … END is given twice", clause.place, "FOR alias, one per stream")
                common = clause
                continue
            low = clause.alias.lower()
            sides = [n for n, (_, alias) in enumerate(names) if alias.lower() == low]
            sides = sides or [n for n, (stream, _) in enumerate(names) if stream.lower() == low]
            if len(sides) != 1:
                known = [alias for _, alias in names]
                alias = clause.alias
                what = f"there is no stream '{alias}' in FROM" if not sides else f"'{alias}' is read twice"
                raise self.source.error(what, clause.alias_place, f"FOR {' or '.join(known)}", nearest(low, known))
            if found[sides[0]] is not None:
                raise self.source.error(f"BEGIN … END is given twice for '{clause.alias}'", clause.place)
            found[sides[0]] = clause.span
        default = common.span if common is not None else Span()
        return [span if span is not None else default for span in found]


class _JoinBinder(_RowBinder):
    """Binds one SELECT over the joined rows of several streams."""

    rows: JoinedScope

    def bind(self) -> WindowedQuery | ScanQuery:
        self.check_clauses(("joins",))
        joins = self.select.args["joins"]
        if len(joins) >= MOST_SIDES:
            works = "a window behind each stream, such as [RANGE 1 HOUR]: any number of relations can be joined"
            message = f"a row query joins up to {MOST_SIDES} streams, and this is one more"
            raise self.source.error(message, joins[MOST_SIDES - 1].this, works)
        first, stream = self.stream()
        self.tables, streams = [first], [stream]
        for join in joins:
            table, stream = self.named(join.this)
            self.check_join(join)
            self.tables.append(table)
            streams.append(stream)
        aliases: list[str] = []
        for table, stream in zip(self.tables, streams, strict=True):
            self.check_input(table, stream)
            alias = table.alias or stream.name
            if alias.lower() in (a.lower() for a in aliases):
                message = f"{'both' if len(streams) == 2 else 'two'} streams are called '{alias}'"
                raise self.source.error(message, table, f"{stream.name} AS a, {stream.name} AS b")
            aliases.append(alias)
        scope = JoinedScope(self.source, tuple(streams), aliases)
        try:
            return self.bind_rows(first, None, scope)
        except StatementError as error:
            scope.explain(error)

    def check_join(self, join: exp.Join) -> None:
        """Raises StatementError unless it is a join of a row query."""
        if join.args.get("using"):
            raise self.source.error("USING is not available between streams", join.this, "ON a.column = b.column")
        if join.args.get("method") or join.args.get("side") or join.args.get("kind", "") not in ("", "INNER", "CROSS"):
            words = " ".join(str(join.args[k]).upper() for k in ("method", "side", "kind") if join.args.get(k))
            raise self.source.error(f"{words} JOIN is not available between streams", join.this, "JOIN … ON …")
        check_arguments(join, ("this", "on", "kind"), self.source)

    def check_input(self, table: exp.Table, stream: StreamDefinition) -> None:
        """Raises StatementError unless it can be joined."""
        if bound_window(table, stream, self.source, self.schema) is not None:
            message = "windows that say when they end (SLIDE, TUMBLING, …) do not join streams"
            raise self.source.error(message, table, OVER_JOINS)
        refuse_reduction(
            table,
            self.source,
            "REDUCE in a join of row queries is not available: pairs would be lost on both sides",
        )

    def on(self) -> list[tuple[int, exp.Expr]]:
        """The conditions behind ON, each with the number of streams that are joined there."""
        joins = enumerate(self.select.args["joins"], 2)
        return [(seen, on) for seen, join in joins if (on := join.args.get("on")) is not None]

    def conditions(self) -> list[exp.Expr]:
        return [*(on for _, on in self.on()), *super().conditions()]

    def leaves(self, marks: Marks | None) -> list[tuple[exp.Expr, bool]]:
        seen = [(marked(on, marks), seen) for seen, on in self.on()]
        nodes = [*seen, *((marked(c, marks), None) for c in super().conditions())]
        return [leaf for node, seen in nodes for leaf in conjuncts(self.rows.resolved(node, seen))]

    def where(self, rows: RowScope) -> Item | None:
        assert isinstance(rows, JoinedScope)
        for seen, on in self.on():
            rows.aggregates_refused = "an aggregate cannot stand in ON, which is about single rows"
            typer = Typer(self.source, rows.stream.all_columns, rows.text)
            item = Item(expression_of(rows.resolved(on, seen).unnest(), copy=False), on)
            typer.truth("ON", item, typer.typed([item])[0].type)
        return super().where(rows)

    def items(self, written: list[SelectItem], rows: RowScope, grouped: bool) -> list[SelectItem]:
        assert isinstance(rows, JoinedScope)
        if not grouped:
            written = [each for item in written for each in rows.star(item)]
        return [rows.item(item) for item in written]

    def analyse(self, marks: Marks | None) -> Analysis:
        query, self.marks = self.scan(), marks
        rows = self.rows
        streams = list(rows.streams)
        spans = self.spans([(s.name, a) for s, a in zip(streams, rows.names_of_sides, strict=True)])
        readers = [FactorReader(self._kinds(s.all_columns), marks) for s in streams]
        factors: list[list[Factor]] = [[] for _ in streams]
        between: list[tuple[exp.Expr, bool]] = []
        for node, negated in self.leaves(marks):
            sides = _sides(node)
            if len(sides) > 1:
                between.extend(self.split_between(node, negated))
                continue
            side = (sides or {0}).pop()
            factor = self.read(readers[side], own_columns(node), negated)
            if factor is not None:
                factors[side].append(factor)
        joins, rest = self.steps(between)
        query = replace(query, stream=streams[0].name)
        return Analysis(query, streams, spans, factors, joins, rest, self.select)

    def _kinds(self, columns: Sequence[Column]) -> Callable[[exp.Expr, str], str]:
        return lambda node, sql: self.kind(columns, node, sql)

    def steps(self, between: list[tuple[exp.Expr, bool]]) -> tuple[list[JoinFactor], list[Expression]]:
        """How one stream after the other comes in, and what is left to be looked at when all are there.

        The next stream is the first of FROM that an equality brings in, else the first that any comparison does.
        """
        left = [(self.join_factor(node, negated), node, negated) for node, negated in between]
        there, joins = {0}, list[JoinFactor]()
        while len(there) < len(self.rows.streams):
            ways = [(n, _towards(f, there)) for n, (f, _, _) in enumerate(left) if f is not None]
            found = [(n, f) for n, f in ways if f is not None]
            if not found:
                raise self.no_factor(there, bool(between))
            chosen, factor = min(found, key=lambda way: (way[1].operator != "=", way[1].second, way[0]))
            there.add(factor.second)
            left.pop(chosen)
            done = [each for each in left if _sides(each[1]) <= there]
            left = [each for each in left if not _sides(each[1]) <= there]
            asked = [_asked(node, negated) for _, node, negated in done]
            if len(there) == len(self.rows.streams):
                return [*joins, factor], asked
            joins.append(replace(factor, where=all_of(asked)))
        raise AssertionError("a join has two sides and more")

    def no_factor(self, there: set[int], some: bool) -> StatementError:
        """The error for a stream that nothing joins with those that are there."""
        names, streams = self.rows.names_of_sides, self.rows.streams
        other = min(set(range(len(streams))) - there)
        pairs = [(n, a.name, b.name) for n in sorted(there) for a in streams[n].columns for b in streams[other].columns
                 if a.name.lower() == b.name.lower()]  # fmt: skip
        with_, left, right = pairs[0] if pairs else (0, streams[0].columns[0].name, streams[other].columns[0].name)
        two = f"'{names[0]}' and '{names[other]}' are two streams, and "
        what = "no condition between them can join them" if some else "no condition joins them"
        if len(streams) > 2:
            what = f"no condition joins '{names[other]}' with {', '.join(repr(names[n]) for n in sorted(there))}"
        return self.source.error(
            f"{two if len(streams) == 2 else ''}{what}",
            self.tables[other],
            f"a comparison such as {names[with_]}.{left} = {names[other]}.{right} in WHERE or ON (=, <, <=, > or >=, "
            "each stream on its own side)",
        )

    def split_between(self, node: exp.Expr, negated: bool) -> list[tuple[exp.Expr, bool]]:
        """BETWEEN over values of one type as its two comparisons, which can join."""
        if not isinstance(node, exp.Between) or negated:
            return [(node, negated)]
        parts = [node.this, node.args["low"], node.args["high"]]
        columns = self.rows.stream.all_columns
        if len({self.kind(columns, p.unnest(), render(p.unnest())) for p in parts}) > 1:
            return [(node, negated)]
        value, low, high = (p.copy() for p in parts)
        return [(exp.GTE(this=value, expression=low), False), (exp.LTE(this=value.copy(), expression=high), False)]

    def join_factor(self, node: exp.Expr, negated: bool) -> JoinFactor | None:
        """A comparison of an expression over one stream with one over the other."""
        test = _COMPARISONS.get(type(node))
        if test is None:
            return None
        test = NEGATED[test] if negated else test
        nodes = [node.this.unnest(), node.expression.unnest()]
        sides = [_sides(each) for each in nodes]
        if len(sides[0]) != 1 or len(sides[1]) != 1 or sides[0] == sides[1]:
            return None
        first, second = (each.pop() for each in sides)
        if first > second:
            nodes, first, second, test = nodes[::-1], second, first, _FLIPPED.get(test, test)
        if test not in _JOIN_TESTS:
            return None
        own = [expression_of(own_columns(each)) for each in nodes]
        columns = [self.rows.streams[n].all_columns for n in (first, second)]
        kinds = [self.kind(c, own_columns(n), s.sql) for c, n, s in zip(columns, nodes, own, strict=True)]
        common = common_kind(*kinds)
        if common is None:
            return None
        cast = f" AS {common})"
        values = [s if k == common else s.within("CAST(", cast, common) for s, k in zip(own, kinds, strict=True)]
        if common.startswith("ENUM(") and test != "=":  # its values' order is not that of their texts
            values, common = [v.within("CAST(enum_code(", ") AS BIGINT)", "BIGINT") for v in values], "BIGINT"
        if common == "INTERVAL":  # a month is 30 days where they are compared
            values, common = [v.within("epoch_us(", ")", "BIGINT") for v in values], "BIGINT"
        axes = [axis_of(v.sql, common) for v in values]
        if axes[0] is not None and axes[1] is not None:
            pairs = zip(axes, values, strict=True)
            left, right = (composed(a.attribute, v.type, [v]) for a, v in pairs if a is not None)
            return JoinFactor(left, test, right, axes[0].kind, first, second)  # type: ignore[arg-type]  # one of _JOIN_TESTS
        if test != "=":
            return None
        text = "to_json(" if _is_nested(common) else "("
        left, right = (v.within(f"CAST({text}", ") AS VARCHAR)", "VARCHAR") for v in values)
        return JoinFactor(left, "=", right, "text", first, second)


def _sides(node: exp.Expr) -> set[int]:
    """The sides whose columns an expression reads."""
    found = (side_of(column.name) for column in node.find_all(exp.Column))
    return {side for side in found if side is not None}


def _towards(factor: JoinFactor, there: set[int]) -> JoinFactor | None:
    """A join factor so that it brings in a side that is not there; None: it brings in none."""
    if (factor.first in there) == (factor.second in there):
        return None
    if factor.first in there:
        return factor
    return replace(
        factor,
        left=factor.right,
        operator=_FLIPPED[factor.operator],  # type: ignore[arg-type]  # of one of _JOIN_TESTS
        right=factor.left,
        first=factor.second,
        second=factor.first,
    )


#: Types whose equal values may be written in several ways.
_TOLD_APART = re.compile(r"\b(FLOAT|DOUBLE|INTERVAL|BLOB|JSON)\b")


def _is_nested(kind: str) -> bool:
    return kind.endswith("]") or kind.startswith(("STRUCT(", "MAP("))


def common_kind(left: str, right: str) -> str | None:
    """The type in which DuckDB compares two values; None for types of which that is not certain."""
    if left == right:
        return None if _is_nested(left) and _TOLD_APART.search(left) else left
    families = [all(k in family for k in (left, right)) for family in (_NUMBERS, _TIMES)]
    decimals = all(k in _NUMBERS or k.startswith("DECIMAL(") for k in (left, right))
    if not any(families) and not decimals:
        return None
    columns = (Column("l", left), Column("r", right))
    try:
        return typed_relation(columns).types(["[l, r]"])[0].removesuffix("[]")
    except Refused:
        return None


def _asked(node: exp.Expr, negated: bool) -> Expression:
    asked = expression_of(node)
    return asked.within("NOT (", ")", "BOOLEAN") if negated else asked
