"""Row queries over one stream, or a union: the condition is cut into factors, which become alternatives of its side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from millpond.language.check.impossible import fault_of, type_over
from millpond.language.conditions.axes import ConstantFault
from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.conditions.factors import Factor, FactorReader, Marks, boxes_of
from millpond.language.inference.types_of import Item
from millpond.language.plan.binding import SelectBinder
from millpond.language.render.bound_expressions import expression_of
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.scope import RowScope
from millpond.language.resolve.stream_unions import in_words_of
from millpond.language.syntax.bounds_clause import BoundsClause
from millpond.language.syntax.source_text import Source, nearest, token_span
from millpond.support.sql import text_literal
from millpond.types import (
    Column,
    Expression,
    JoinFactor,
    RowQuery,
    ScanQuery,
    Side,
    Span,
    StreamDefinition,
    all_of,
    composed,
)


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


class RowBinder(SelectBinder):
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


def asked_of(node: exp.Expr, negated: bool) -> Expression:
    asked = expression_of(node)
    return asked.within("NOT (", ")", "BOOLEAN") if negated else asked
