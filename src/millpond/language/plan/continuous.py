"""CQL: SELECTs over windowed streams and tables, whose answer is a relation at every instant (Arasu, Babu, Widom).

The SELECT may be any SQL that SELECTs over answers and tables may be. It is rendered twice: over the inputs as they are
at one instant, and lifted to many instants at once, where every FROM item is correlated with the instant that it is
looked at; DuckDB turns that into joins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from sqlglot import exp

from millpond.functions import references_in
from millpond.language.check.impossible import check_constants
from millpond.language.check.joins_written import check_types
from millpond.language.check.products import check_products
from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.inference.duck import Refused, describe
from millpond.language.plan.grouped_joins import grouped_plan
from millpond.language.plan.join_plans import WHOLE, join_plan
from millpond.language.plan.paired import bare_window, check_pairs, pair_checks, paired_window
from millpond.language.plan.probed_inputs import probes_of
from millpond.language.plan.relation_trees import RelationRef, bound_tree, describe_over
from millpond.language.plan.spreading import deal_of, hashes_of, spread_of, together_of
from millpond.language.render.rendering import render
from millpond.language.resolve.aggregate_windows import refuse_over_joins
from millpond.language.resolve.expressions import column, unqualified
from millpond.language.resolve.reductions_bound import bound_reduction
from millpond.language.resolve.registered_calls import with_registered
from millpond.language.resolve.relation_outputs import outputs_of
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.stream_unions import union_feeds
from millpond.language.rewrite.semi import looks_at_many
from millpond.language.rewrite.spelt_joins import spelt_out
from millpond.language.rewrite.validity import times_needed, with_tolerances
from millpond.language.rewrite.weights import weigh
from millpond.language.syntax.nodes import CheckedCast, suffix_of, to_stream_of, window_of
from millpond.language.syntax.source_text import Source, nearest
from millpond.language.syntax.walks import is_cte, tables_of
from millpond.language.syntax.window_clause import WindowClause
from millpond.language.syntax.written_select import WrittenSelect
from millpond.support.sql import quote
from millpond.types import (
    HOLDS,
    WEIGHT,
    Column,
    ConstantInput,
    Driven,
    Elements,
    Feed,
    Joined,
    JoinPlan,
    PairsQuery,
    Recomputed,
    Reduction,
    RelationalQuery,
    RelationInput,
    RelationPlan,
    RelationQuery,
    RelationWindow,
    StreamDefinition,
)
from millpond.types.reduction_forms import reduction_text

#: The column that says which instant a row of a lifted input belongs to.
INSTANT = "_instant"

#: What a row of a reduced stream stands for.
_WEIGHT = Column(WEIGHT, "DOUBLE")

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
        raise source.error("the query is nested too deeply") from None


def bind_join(select: exp.Select, source: Source, schema: Schema) -> RelationalQuery:
    """Bind the join of a stream without a window and tables: SQL over rows of each of them."""
    return _Binder(select, "", source, schema, True).bind()


#: ISTREAM, DSTREAM, RSTREAM and PAIRS.
_Operator = Literal["istream", "dstream", "rstream", "pairs"]


class _Binder:
    def __init__(self, select: exp.Expr, text: str, source: Source, schema: Schema, standing: bool) -> None:
        self.select, self.text, self.source, self.schema, self.standing = select, text, source, schema, standing
        self.pairs = False
        self.streams: dict[str, StreamDefinition] = {}
        self.windows: dict[str, RelationWindow] = {}
        self.reductions: dict[str, Reduction] = {}
        self.reduced: dict[str, tuple[int, int]] = {}
        self.feeds: dict[str, tuple[Feed, ...]] = {}
        self.marks: dict[str, list[str]] = {}
        names = [node.name.lower() for node in select.find_all(exp.Identifier)]
        self.names = frozenset(names) | times_needed(select, schema)
        aliases = {t.alias_or_name.lower() for t in tables_of(select)}
        whole_rows = any(not c.table and c.name.lower() in aliases for c in select.find_all(exp.Column))
        natural = any(j.method for j in select.find_all(exp.Join))
        self.all_columns = whole_rows or natural or any(True for _ in self._stars())

    def _stars(self) -> Iterator[exp.Expr]:
        for star in self.select.find_all(exp.Star):
            call = star.parent
            if not (isinstance(call, exp.Anonymous) and str(call.this).lower() == "count"):
                yield star

    def bind(self) -> RelationalQuery:
        operator = self.operator()
        self.pairs = operator == "pairs"
        refuse_over_joins(self.select, self.text, self.source)
        tree, refs = bound_tree(self.select, self.source, self.schema, self.stream_item)
        if not self.streams:
            raise self.source.error("a relation of CQL needs a stream", None, "FROM stream [RANGE 5 MINUTES]")
        self.check_inputs(refs)
        weigh(tree, self.reduced, self.source)
        columns = self.described(tree, refs)
        pushed = self.pushed(tree)
        columns_of = {ref.alias: ref.columns for ref in refs}
        check_types(tree, columns_of, self.source)
        if self.marks:
            refs = tuple(replace(r, columns=(*r.columns, _HOLDS)) if r.alias in self.marks else r for r in refs)
        elements = self.elements(tree)
        spelt = spelt_out(tree, columns_of)
        paired = pair_checks(spelt, columns_of) if self.pairs and spelt is not None else {}
        inputs = tuple(
            RelationInput(
                ref.alias,
                ref.name,
                self.windows[ref.alias],
                ref.columns,
                _together(pushed.get(ref.alias, ())),
                self.checks(tree, ref) if elements else paired.get(ref.alias, ()),
                self.reductions.get(ref.alias),
                signed=self.streams[ref.alias].takes_back,
                feeds=self.feeds[ref.alias],
                mark=_together(self.marks.get(ref.alias, ())),
            )
            for ref in refs
            if ref.kind == "stream"
        )
        check_products(spelt, self.select, columns_of, self.source)
        common: dict[str, Any] = {
            "select": outputs_of(columns),
            "text": self.text,
            "inputs": inputs,
            "tables": tuple(ConstantInput(r.alias, r.kind, r.name, r.columns) for r in refs if r.kind != "stream"),
            **self.rendered(tree, refs),
        }
        whole = elements or bool(self.reduced)
        joined = None if whole else join_plan(spelt, columns_of, self.item_at, set(self.streams), self.pairs)
        if operator == "pairs":
            times = [self.streams[r.alias].options.time for r in refs if r.kind == "stream"]
            join = check_pairs(tree, refs, self.windows, self.reduced, self.source, joined, times)
            return PairsQuery(join=join, **common)
        plan = Elements() if elements else self.plan(tree, spelt, refs, inputs, joined, operator)
        return RelationQuery(operator=operator, plan=plan, **common)

    def check_inputs(self, refs: Sequence[RelationRef]) -> None:
        """Refuse a standing query over what changes with time and is no stream."""
        for ref in refs:
            if self.standing and ref.kind not in ("stream", "table"):
                raise self.source.error(
                    f"'{ref.name}' changes with time: a standing query reads streams and tables",
                    next((t for t in tables_of(self.select) if t.name.lower() == ref.name.lower()), None),
                    "a stream with a window, or a table",
                )

    def rendered(self, tree: exp.Expr, refs: tuple[RelationRef, ...]) -> dict[str, str | None]:
        """The SELECT over the inputs at one instant, and lifted to the instants of a relation."""
        plain = render(self.at(tree.copy(), None))
        instants = "i" + max((ref.alias for ref in refs), key=len)
        while instants.lower() in self.names:
            instants = "_" + instants
        return {"sql": plain, "lifted": self.lifted(tree, instants, refs), "instants": instants}

    def plan(
        self,
        tree: exp.Expr,
        spelt: exp.Select | None,
        refs: tuple[RelationRef, ...],
        inputs: tuple[RelationInput, ...],
        joined: JoinPlan | None,
        operator: _Operator | None,
    ) -> RelationPlan:
        """How the answer of a query that looks at several rows follows from its inputs."""
        columns_of = {ref.alias: ref.columns for ref in refs}
        if operator != "rstream" and (rowwise := self.rowwise(tree)) is not None:
            return Elements(rowwise)
        # Rows that are taken back need the others.
        if not self.reduced and not any(i.signed or i.feeds for i in inputs):
            probed = probes_of(tree, self.streams, self.windows)
            if probed is not None and probed[1]:
                return Driven(*probed)
        if joined is not None and operator != "rstream":
            whole = tree if spelt is None else spelt
            spread = spread_of(whole, joined, columns_of, self.windows)
            joined = replace(joined, spread=spread, deal=deal_of(joined, spread, self.windows))
            if not spread:
                joined = replace(joined, hashes=hashes_of(whole, joined, columns_of, self.windows))
                joined = together_of(joined, self.windows, {a: s.name for a, s in self.streams.items()})
            return Joined(joined)
        if self.reduced or any(i.signed for i in inputs):
            return Recomputed()
        described = partial(self.described, refs=refs)
        return grouped_plan(spelt, columns_of, self.windows, self.item_at, described)

    def described(self, tree: exp.Expr, refs: tuple[RelationRef, ...]) -> tuple[Column, ...]:
        """The columns of a bound SELECT, at one instant."""
        return describe_over(tree, lambda each: render(self.at(each, None)), refs, self.select, self.source)

    def operator(self) -> _Operator | None:
        """ISTREAM, DSTREAM, RSTREAM or PAIRS, which stand in the outermost SELECT alone."""
        root = self.select
        while isinstance(root, exp.Subquery):
            root = root.this
        for each in self.select.find_all(exp.Select):
            found = to_stream_of(each)
            if found is not None and each is not root:
                raise self.source.error(
                    f"{found.word.upper()} makes a stream of a whole query: it stands in the outermost SELECT",
                    found.place,
                    f"SELECT {found.word.upper()}(*) FROM (SELECT … UNION ALL SELECT …)",
                )
        mark = to_stream_of(root) if isinstance(root, exp.Select) else None
        return mark.word if mark is not None else None

    def stream_item(self, table: exp.Table, stream: StreamDefinition, alias: str) -> RelationRef:
        """A FROM item that is a stream: a bare one is [RANGE UNBOUNDED]."""
        source = self.source
        if revisions := suffix_of(table).revisions:
            raise source.error("ALL REVISIONS is for the answers of a query, and this is a stream", revisions)
        clause = window_of(table)
        if clause is None and self.pairs:
            clause = bare_window(table, self.select, source)
        self.streams[alias] = stream
        self.feeds[alias] = union_feeds(table, stream, self.schema, source)
        self.windows[alias] = self.window(clause, stream) if clause is not None else RelationWindow("unbounded")
        partition = {name.lower() for name in self.windows[alias].partition}
        columns = tuple(
            c
            for c in stream.all_columns
            if self.all_columns or c.name.lower() in self.names or c.name.lower() in partition
        )
        if not columns:
            columns = tuple(c for c in stream.all_columns if c.name.lower() == stream.options.time.lower())
        reduction = bound_reduction(table, self.schema, source)
        if reduction is not None:
            if stream.takes_back:
                raise source.error(f"REDUCE is not available over {stream.name}, whose rows take others back", table)
            clause_of = suffix_of(table).reduce
            assert clause_of is not None
            self.reduced[alias] = clause_of.place
            if not reduction.samples or reduction.function == "error":
                raise source.error(
                    f"REDUCE {reduction_text(reduction)} is not for relations", self.reduced[alias],
                    "REDUCE sample(0.9), age('7 days', 0.9), load(), or a function that was registered",
                )  # fmt: skip
            self.reductions[alias] = reduction
            columns = (*columns, _WEIGHT)
        if stream.takes_back and all(c.name != "op" for c in columns):
            columns += tuple(c for c in stream.all_columns if c.name == "op")
        return RelationRef(alias, "stream", stream.name, columns)

    def window(self, clause: WindowClause, stream: StreamDefinition) -> RelationWindow:
        """The window in brackets, with its columns checked."""
        source = self.source
        if self.pairs and not clause.partition:
            self.check_time(clause, stream)
            return paired_window(clause, source)
        if not clause.is_relation or clause.extent == "all":
            raise source.error(
                "a window with SLIDE has answers where it ends, and a relation is defined at every instant",
                clause.place,
                "the same window without SLIDE; of a join: FROM (a [RANGE 5 MINUTES] JOIN b [NOW] ON …) and this window"
                " behind the parentheses",
            )
        self.check_time(clause, stream)
        partition = []
        for name, place in clause.partition:
            found = stream.column(name)
            if found is None:
                like = nearest(name, self.names_of(stream))
                raise source.error(f"there is no column '{name}' in {stream.name}", place, like=like)
            partition.append(found.name)
        if clause.extent == "rows":
            return RelationWindow("rows", rows=clause.rows, partition=tuple(partition))
        if clause.extent == "unbounded":
            return RelationWindow("unbounded")
        return RelationWindow("range", range=clause.range - clause.open_end if clause.extent == "range" else 0)

    def check_time(self, clause: WindowClause, stream: StreamDefinition) -> None:
        """Refuse a window over another column than the event time."""
        source = self.source
        if clause.attribute is not None and clause.attribute.lower() != stream.options.time.lower():
            like = "" if stream.column(clause.attribute) else nearest(clause.attribute, self.names_of(stream))
            raise source.error(
                f"'{clause.attribute}' is not the event time of {stream.name}: windows of relations run over that",
                clause.attribute_place,
                f"ON {stream.options.time}",
                like,
            )

    @staticmethod
    def names_of(stream: StreamDefinition) -> list[str]:
        """Names of the stream's columns."""
        return [c.name for c in stream.all_columns]

    # --- rendering ----------------------------------------------------------------------------------------------------

    def at(self, tree: exp.Expr, instants: str | None) -> exp.Expr:
        """The tree with streams as derived tables of typed columns; at an instant of `instants` if given."""
        for table in list(tree.find_all(exp.Table)):
            stream = self.streams.get(table.name)
            if stream is None or is_cte(table):
                continue
            wanted = [c for c in stream.all_columns if self.all_columns or self._needs(table.name, c)]
            if not wanted:
                wanted = [c for c in stream.all_columns if c.name.lower() == stream.options.time.lower()]
            wanted += [_WEIGHT] if table.name in self.reductions else []
            casts: list[exp.Expr] = [
                exp.Alias(this=CheckedCast(this=column(c.name), kind=c.type), alias=_identifier(c.name)) for c in wanted
            ]
            inner = exp.Select(expressions=casts, from_=exp.From(this=exp.Table(this=_identifier(table.name))))
            if instants is not None:
                test = exp.EQ(this=_of(table.name, INSTANT), expression=_of(instants, INSTANT))
                inner.set("where", exp.Where(this=test))
            table.replace(exp.Subquery(this=inner, alias=table.args.get("alias")))
        return tree

    def item_at(self, item: exp.Expr) -> exp.Expr:
        """A FROM item as `at` has it."""
        around = exp.Select(expressions=[exp.Star()], from_=exp.From(this=item))
        found: exp.Expr = self.at(around, None).args["from_"].this
        return found

    def _needs(self, alias: str, each: Column) -> bool:
        partition = {name.lower() for name in self.windows[alias].partition}
        return each.name.lower() in self.names or each.name.lower() in partition

    def lifted(self, tree: exp.Expr, instants: str, refs: tuple[RelationRef, ...]) -> str | None:
        """The SQL for many instants at once; None when DuckDB cannot."""
        inner = render(self.at(tree.copy(), instants))
        i = quote(instants)
        sql = f'SELECT {i}."{INSTANT}", q.* FROM {i}, LATERAL ({inner}) AS q'
        empty = [f'{i} AS (SELECT CAST(NULL AS BIGINT) AS "{INSTANT}")']
        for ref in refs:
            fields = [f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in ref.columns]
            if ref.kind == "stream":
                fields.append(f'CAST(NULL AS BIGINT) AS "{INSTANT}"')
            empty.append(f"{quote(ref.alias)} AS (SELECT {', '.join(fields)})")
        try:
            describe(f"SELECT * FROM (WITH {', '.join(empty)} SELECT * FROM ({sql}) AS q) AS q")
        except Refused:
            return None
        return sql

    # --- plans --------------------------------------------------------------------------------------------------------

    def elements(self, tree: exp.Expr) -> bool:
        """Whether the query is select and project over one window: its answer is a function of single rows."""
        if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Query))) > 1:
            return False
        if any(tree.args.get(key) for key in ("joins", *WHOLE)) or (clause := tree.args.get("from_")) is None:
            return False
        if not isinstance(clause.this, exp.Table) or clause.this.name not in self.streams:
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
        if any(not isinstance(i, exp.Table) for i in items) or first.name not in self.streams or self.reduced:
            return None
        if any(i.name in self.streams for i in items[1:]) or any(j.side in ("RIGHT", "FULL") for j in joins):
            return None
        if self.windows[first.name].kind != "range" or self.streams[first.name].takes_back or self.feeds[first.name]:
            return None
        if looks_at_many(tree) or any(e.find(exp.Star) is not None for e in tree.expressions):
            return None
        alias = first.alias_or_name
        found = self.at(tree.copy(), None)
        found.args["from_"].this.this.append("expressions", column(INSTANT))
        found.set("expressions", [_of(alias, INSTANT), *found.expressions])
        return render(found)

    def pushed(self, tree: exp.Expr) -> dict[str, list[str]]:
        """Factors of WHERE that go below a window: about one stream, whose window is of time (digest D8).

        Those that call registered functions are taken out of the tree, so that they are asked once for a row. Of a
        window that ends with rows none goes below; where one calls a function they are `marks`: asked when a row
        comes, and kept with it.
        """
        found: dict[str, list[str]] = {}
        kept: list[exp.Expr] = []
        items = self.inner_items(tree)
        clause = tree.args.get("where")
        if not items or clause is None:
            return found
        factors = conjuncts(clause.this)
        for node, negated in factors:
            alias = self.item_of(node, items)
            if alias not in self.windows:
                kept.append(_factor(node, negated))
                continue
            own = unqualified(node)
            check_constants([(own, negated)], self.streams[alias].all_columns, [self.select], self.source)
            text = render(_factor(own, negated))
            if self.windows[alias].kind != "rows":
                found.setdefault(alias, []).append(text)
            elif references_in(text):
                self.marks.setdefault(alias, []).append(text)
            if not references_in(text):
                kept.append(_factor(node, negated))
        if len(kept) < len(factors):
            tree.set("where", exp.Where(this=exp.and_(*kept, copy=False)) if kept else None)
        return found

    @staticmethod
    def inner_items(tree: exp.Expr) -> list[exp.Table]:
        """The FROM items of a SELECT that are all joined as an inner join, and are names; else nothing."""
        if not isinstance(tree, exp.Select) or tree.args.get("from_") is None or tree.args.get("with_"):
            return []
        joins = tree.args.get("joins") or []
        if any(j.side or j.method or j.kind not in ("", "INNER", "CROSS") for j in joins):
            return []
        items = [tree.args["from_"].this, *(j.this for j in joins)]
        return items if all(isinstance(i, exp.Table) for i in items) else []

    def item_of(self, node: exp.Expr, items: list[exp.Table]) -> str:
        """The stream whose columns alone an expression is about; '' if there is no such stream."""
        if node.find(exp.Query, exp.Window) is not None:
            return ""
        owners = set()
        for each in node.find_all(exp.Column):
            owner = [i.name for i in items if self._owns(i, each)]
            if len(owner) != 1 or owner[0] not in self.streams:
                return ""
            owners.add(owner[0])
        return owners.pop() if len(owners) == 1 else ""

    def _owns(self, item: exp.Table, each: exp.Column) -> bool:
        """Whether a FROM item may be what a column belongs to; one whose columns are not known always may."""
        alias = item.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return True
        if each.table:
            return item.alias_or_name.lower() == each.parts[0].name.lower() and len(each.parts) == 2
        stream = self.streams.get(item.name)
        return stream is None or stream.column(each.name) is not None

    def checks(self, tree: exp.Expr, ref: RelationRef) -> tuple[str, ...]:
        """What can fail on a row, of a query that is a function of single rows."""
        assert isinstance(tree, exp.Select)
        items = [tree.args["from_"].this]
        nodes = [i.this if isinstance(i, exp.Alias) else i for i in tree.expressions]
        if (clause := tree.args.get("where")) is not None and self.windows[ref.alias].kind == "rows":
            nodes.append(clause.this)
        found = []
        for node in nodes:
            if isinstance(node, exp.Star | exp.Column | exp.Literal) or node.find(exp.Star) is not None:
                continue
            if self.item_of(node, items) == ref.alias:
                found.append(render(unqualified(node)))
        return tuple(found)


def _factor(node: exp.Expr, negated: bool) -> exp.Expr:
    """A factor by itself."""
    return exp.Not(this=exp.Paren(this=node.copy())) if negated else node.copy()


def _together(factors: Sequence[str]) -> str | None:
    """Factors as one condition; None without any."""
    return " AND ".join(f"({each})" for each in factors) or None


def _identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)


def _of(table: str, name: str) -> exp.Column:
    return exp.Column(this=_identifier(name), table=_identifier(table))
