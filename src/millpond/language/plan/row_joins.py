"""Row queries over several streams.

One comparison between two streams becomes the join factor by which the later of them comes in, and what is left is
evaluated on joined rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from millpond.language.conditions.axes import axis_of
from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.conditions.factors import NEGATED, Factor, FactorReader, Marks
from millpond.language.inference.duck import Refused, typed_relation
from millpond.language.inference.types_of import Item, Typer
from millpond.language.plan.row_binding import Analysis, RowBinder, asked_of, marked
from millpond.language.render.bound_expressions import expression_of
from millpond.language.render.rendering import render
from millpond.language.resolve.aggregate_windows import OVER_JOINS
from millpond.language.resolve.expressions import check_arguments
from millpond.language.resolve.from_items import bound_window
from millpond.language.resolve.joined_scope import MOST_SIDES, JoinedScope, own_columns, side_of
from millpond.language.resolve.reductions_bound import refuse_reduction
from millpond.language.resolve.scope import RowScope
from millpond.language.resolve.select_list import SelectItem
from millpond.support.errors import StatementError
from millpond.types import (
    Column,
    Expression,
    JoinFactor,
    ScanQuery,
    StreamDefinition,
    WindowedQuery,
    all_of,
    composed,
)

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

#: Types whose equal values may be written in several ways.
_TOLD_APART = re.compile(r"\b(FLOAT|DOUBLE|INTERVAL|BLOB|JSON)\b")


class JoinBinder(RowBinder):
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
            asked = [asked_of(node, negated) for _, node, negated in done]
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
