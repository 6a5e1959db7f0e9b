"""JOIN … USING (k) and NATURAL JOIN as joins ON equalities, with the columns that they merge spelt out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from sqlglot import exp

from millpond.types import Column


def without_using(select: exp.Select, columns: Mapping[str, Sequence[Column]]) -> exp.Select | None:
    """The same SELECT with ON in the place of USING and NATURAL.

    A merged column is that of the side whose rows are all there: the left one, under RIGHT the right one, under FULL
    the one that is not NULL. `*` shows it once, where it stands first.

    Arguments:
        select: a bound SELECT whose FROM items have generated names. columns: of each of these names.
    Returns:
        The SELECT itself when it has neither; None when it has something that is not understood here.
    """
    joins = select.args.get("joins") or []
    if not any(j.method == "NATURAL" or j.args.get("using") for j in joins):
        return select
    if any(j.method not in ("", "NATURAL") for j in joins):
        return None
    tree = select.copy()
    clause, joins = tree.args.get("from_"), tree.args["joins"]
    if clause is None:
        return None
    items = [clause.this, *(j.this for j in joins)]
    if any(not isinstance(i, exp.Table) or i.name not in columns for i in items):
        return None
    own = [{c.name.lower(): c.name for c in columns[i.name]} for i in items]
    merged: dict[str, exp.Expr] = {}
    hidden: list[set[str]] = [set() for _ in items]
    for number, join in enumerate(joins, 1):
        shared = [i.name.lower() for i in join.args.get("using") or []]
        if join.method == "NATURAL":
            shared = [n for n in own[number] if any(n in before for before in own[:number])]
        tests: list[exp.Expr] = []
        for name in shared:
            owner = next((n for n in range(number) if name in own[n]), None)
            if owner is None or name not in own[number]:
                return None
            left = merged.get(name, _column(items[owner], own[owner][name]))
            right = _column(items[number], own[number][name])
            tests.append(exp.EQ(this=left.copy(), expression=right.copy()))
            whole = {"RIGHT": right, "FULL": exp.Anonymous(this="coalesce", expressions=[left.copy(), right.copy()])}
            merged[name] = whole.get(join.side, left)
            hidden[number].add(name)
        if tests:
            join.set("on", reduce(lambda a, b: exp.And(this=a, expression=b), tests))
        join.set("using", None)
        join.set("method", None)
    shown = items[:1] if joins[0].kind in ("SEMI", "ANTI") else items
    spelt = [
        merged[name] if name in merged else _column(item, known)
        for item, names, gone in zip(shown, own, hidden, strict=False)
        for name, known in names.items()
        if name not in gone
    ]
    expressions: list[exp.Expr] = []
    for each in tree.expressions:
        plain = isinstance(each, exp.Star) and not any(each.args.values())
        expressions += [s.copy() for s in spelt] if plain else [each]
    tree.set("expressions", expressions)
    for node in list(tree.find_all(exp.Column)):
        if not node.table and node.name.lower() in merged:
            node.replace(merged[node.name.lower()].copy())
    return tree


def _column(item: exp.Table, name: str) -> exp.Column:
    return exp.Column(
        this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=item.alias_or_name, quoted=True)
    )
