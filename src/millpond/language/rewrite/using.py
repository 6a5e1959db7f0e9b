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
    clause = tree.args.get("from_")
    items = [] if clause is None else [clause.this, *(j.this for j in tree.args["joins"])]
    if not items or any(not isinstance(i, exp.Table) or i.name not in columns for i in items):
        return None
    merging = _Merging(items, [{c.name.lower(): c.name for c in columns[i.name]} for i in items])
    if not all([merging.spell_out(join) for join in tree.args["joins"]]):
        return None
    shown = items[:1] if joins[0].kind in ("SEMI", "ANTI") else items
    spelt = merging.columns(shown)
    expressions: list[exp.Expr] = []
    for each in tree.expressions:
        plain = isinstance(each, exp.Star) and not any(each.args.values())
        expressions += [s.copy() for s in spelt] if plain else [each]
    tree.set("expressions", expressions)
    for node in list(tree.find_all(exp.Column)):
        if not node.table and node.name.lower() in merging.merged:
            node.replace(merging.merged[node.name.lower()].copy())
    return tree


class _Merging:
    """The columns that joins merge, join by join.

    Arguments:
        items: FROM items. own: of each, its columns by their names in small letters.
    """

    def __init__(self, items: Sequence[exp.Table], own: Sequence[Mapping[str, str]]) -> None:
        self.items, self.own = items, own
        self.merged: dict[str, exp.Expr] = {}
        self.hidden: list[set[str]] = [set()]

    def spell_out(self, join: exp.Join) -> bool:
        """Give the next join ON in the place of USING or NATURAL; False where a column is not on both sides."""
        number = len(self.hidden)
        self.hidden.append(set())
        before, own = self.own[:number], self.own[number]
        shared = [i.name.lower() for i in join.args.get("using") or []]
        if join.method == "NATURAL":
            shared = [n for n in own if any(n in names for names in before)]
        tests: list[exp.Expr] = []
        for name in shared:
            owner = next((n for n, names in enumerate(before) if name in names), None)
            if owner is None or name not in own:
                return False
            left = self.merged.get(name, _column(self.items[owner], before[owner][name]))
            right = _column(self.items[number], own[name])
            tests.append(exp.EQ(this=left.copy(), expression=right.copy()))
            whole = {"RIGHT": right, "FULL": exp.Anonymous(this="coalesce", expressions=[left.copy(), right.copy()])}
            self.merged[name] = whole.get(join.side, left)
            self.hidden[number].add(name)
        if tests:
            join.set("on", reduce(lambda a, b: exp.And(this=a, expression=b), tests))
        join.set("using", None)
        join.set("method", None)
        return True

    def columns(self, shown: Sequence[exp.Table]) -> list[exp.Expr]:
        """What `*` shows of the first items: merged columns once, where they stand first."""
        return [
            self.merged[name] if name in self.merged else _column(item, known)
            for item, names, gone in zip(shown, self.own, self.hidden, strict=False)
            for name, known in names.items()
            if name not in gone
        ]


def _column(item: exp.Table, name: str) -> exp.Column:
    return exp.Column(
        this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=item.alias_or_name, quoted=True)
    )
