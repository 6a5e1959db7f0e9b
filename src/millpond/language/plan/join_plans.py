"""Which CQL queries are joins of windows whose answer follows from intervals of validity, and their parts.

A row of a join is in the answer while all its parts are in their windows: the intersection of their intervals. Such a
query needs no look at instants between (`relations.joining`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.plan.alike import alike_of
from millpond.language.render.bound_expressions import expression_of
from millpond.language.render.rendering import render
from millpond.language.resolve.expressions import unqualified
from millpond.language.resolve.item_owners import Owners
from millpond.language.rewrite.semi import looks_at_many
from millpond.support.sql import quote
from millpond.types import Column, Expression, JoinCondition, JoinEquality, JoinPlan
from millpond.types.relation_queries import ANTI, ASOF, ASOF_LEFT, FULL, INNER, LEFT, RIGHT, SEMI, JoinKind

#: What a SELECT beside its joins must not have: its answer would not be a function of single joined rows.
WHOLE = ("group", "having", "qualify", "distinct", "windows", "order", "limit", "offset", "with_")

#: Types of columns whose values an answer has as they are stored.
_AS_STORED = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN")
}

_KINDS: Mapping[tuple[str, str], JoinKind] = {
    ("", ""): INNER, ("", "INNER"): INNER, ("", "CROSS"): INNER, ("LEFT", ""): LEFT, ("LEFT", "OUTER"): LEFT,
    ("RIGHT", ""): RIGHT, ("RIGHT", "OUTER"): RIGHT, ("FULL", ""): FULL, ("FULL", "OUTER"): FULL,
    ("", "SEMI"): SEMI, ("", "ANTI"): ANTI, ("LEFT", "SEMI"): SEMI, ("LEFT", "ANTI"): ANTI,
}  # fmt: skip


#: ASOF joins by side.
_ASOF: Mapping[str, JoinKind] = {"": ASOF, "LEFT": ASOF_LEFT}


def join_plan(
    tree: exp.Select | None,
    columns: Mapping[str, Sequence[Column]],
    at: Callable[[exp.Expr], exp.Expr],
    streams: set[str],
    asof: bool = False,
) -> JoinPlan | None:
    """The parts of a join of windows; None when the query is something else.

    Arguments:
        tree: as `rewrite.spelt_joins.spelt_out` gives it.
        columns: of each generated name.
        at: gives a FROM item as a derived table of typed columns.
        streams: the generated names that are windowed streams. asof: whether ASOF joins are among what is planned.
    """
    items = None if tree is None else _items(tree, columns)
    if tree is None or items is None or not streams & {i.name for i in items}:
        return None
    kind = _kind_of(tree.args["joins"], asof)
    if kind is None or (kind.first_only and items[0].name not in streams):
        return None
    shown = items[:1] if kind.first_only else items
    select = _select(tree.expressions, shown)
    if select is None:
        return None
    tests, where = _tests(tree, kind)
    owners = Owners(items, columns)
    equalities, residual = _conditions(
        tests, owners, [{c.name.lower(): c.type for c in columns[i.name]} for i in items]
    )
    return JoinPlan(
        kind,
        tuple(i.name for i in items),
        tuple(render(at(i.copy())) for i in items),
        equalities,
        " AND ".join(c.sql for c in residual) or None,
        render(where) if where is not None else None,
        select,
        plain=_plain(tree.expressions, shown, owners, columns),
        conditions=residual,
        names=tuple(i.alias_or_name for i in items),
        alike=alike_of(equalities) if kind.inner else (),
    )


def _items(tree: exp.Select, columns: Mapping[str, Sequence[Column]]) -> list[exp.Table] | None:
    """The FROM items of a join of single rows; None when the query is something else."""
    joins, clause = tree.args.get("joins") or [], tree.args.get("from_")
    if not joins or clause is None or any(tree.args.get(key) for key in WHOLE):
        return None
    if looks_at_many(tree) or len(list(tree.find_all(exp.Query))) > 1:
        return None
    items = [clause.this, *(j.this for j in joins)]
    if any(not isinstance(i, exp.Table) or i.name not in columns for i in items):
        return None
    if any((alias := i.args.get("alias")) is not None and alias.args.get("columns") for i in items):
        return None
    return items


def _kind_of(joins: Sequence[exp.Join], asof: bool) -> JoinKind | None:
    """The kind of a join; None for one that is not planned: of several kinds, or an outer one of more than two items.

    asof: whether ASOF joins are planned.
    """
    kinds = {_KINDS.get((j.side, j.kind)) for j in joins}
    if None in kinds or (kinds != {INNER} and len(joins) > 1):
        return None
    if not any(j.method for j in joins):
        return _KINDS[joins[0].side, joins[0].kind]
    return _ASOF.get(joins[0].side) if asof and len(joins) == 1 and not joins[0].kind else None


def _tests(tree: exp.Select, kind: JoinKind) -> tuple[list[exp.Expr], exp.Expr | None]:
    """What makes a joined row, and what the answer must pass beside that: nothing where the join is an inner one."""
    tests = [j.args["on"] for j in tree.args["joins"] if j.args.get("on")]
    where = tree.args["where"].this if tree.args.get("where") is not None else None
    if kind.inner and where is not None:
        return [*tests, where], None
    return tests, where


def _conditions(
    tests: Sequence[exp.Expr], owners: Owners, kinds: Sequence[Mapping[str, str]]
) -> tuple[tuple[JoinEquality, ...], tuple[JoinCondition, ...]]:
    """The equalities of two items among the factors of some conditions, and what they ask beside them.

    Arguments:
        kinds: the types of each item's columns, by their names in small letters.
    """

    def side(node: exp.Expr, item: int) -> Expression:
        found = expression_of(unqualified(node))
        return found.typed(kinds[item].get((found.column or "").lower(), ""))

    equalities, residual = [], []
    for node, negated in (factor for test in tests for factor in conjuncts(test)):
        left = right = None
        if isinstance(node, exp.EQ) and not negated:
            left, right = owners.of(node.this), owners.of(node.expression)
        if left is not None and right is not None and left != right:
            equalities.append(JoinEquality(left, side(node.this, left), right, side(node.expression, right)))
        else:
            about = owners.all_of(node)
            known = range(len(kinds)) if about is None else sorted(about)
            residual.append(JoinCondition(tuple(known), f"({'NOT ' if negated else ''}({render(node)}))"))
    return tuple(equalities), tuple(residual)


def _select(expressions: Sequence[exp.Expr], items: Sequence[exp.Table]) -> str | None:
    """The select list with `*` spelt out by item; None when it has other stars."""
    parts = []
    for each in expressions:
        if isinstance(each, exp.Star) and not any(each.args.values()):
            parts += [f"{quote(i.alias_or_name)}.*" for i in items]
        elif each.find(exp.Star) is not None and not (
            isinstance(each, exp.Column) and isinstance(each.this, exp.Star) and not any(each.this.args.values())
        ):
            return None
        else:
            parts.append(render(each))
    return ", ".join(parts)


def _plain(
    expressions: Sequence[exp.Expr], items: Sequence[exp.Table], owners: Owners, columns: Mapping[str, Sequence[Column]]
) -> tuple[tuple[int, str], ...]:
    """The item and column of each output, where all are columns of types that are stored as they are shown."""
    found: list[tuple[int, Column]] = []
    known = [{c.name.lower(): c for c in columns[i.name]} for i in items]
    for each in expressions:
        node = each.this if isinstance(each, exp.Alias) else each
        if isinstance(node, exp.Star):
            found += [(n, c) for n, item in enumerate(items) for c in columns[item.name]]
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            numbers = [n for n, name in enumerate(owners.names[: len(items)]) if name == node.table.lower()]
            found += [(n, c) for n in numbers for c in columns[items[n].name]]
        elif isinstance(node, exp.Column) and (owner := owners.of(node)) is not None and owner < len(items):
            found.append((owner, known[owner][node.name.lower()]))
        else:
            return ()
    return tuple((n, c.name) for n, c in found) if all(c.type in _AS_STORED for _, c in found) else ()
