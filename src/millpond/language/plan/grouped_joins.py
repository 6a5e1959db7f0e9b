"""Which aggregates over joins follow from the joined rows that enter and leave, and their parts.

Counts, sums and averages can be taken back: what is known of a group at one instant, with the rows that enter and
without those that leave, is what is known of it at another (Babu 2005, 2.4; differential aggregates in the sense of
Li 2008, 6.3). Of all others (min, max, DISTINCT, quantiles, …) the rows are needed, and the answer is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from millpond.language.builtins.allowed import RELATION_AGGREGATES
from millpond.language.plan.join_plans import WHOLE, join_plan
from millpond.language.plan.spreading import spread_of
from millpond.language.render.rendering import render
from millpond.language.resolve.expressions import grouped_by
from millpond.language.resolve.item_owners import Owners
from millpond.language.rewrite.semi import looks_at_many
from millpond.types import (
    Column,
    CountedArgument,
    DecimalArgument,
    Expression,
    FloatingArgument,
    GroupArgument,
    Grouped,
    Grouping,
    Recomputed,
    RelationWindow,
    WholeArgument,
)

#: What else must not stand beside GROUP BY and HAVING.
_OTHERS = tuple(key for key in WHOLE if key not in ("group", "having"))

#: Types of whole numbers, whose sums are exact.
_WHOLE_NUMBERS = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "BOOLEAN")
}


class Unfit(Exception):
    """The aggregates do not follow from rows that enter and leave. The text says why, for EXPLAIN."""


def grouped_plan(
    tree: exp.Select | None,
    columns: Mapping[str, Sequence[Column]],
    windows: Mapping[str, RelationWindow],
    at: Callable[[exp.Expr], exp.Expr],
    described: Callable[[exp.Select], Sequence[Column]],
) -> Grouped | Recomputed:
    """The plan of a query that is no join itself: aggregates over one where they follow from its rows.

    Arguments:
        tree, columns, at: as of `join_plan`. windows: of the inputs that are streams.
        described: gives the columns of a SELECT over the FROM items.
    """
    try:
        parts = grouped_select(tree, columns)
        joined = None if parts is None else join_plan(parts.rows, columns, at, set(windows))
        if tree is None or parts is None or joined is None:
            return Recomputed()
        grouping = grouping_of(parts, described(parts.rows.copy()))
    except Unfit as unfit:
        return Recomputed(str(unfit))
    # Rows of a group are in one shard, so the rows of a frequent key are not salted.
    spread = spread_of(tree, joined, columns, windows)
    placed = placed_by(parts, columns, spread)
    return Grouped(replace(joined, spread=spread if placed else ()), replace(grouping, placed=placed))


@dataclass
class GroupedSelect:
    """A SELECT with aggregates over a join, taken apart.

    rows: the SELECT of what is known of each joined row: keys of its group, then the aggregates' arguments.
    select, having: DuckDB SQL over k0, k1, … (keys), n (rows of a group), v0, s0, v1, … (how many values of an argument
    are not NULL, and their sum). summed: the arguments of which sums are needed. whole: all rows are one group.
    """

    rows: exp.Select
    select: tuple[str, ...]
    having: str | None
    keys: int
    arguments: int
    summed: frozenset[int]
    whole: bool


def grouped_select(spelt: exp.Select | None, columns: Mapping[str, Sequence[Column]]) -> GroupedSelect | None:
    """The parts of a SELECT with aggregates over a join; None when it is something else.

    Arguments:
        spelt: as `rewrite.spelt_joins.spelt_out` gives it. columns: of each generated name.
    Raises: Unfit.
    """
    if spelt is None or not (spelt.args.get("group") or _aggregates(spelt)):
        return None
    clause, joins = spelt.args.get("from_"), spelt.args.get("joins") or []
    items = [] if clause is None else [clause.this, *(j.this for j in joins)]
    if not joins or any(not isinstance(i, exp.Table) or i.name not in columns for i in items):
        return None
    present = [key for key in _OTHERS if spelt.args.get(key)]
    if present or len(list(spelt.find_all(exp.Query))) > 1:
        raise Unfit(f"{present[0].upper().replace('_', '')} needs all rows" if present else "it has nested queries")
    return _Reader(spelt, Owners(items, columns)).read()


def _aggregates(tree: exp.Select) -> bool:
    """Whether the select list has aggregates."""
    return any(looks_at_many(each) for each in tree.expressions)


@dataclass
class _Reader:
    tree: exp.Select
    owners: Owners
    keys: list[exp.Expr] = field(default_factory=list)
    arguments: list[exp.Expr] = field(default_factory=list)
    summed: set[int] = field(default_factory=set)

    def read(self) -> GroupedSelect:
        group = self.tree.args.get("group")
        if group is not None:
            self.keys = self.keys_of(group)
        self._known = [self.told(k) for k in self.keys]
        select = tuple(render(self.over_groups(_plain(e))) for e in self.tree.expressions)
        having = self.tree.args.get("having")
        test = None if having is None else render(self.over_groups(having.this))
        rows = self.tree.copy()
        for key in ("group", "having"):
            rows.set(key, None)
        listed = [*self.keys, *self.arguments] or [exp.Literal.number(1)]
        named = [exp.alias_(e.copy(), f"c{n}", quoted=True) for n, e in enumerate(listed)]
        rows.set("expressions", named)
        whole = not self.keys
        return GroupedSelect(rows, select, test, len(self.keys), len(self.arguments), frozenset(self.summed), whole)

    def keys_of(self, group: exp.Group) -> list[exp.Expr]:
        """What rows are grouped by: expressions over the FROM items."""
        if any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets", "totals")):
            raise Unfit("it has several groupings")
        shown = [_plain(e) for e in self.tree.expressions]
        if group.args.get("all"):
            return [e for e in shown if not looks_at_many(exp.Paren(this=e.copy()))]
        named = {e.alias.lower(): e.this for e in self.tree.expressions if isinstance(e, exp.Alias)}
        found = []
        for each in grouped_by(group):
            digits = each.name if isinstance(each, exp.Literal) and not each.is_string else ""
            if digits.isdigit() and 0 < int(digits) <= len(shown):
                each = shown[int(digits) - 1]
            elif isinstance(each, exp.Column) and not each.table and self.owners.all_of(each) is None:
                each = named.get(each.name.lower(), each)
            found.append(each)
        return found

    def told(self, node: exp.Expr) -> str:
        """An expression as a text that does not depend on how its columns are qualified."""
        around = exp.Paren(this=node.copy())
        for each in list(around.find_all(exp.Column)):
            owner = self.owners.of(each)
            if owner is None:
                raise Unfit("it is not known which input a column belongs to")
            each.replace(exp.column(each.name.lower(), f"i{owner}", quoted=True))
        return render(around.this)

    def over_groups(self, node: exp.Expr) -> exp.Expr:
        """An expression of the select list or of HAVING over what is known of a group."""
        around = exp.Paren(this=node.copy())

        def replaced(each: exp.Expr) -> exp.Expr:
            if each is around:
                return each
            if isinstance(each, exp.Star | exp.Query | exp.Window | exp.AggFunc):
                raise Unfit(f"{each.key.upper()} needs all rows of a group")
            if isinstance(each, exp.Filter) or _call(each) in RELATION_AGGREGATES:
                return self.aggregate(each)
            if not looks_at_many(exp.Paren(this=each.copy())) and each.find(exp.Column) is not None:
                told = self.told(each) if isinstance(each, exp.Column) or each.find(exp.Query) is None else ""
                if told in self._known:
                    return exp.column(f"k{self._known.index(told)}")
            if isinstance(each, exp.Column):
                raise Unfit(f"{each.name} is no column that it is grouped by")
            return each

        return around.transform(replaced, copy=False)

    def aggregate(self, node: exp.Expr) -> exp.Expr:
        """A call of an aggregate as an expression over what is known of a group."""
        call, condition = node, None
        if isinstance(node, exp.Filter):
            call, condition = node.this, node.expression.this
        name = _call(call)
        given = call.expressions if isinstance(call, exp.Anonymous) else []
        if name not in ("count", "sum", "avg", "mean") or len(given) > 1 or call.args.get("order"):
            raise Unfit(f"{name or call.key}() needs all rows of a group")
        argument = given[0] if given else exp.Star()
        if isinstance(argument, exp.Distinct | exp.Order) or argument.find(exp.Query) is not None:
            raise Unfit(f"{name}(DISTINCT …) needs all rows of a group")
        if looks_at_many(exp.Paren(this=argument.copy())):
            raise Unfit(f"{name}() is over many rows of a group")
        star = isinstance(argument, exp.Star)
        if star and name != "count":
            raise Unfit(f"{name}(*) needs all rows of a group")
        if star and condition is None:
            return exp.column("n")
        value = exp.Literal.number(1) if star else argument
        if condition is not None:
            value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
        number = self.argument(value)
        count = exp.column(f"v{number}")
        if name == "count":
            return count
        self.summed.add(number)
        value = exp.column(f"s{number}" if name == "sum" else f"m{number}")
        some = exp.GT(this=count, expression=exp.Literal.number(0))
        return exp.Paren(this=exp.Case(ifs=[exp.If(this=some, true=value)]))

    def argument(self, value: exp.Expr) -> int:
        told = self.told(value)
        for number, other in enumerate(self.arguments):
            if self.told(other) == told:
                return number
        self.arguments.append(value.copy())
        return len(self.arguments) - 1


def grouping_of(parts: GroupedSelect, kinds: Sequence[Column]) -> Grouping:
    """The grouping, once the types of keys and arguments are known.

    Arguments:
        kinds: the columns of `parts.rows`.
    Raises: Unfit.
    """
    arguments: list[GroupArgument] = []
    for number in range(parts.arguments):
        told = kinds[parts.keys + number].type
        if number not in parts.summed:
            arguments.append(CountedArgument())
        elif told in _WHOLE_NUMBERS:
            arguments.append(WholeArgument())
        elif told.startswith("DECIMAL("):
            arguments.append(DecimalArgument(int(told[:-1].split(",")[1])))
        elif told in ("FLOAT", "DOUBLE"):
            arguments.append(FloatingArgument())
        else:
            raise Unfit(f"sums of {told} need all rows of a group")
    keys = tuple(c.type for c in kinds[: parts.keys])
    if any(k.startswith("ENUM(") for k in keys):
        raise Unfit("it is grouped by an ENUM")
    return Grouping(keys, tuple(arguments), parts.select, parts.having, parts.whole)


def placed_by(
    parts: GroupedSelect, columns: Mapping[str, Sequence[Column]], spread: Sequence[Expression | None]
) -> str:
    """`Grouping.placed` where rows are spread by some columns; '' where no key says where the rows of a group are.

    Arguments:
        columns: of each FROM item's input. spread: see `JoinPlan.spread`.
    """
    if not spread:
        return ""
    items = [parts.rows.args["from_"].this, *(j.this for j in parts.rows.args.get("joins") or [])]
    owners, found = Owners(items, columns), []
    for number, key in enumerate(parts.rows.expressions[: parts.keys]):
        node = _plain(key)
        owner = owners.of(node) if isinstance(node, exp.Column) else None
        key = None if owner is None else spread[owner]
        if key is not None and node.name.lower() in map(str.lower, key.columns):
            found.append(f"CAST(k{number} AS {key.type})")
    return f"coalesce({', '.join(found)})" if found else ""


def _plain(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def _call(node: exp.Expr) -> str:
    """The name of a function that is called, in small letters; '' where none is."""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) and isinstance(node.this, str) else ""
