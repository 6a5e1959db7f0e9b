"""CQL: SELECTs over windowed streams and tables, whose answer is a relation at every instant (Arasu, Babu, Widom).

The SELECT may be any SQL that SELECTs over answers and tables may be. It is rendered twice: over the inputs as they are
at one instant, and lifted to many instants at once, where every FROM item is correlated with the instant that it is
looked at; DuckDB turns that into joins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from sqlglot import exp

from millpond.language.check.described import describe_over
from millpond.language.check.joins_written import check_types
from millpond.language.check.products import check_products
from millpond.language.inference.duck import Refused, describe
from millpond.language.plan.grouped_joins import grouped_plan
from millpond.language.plan.join_plans import WHOLE, join_plan
from millpond.language.plan.kept_apart import kept_apart
from millpond.language.plan.paired import check_pairs, pair_checks
from millpond.language.plan.probed_inputs import probes_of
from millpond.language.plan.spreading import hashes_of, salting_of, spread_of, together_of
from millpond.language.plan.table_queries import bound_tree
from millpond.language.render.bound_expressions import expression_of
from millpond.language.render.rendering import render
from millpond.language.resolve.aggregate_windows import refuse_over_joins
from millpond.language.resolve.expressions import column, unqualified
from millpond.language.resolve.registered_calls import with_registered
from millpond.language.resolve.relation_outputs import RESERVED, outputs_of
from millpond.language.resolve.relation_refs import FileInput, RelationRef, StreamInput
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.select_list import check_alias
from millpond.language.resolve.stream_items import StreamItems
from millpond.language.rewrite.pushed_conditions import Pushed, item_of, push_down
from millpond.language.rewrite.semi import looks_at_many
from millpond.language.rewrite.spelt_joins import spelt_out
from millpond.language.rewrite.typed_inputs import INSTANT, column_of, typed_inputs, typed_item
from millpond.language.rewrite.validity import times_needed, with_tolerances
from millpond.language.rewrite.weights import weighed
from millpond.language.syntax.flat_chains import SHALLOW
from millpond.language.syntax.nodes import to_stream_of, window_of
from millpond.language.syntax.source_text import Source
from millpond.language.syntax.walks import tables_of
from millpond.language.syntax.window_clause import Place
from millpond.language.syntax.written_select import WrittenSelect
from millpond.support.sql import quote
from millpond.types import (
    HOLDS,
    Column,
    Driven,
    Elements,
    Expression,
    Joined,
    JoinPlan,
    LatestRowsWindow,
    PairsQuery,
    RangeWindow,
    Recomputed,
    RelationalQuery,
    RelationInput,
    RelationPlan,
    RelationQuery,
    RelationWindow,
    all_of,
    projected,
)
from millpond.types.function_definitions import is_reference
from millpond.types.relation_queries import TableInput

#: Whether what is asked of a row that stays in its window holds for it.
_HOLDS = Column(HOLDS, "BOOLEAN")


def is_relational(select: exp.Expr) -> bool:
    """Whether a SELECT is one of CQL: it says ISTREAM, DSTREAM, RSTREAM or PAIRS, or has a window without SLIDE."""
    return any(to_stream_of(each) is not None for each in select.find_all(exp.Select)) or any(
        (clause := window_of(table)) is not None and clause.is_relation for table in select.find_all(exp.Table)
    )


def bind_relational(written: WrittenSelect, schema: Schema, standing: bool = True) -> RelationalQuery:
    """Bind a SELECT of CQL.

    Arguments as of `binding.bind_query`.

    Raises:
        StatementError: with the place in the script.
    """
    source = written.source
    select = with_tolerances(with_registered(written.tree, schema), schema, source)
    try:
        return _Binder(select, written.text, source, schema, standing).bind()
    except RecursionError:
        raise source.error("the query is nested too deeply", None, SHALLOW) from None


def bind_join(select: exp.Select, source: Source, schema: Schema) -> RelationalQuery:
    """Bind the join of a stream without a window and tables: SQL over rows of each of them."""
    return _Binder(select, "", source, schema, True).bind()


#: ISTREAM, DSTREAM, RSTREAM and PAIRS.
_Operator = Literal["istream", "dstream", "rstream", "pairs"]


class _Binder:
    def __init__(self, select: exp.Expr, text: str, source: Source, schema: Schema, standing: bool) -> None:
        self.select, self.text, self.source, self.schema, self.standing = select, text, source, schema, standing
        self.operator = self._operator()
        times = times_needed(select, schema)
        self.items = StreamItems(select, times, self.operator == "pairs", source, schema)
        self.inputs = self.items.inputs

    @property
    def windows(self) -> dict[str, RelationWindow]:
        """The windows by generated name."""
        return {alias: each.window for alias, each in self.inputs.items()}

    @property
    def reduced(self) -> dict[str, Place]:
        """Where REDUCE stands, by generated name."""
        return {alias: each.reduced for alias, each in self.inputs.items() if each.reduced is not None}

    def bind(self) -> RelationalQuery:
        refuse_over_joins(self.select, self.text, self.source)
        self.check_aliases()
        tree, refs = bound_tree(self.select, self.source, self.schema, self.items.bind)
        self.check_inputs(refs)
        tree = weighed(tree, self.reduced, self.source)
        columns = self.described(tree, refs)
        tree = _ordered(tree, len(columns))
        pushed = push_down(tree, self.inputs, self.select, self.source)
        tree = pushed.tree
        columns_of = {ref.alias: ref.columns for ref in refs}
        check_types(tree, columns_of, self.source)
        spelt = spelt_out(tree, columns_of)
        check_products(spelt, self.select, columns_of, self.source)
        refs = tuple(replace(r, columns=(*r.columns, _HOLDS)) if r.alias in pushed.marks else r for r in refs)
        checks = self.checks(tree, spelt, columns_of)
        common: dict[str, Any] = {
            "select": outputs_of(columns),
            "text": self.text,
            "inputs": tuple(self.input(r, pushed, checks.get(r.alias, ())) for r in refs if isinstance(r, StreamInput)),
            "tables": tuple(r for r in refs if not isinstance(r, StreamInput)),
            **self.rendered(tree, refs),
            "calls": tuple(dict.fromkeys(c.name for c in tree.find_all(exp.Anonymous) if is_reference(c.name))),
        }
        whole = self.elements(tree) or bool(self.reduced)
        joined = (
            None if whole else join_plan(spelt, columns_of, self.item_at, set(self.inputs), self.operator == "pairs")
        )
        if self.operator == "pairs":
            times = [self.inputs[r.alias].stream.options.time for r in refs if isinstance(r, StreamInput)]
            join = check_pairs(tree, refs, self.windows, self.reduced, self.source, joined, times)
            return PairsQuery(join=join, **common)
        plan = Elements() if self.elements(tree) else self.plan(tree, spelt, refs, joined)
        ordered = self.operator is None and tree.args.get("order") is not None
        apart = kept_apart(tree if spelt is None else spelt, columns_of, self.windows)
        return RelationQuery(
            operator=self.operator, plan=plan, ordered=ordered, apart=() if self.reduced else apart, **common
        )

    def check_aliases(self) -> None:
        """Refuse names that answers have by themselves for columns of the answer, and the engine's own everywhere."""
        root = self.select
        while isinstance(root, exp.Subquery | exp.SetOperation):
            root = root.this
        for each in self.select.find_all(exp.Alias):
            alias = each.args["alias"]
            if isinstance(alias, exp.Identifier):
                check_alias(alias, RESERVED if each.parent is root else (), self.source)

    def check_inputs(self, refs: Sequence[RelationRef]) -> None:
        """Refuse a SELECT without streams, and a standing query over what changes with time and is no stream."""
        if not self.inputs:
            raise self.source.error("a relation of CQL needs a stream", None, "FROM stream [RANGE 5 MINUTES]")
        for ref in refs:
            if isinstance(ref, FileInput):
                raise self.source.error(
                    f"'{ref.name}' is a file, and a SELECT with such a window is about one instant",
                    next((t for t in tables_of(self.select) if t.name == ref.name), None),
                    "CREATE TABLE … WITH (path = …), or the window in a subquery of its own",
                )
            if self.standing and not isinstance(ref, StreamInput | TableInput):
                raise self.source.error(
                    f"'{ref.name}' changes with time: a standing query reads streams and tables",
                    next((t for t in tables_of(self.select) if t.name.lower() == ref.name.lower()), None),
                    "a stream with a window, or a table",
                )

    def input(self, ref: RelationRef, pushed: Pushed, checks: tuple[Expression, ...]) -> RelationInput:
        """A stream as the query reads it."""
        found = self.inputs[ref.alias]
        return RelationInput(
            ref.alias,
            ref.name,
            found.window,
            ref.columns,
            _together(pushed.below.get(ref.alias, ())),
            checks,
            found.reduction,
            signed=found.stream.takes_back,
            feeds=found.feeds,
            mark=_together(pushed.marks.get(ref.alias, ())),
        )

    def rendered(self, tree: exp.Expr, refs: tuple[RelationRef, ...]) -> dict[str, str | None]:
        """The SELECT over the inputs at one instant, and lifted to the instants of a relation."""
        instants = "i" + max((ref.alias for ref in refs), key=len)
        while instants.lower() in self.items.names:
            instants = "_" + instants
        plain = render(typed_inputs(tree, self.inputs))
        return {"sql": plain, "lifted": self.lifted(tree, instants, refs), "instants": instants}

    def plan(
        self,
        tree: exp.Expr,
        spelt: exp.Select | None,
        refs: tuple[RelationRef, ...],
        joined: JoinPlan | None,
    ) -> RelationPlan:
        """How the answer of a query that looks at several rows follows from its inputs."""
        columns_of = {ref.alias: ref.columns for ref in refs}
        if self.operator != "rstream" and (rowwise := self.rowwise(tree)) is not None:
            return Elements(rowwise)
        # Rows that are taken back need the others.
        if not self.reduced and not any(i.stream.takes_back or i.feeds for i in self.inputs.values()):
            probed = probes_of(tree, {a: i.stream for a, i in self.inputs.items()}, self.windows)
            if probed is not None and probed[1]:
                return Driven(*probed)
        if joined is not None and self.operator != "rstream":
            whole = tree if spelt is None else spelt
            spread = spread_of(whole, joined, columns_of, self.windows)
            joined = replace(joined, spread=spread, salting=salting_of(joined, spread, self.windows))
            if not spread:
                joined = replace(joined, hashes=hashes_of(whole, joined, columns_of, self.windows))
                joined = together_of(joined, self.windows, {a: i.stream.name for a, i in self.inputs.items()})
            return Joined(joined)
        if self.reduced or any(i.stream.takes_back for i in self.inputs.values()):
            return Recomputed()
        described = partial(self.described, refs=refs)
        return grouped_plan(spelt, columns_of, self.windows, self.item_at, described)

    def described(self, tree: exp.Expr, refs: tuple[RelationRef, ...]) -> tuple[Column, ...]:
        """The columns of a bound SELECT, at one instant."""
        return describe_over(tree, lambda each: render(typed_inputs(each, self.inputs)), refs, self.select, self.source)

    def _operator(self) -> _Operator | None:
        """ISTREAM, DSTREAM, RSTREAM or PAIRS, which stand in the outermost SELECT alone."""
        root = self.select
        while isinstance(root, exp.Subquery):
            root = root.this
        for each in self.select.find_all(exp.Select):
            found = to_stream_of(each)
            if found is not None and each is not root:
                word = found.word.upper()
                works = f"SELECT {word}(*) FROM (SELECT … UNION ALL SELECT …)"
                if not each.find_ancestor(exp.SetOperation):
                    works = f"it there, or a window over that stream: (SELECT {word}(…) FROM …) [RANGE TUMBLING 1 HOUR]"
                raise self.source.error(
                    f"{word} makes a stream of a whole query: it stands in the outermost SELECT", found.place, works
                )
        mark = to_stream_of(root) if isinstance(root, exp.Select) else None
        return mark.word if mark is not None else None

    def item_at(self, item: exp.Expr) -> exp.Expr:
        """A FROM item as a derived table of typed columns."""
        return typed_item(item, self.inputs)

    def lifted(self, tree: exp.Expr, instants: str, refs: tuple[RelationRef, ...]) -> str | None:
        """The SQL for many instants at once; None when DuckDB cannot."""
        inner = render(typed_inputs(tree, self.inputs, instants))
        i = quote(instants)
        sql = f'SELECT {i}."{INSTANT}", q.* FROM {i}, LATERAL ({inner}) AS q'
        empty = [f'{i} AS (SELECT CAST(NULL AS BIGINT) AS "{INSTANT}")']
        for ref in refs:
            fields = [projected("NULL", c.type, c.name) for c in ref.columns]
            if isinstance(ref, StreamInput):
                fields.append(f'CAST(NULL AS BIGINT) AS "{INSTANT}"')
            empty.append(f"{quote(ref.alias)} AS (SELECT {', '.join(fields)})")
        try:
            describe(f"SELECT * FROM (WITH {', '.join(empty)} SELECT * FROM ({sql}) AS q) AS q")
        except Refused:
            return None
        return sql

    def elements(self, tree: exp.Expr) -> bool:
        """Whether the query is select and project over one window: its answer is a function of single rows."""
        if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Query))) > 1:
            return False
        if any(tree.args.get(key) for key in ("joins", *WHOLE)) or (clause := tree.args.get("from_")) is None:
            return False
        if not isinstance(clause.this, exp.Table) or clause.this.name not in self.inputs:
            return False
        return not looks_at_many(tree)

    def rowwise(self, tree: exp.Expr) -> str | None:
        """SQL over the rows of a window that an ASOF join joins with tables; None where the query is something else.

        What a row meets does not depend on the instant: it is a function of single rows, once the tables are given.
        """
        if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Query))) > 1:
            return None
        joins, clause = tree.args.get("joins") or [], tree.args.get("from_")
        if any(tree.args.get(key) for key in WHOLE) or clause is None or not any(j.method == "ASOF" for j in joins):
            return None
        items = [clause.this, *(j.this for j in joins)]
        first = items[0]
        if any(not isinstance(i, exp.Table) for i in items) or first.name not in self.inputs or self.reduced:
            return None
        if any(i.name in self.inputs for i in items[1:]) or any(j.side in ("RIGHT", "FULL") for j in joins):
            return None
        if (
            not isinstance(self.windows[first.name], RangeWindow)
            or self.inputs[first.name].stream.takes_back
            or self.inputs[first.name].feeds
        ):
            return None
        if looks_at_many(tree) or any(e.find(exp.Star) is not None for e in tree.expressions):
            return None
        alias = first.alias_or_name
        found = typed_inputs(tree, self.inputs)
        found.args["from_"].this.this.append("expressions", column(INSTANT))
        found.set("expressions", [column_of(alias, INSTANT), *found.expressions])
        return render(found)

    def checks(
        self, tree: exp.Expr, spelt: exp.Select | None, columns: Mapping[str, Sequence[Column]]
    ) -> Mapping[str, tuple[Expression, ...]]:
        """What can fail on a row, by generated name: of pairs, and of a query that is a function of single rows."""
        if not self.elements(tree):
            return pair_checks(spelt, columns) if self.operator == "pairs" and spelt is not None else {}
        assert isinstance(tree, exp.Select)
        item = tree.args["from_"].this
        nodes = [i.this if isinstance(i, exp.Alias) else i for i in tree.expressions]
        if (clause := tree.args.get("where")) is not None and isinstance(self.windows[item.name], LatestRowsWindow):
            nodes.append(clause.this)
        found = []
        for node in nodes:
            if isinstance(node, exp.Star | exp.Column | exp.Literal) or node.find(exp.Star) is not None:
                continue
            if item_of(node, [item], self.inputs) == item.name:
                found.append(expression_of(unqualified(node, self.inputs[item.name].stream)))
        return {item.name: tuple(found)}


def _ordered(tree: exp.Expr, width: int) -> exp.Expr:
    """A SELECT whose ORDER BY goes on with all columns of the answer, so that equal rows alone have no order."""
    order = tree.args.get("order")
    if order is None or any(isinstance(term.this, exp.Var) for term in order.expressions):
        return tree
    tree = tree.copy()
    places = [exp.Ordered(this=exp.Literal.number(place)) for place in range(1, width + 1)]
    tree.args["order"].set("expressions", [*order.expressions, *places])
    return tree


def _together(factors: Sequence[Expression]) -> Expression | None:
    """Factors as one condition; None without any."""
    found = all_of(factors)
    return found and replace(found, sql=" AND ".join(f"({each})" for each in factors))
