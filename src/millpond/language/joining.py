"""Which CQL queries are joins of windows whose answer follows from intervals of validity, and their parts.

A row of a join is in the answer while all its parts are in their windows: the intersection of their intervals. Such a
query needs no look at instants between (`relations.joining`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from sqlglot import exp

from millpond.language.dialect import render
from millpond.language.duck import quote
from millpond.language.expressions import unqualified
from millpond.language.factors import conjuncts
from millpond.language.join_graphs import alike_of
from millpond.language.semi import looks_at_many, without_subquery
from millpond.language.using import without_using
from millpond.types import Column, JoinCondition, JoinEquality, JoinPlan

#: What a SELECT beside its joins must not have: its answer would not be a function of single joined rows.
WHOLE = ("group", "having", "qualify", "distinct", "windows", "order", "limit", "offset", "with_")

#: Types of columns whose values an answer has as they are stored.
_AS_STORED = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN")
}

Kind = Literal["inner", "left", "right", "full", "semi", "anti", "asof", "asof left"]

_KINDS: Mapping[tuple[str, str], Kind] = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner", ("LEFT", ""): "left", ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right", ("RIGHT", "OUTER"): "right", ("FULL", ""): "full", ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi", ("", "ANTI"): "anti", ("LEFT", "SEMI"): "semi", ("LEFT", "ANTI"): "anti",
}  # fmt: skip


#: ASOF joins by side.
_ASOF: Mapping[str, Kind] = {"": "asof", "LEFT": "asof left"}


def join_plan(
    tree: exp.Expr,
    columns: Mapping[str, Sequence[Column]],
    at: Callable[[exp.Expr], exp.Expr],
    streams: set[str],
    asof: bool = False,
) -> JoinPlan | None:
    """The parts of a join of windows; None when the query is something else.

    Arguments:
        tree: the bound SELECT, whose FROM items have generated names.
        columns: of each generated name.
        at: gives a FROM item as a derived table of typed columns.
        streams: the generated names that are windowed streams. asof: whether ASOF joins are among what is planned.
    """
    spelt = spelt_out(tree, columns)
    if spelt is None or len(list(spelt.find_all(exp.Query))) > 1:
        return None
    tree, joins = spelt, spelt.args.get("joins") or []
    if any(tree.args.get(key) for key in WHOLE) or (clause := tree.args.get("from_")) is None or not joins:
        return None
    kinds = {_KINDS.get((j.side, j.kind)) for j in joins}
    items = [clause.this, *(j.this for j in joins)]
    if None in kinds or any(not isinstance(i, exp.Table) or i.name not in columns for i in items):
        return None
    if any((alias := i.args.get("alias")) is not None and alias.args.get("columns") for i in items):
        return None
    if (kinds != {"inner"} and len(items) > 2) or not streams & {i.name for i in items}:
        return None
    if looks_at_many(tree):
        return None
    kind = _KINDS[joins[0].side, joins[0].kind]
    if any(j.method for j in joins):
        if not asof or len(joins) > 1 or joins[0].kind or joins[0].side not in _ASOF:
            return None
        kind = _ASOF[joins[0].side]
    if kind in ("semi", "anti") and (items[0].name not in streams):
        return None
    tests = [j.args["on"] for j in joins if j.args.get("on")]
    where = tree.args["where"].this if tree.args.get("where") is not None else None
    if kind == "inner":
        tests += [where] if where is not None else []
        where = None
    shown = items[:1] if kind in ("semi", "anti") else items
    select = _select(tree.expressions, shown)
    if select is None:
        return None
    owner = Owners(items, columns)
    equalities, residual = [], []
    everything = set(range(len(items)))
    for test in tests:
        for node, negated in conjuncts(test):
            left = right = None
            if isinstance(node, exp.EQ) and not negated:
                left, right = owner.of(node.this), owner.of(node.expression)
            if left is not None and right is not None and left != right:
                equalities.append(
                    JoinEquality(left, render(unqualified(node.this)), right, render(unqualified(node.expression)))
                )
            else:
                about = owner.all_of(node)
                about = everything if about is None else about
                residual.append(JoinCondition(tuple(sorted(about)), f"({'NOT ' if negated else ''}({render(node)}))"))
    sources = tuple(render(at(i.copy())) for i in items)
    on = " AND ".join(c.sql for c in residual) or None
    return JoinPlan(
        kind,
        tuple(i.name for i in items),
        sources,
        tuple(equalities),
        on,
        render(where) if where is not None else None,
        select,
        plain=_plain(tree.expressions, shown, owner, columns),
        conditions=tuple(residual),
        names=tuple(i.alias_or_name for i in items),
        alike=alike_of(equalities, [columns[i.name] for i in items]) if kind == "inner" else (),
    )


def spelt_out(tree: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> exp.Select | None:
    """A SELECT whose joins all stand in FROM, with ON; None when it cannot be put so."""
    return without_using(without_subquery(tree, columns), columns) if isinstance(tree, exp.Select) else None


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


class Owners:
    """Which FROM item an expression is about."""

    def __init__(self, items: Sequence[exp.Table], columns: Mapping[str, Sequence[Column]]) -> None:
        self.names = [i.alias_or_name.lower() for i in items]
        self.columns = [{c.name.lower() for c in columns[i.name]} for i in items]

    def of(self, node: exp.Expr) -> int | None:
        """The number of the only item whose columns an expression has; None: none, or several."""
        found = self.all_of(node)
        return found.pop() if found is not None and len(found) == 1 else None

    def all_of(self, node: exp.Expr) -> set[int] | None:
        """The numbers of the items whose columns an expression has; None where that is not known of a column."""
        found: set[int] = set()
        for each in node.find_all(exp.Column):
            if each.table:
                if len(each.parts) != 2:
                    return None
                owners = [n for n, name in enumerate(self.names) if name == each.parts[0].name.lower()]
            else:
                owners = [n for n, names in enumerate(self.columns) if each.name.lower() in names]
            if len(owners) != 1 or each.name.lower() not in self.columns[owners[0]]:
                return None
            found.add(owners[0])
        return found
