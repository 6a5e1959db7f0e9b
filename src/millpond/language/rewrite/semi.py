"""WHERE EXISTS (SELECT …) and WHERE x IN (SELECT …) as the semi and anti joins that they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from sqlglot import exp

from millpond.language.builtins.allowed import RELATION_AGGREGATES
from millpond.language.conditions.conjuncts import conjuncts
from millpond.types import Column

#: What a subquery must not have: it would not be a test of single rows. ORDER BY and DISTINCT change nothing, unless
#: that is DISTINCT ON, which leaves values out.
_WHOLE = ("joins", "group", "having", "qualify", "windows", "limit", "offset", "with_")

#: Names of a FROM item's columns by what its columns are called with.
_Scopes = Sequence[tuple[str, frozenset[str]]]


def without_subquery(select: exp.Select, columns: Mapping[str, Sequence[Column]]) -> exp.Select:
    """The same SELECT with a SEMI or ANTI join in the place of one factor of WHERE that is a subquery over one item.

    `NOT IN` is no anti join: it is not true where a NULL is among the values.

    Arguments:
        select: a bound SELECT whose FROM items have generated names. columns: of each of these names.
    Returns:
        The SELECT itself where it is anything else.
    """
    where, clause = select.args.get("where"), select.args.get("from_")
    if where is None or clause is None or select.args.get("joins") or not _is_named(clause.this, columns):
        return select
    outer = clause.this
    factors = list(conjuncts(where.this))
    nested = [(node, negated) for node, negated in factors if node.find(exp.Query) is not None]
    if len(nested) != 1:
        return select
    node, negated = nested[0]
    inner = _subquery(node, columns)
    if inner is None or (isinstance(node, exp.In) and negated):
        return select
    compared = [] if isinstance(node, exp.Exists) else _compared(node, inner)
    if isinstance(node, exp.In) and not compared:
        return select
    item = inner.args["from_"].this
    own, known = _scope(outer, columns), _scope(item, columns)
    joined, name = item.copy(), item.alias_or_name
    while name.lower() == own[0]:
        name += "_"
    joined.set("alias", exp.TableAlias(this=exp.Identifier(this=name, quoted=True)))
    within = [(name, known[1]), own]
    tests: list[exp.Expr] = [
        exp.EQ(this=_qualified(left, [own]), expression=_qualified(right, within, item.alias_or_name))
        for left, right in compared
    ]
    if (condition := inner.args.get("where")) is not None:
        tests.append(exp.Paren(this=_qualified(condition.this, within, item.alias_or_name)))
    if not tests:
        tests.append(exp.true())
    kind = "ANTI" if negated else "SEMI"
    tree = select.copy()
    rest = [_qualified(f, [own]) for f, no in factors if f is not node and not no]
    rest += [exp.Not(this=exp.Paren(this=_qualified(f, [own]))) for f, no in factors if f is not node and no]
    tree.set("where", exp.Where(this=reduce(_both, rest)) if rest else None)
    tree.set("joins", [exp.Join(this=joined, kind=kind, on=reduce(_both, tests))])
    tree.set("expressions", [_qualified(e, [own]) for e in select.expressions])
    return tree


def _both(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)


def _is_named(item: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> bool:
    alias = item.args.get("alias")
    return isinstance(item, exp.Table) and item.name in columns and not (alias and alias.args.get("columns"))


def _subquery(node: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> exp.Select | None:
    """The subquery of EXISTS or IN, if it is a SELECT of single rows of one item."""
    if not isinstance(node, exp.Exists | exp.In):
        return None
    inner = node.this if isinstance(node, exp.Exists) else node.args.get("query")
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    if not isinstance(inner, exp.Select) or any(inner.args.get(key) for key in _WHOLE):
        return None
    if len(list(node.find_all(exp.Query))) > 1 + len(list(node.find_all(exp.Subquery))):
        return None
    clause = inner.args.get("from_")
    if clause is None or not _is_named(clause.this, columns) or looks_at_many(inner):
        return None
    distinct = inner.args.get("distinct")
    return None if distinct is not None and distinct.args.get("on") else inner


def looks_at_many(tree: exp.Expr) -> bool:
    """Whether anything in a tree is a function of many rows (an aggregate, a window function), or makes many of one."""
    calls = {str(c.this).lower() for c in tree.find_all(exp.Anonymous) if isinstance(c.this, str)}
    return bool(calls & (RELATION_AGGREGATES | {"unnest"})) or tree.find(exp.Window, exp.AggFunc) is not None


def _compared(node: exp.Expr, inner: exp.Select) -> Sequence[tuple[exp.Expr, exp.Expr]]:
    """What IN compares: expressions of the outer row with those of the subquery; nothing where they do not pair."""
    left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    right = [e.this if isinstance(e, exp.Alias) else e for e in inner.expressions]
    if len(left) != len(right) or any(e.find(exp.Star, exp.Query) is not None for e in (*left, *right)):
        return ()
    return list(zip(left, right, strict=True))


def _scope(item: exp.Table, columns: Mapping[str, Sequence[Column]]) -> tuple[str, frozenset[str]]:
    return item.alias_or_name.lower(), frozenset(c.name.lower() for c in columns[item.name])


def _qualified(node: exp.Expr, scopes: _Scopes, renamed: str | None = None) -> exp.Expr:
    """A copy whose columns say which item they are of: the first that has them.

    Arguments:
        renamed: what the first item was called before.
    """
    around = exp.Paren(this=node.copy())
    for each in list(around.find_all(exp.Column)):
        if isinstance(each.this, exp.Star):
            continue
        if not each.table:
            owner = next((name for name, known in scopes if each.name.lower() in known), None)
        else:
            owner = scopes[0][0] if renamed is not None and each.table.lower() == renamed.lower() else None
        if owner is not None:
            each.set("table", exp.Identifier(this=owner, quoted=True))
    found: exp.Expr = around.this
    return found
