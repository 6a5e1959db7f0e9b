"""GROUPING SETS, ROLLUP and CUBE: a GROUP BY of all that they name, and which of it each set groups by."""

from __future__ import annotations

from itertools import chain, combinations, product

from sqlglot import exp

from millpond.language.resolve.expressions import function_name
from millpond.language.resolve.grouping import SET
from millpond.language.syntax.source_text import Source

#: Sets that one query may have.
MOST = 256

_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def with_sets(tree: exp.Select, source: Source) -> tuple[exp.Select, tuple[frozenset[int], ...]]:
    """A SELECT with a plain GROUP BY, and its grouping sets as places of what that names; none: it has one as written.

    GROUPING(…) is written with `SET`.

    Raises: StatementError for too many sets, and for GROUPING of what is not grouped by.
    """
    group = tree.args.get("group")
    if group is None or not any(isinstance(e, _SETS) for e in group.expressions):
        return tree, ()
    sets = [list(chain(*each)) for each in product(*map(_expanded, group.expressions))]
    if len(sets) > MOST:
        raise source.error(f"these are {len(sets)} grouping sets; at most {MOST} are allowed", group)
    nodes: dict[str, exp.Expr] = {}
    for node in chain(*sets):
        nodes.setdefault(node.sql().lower(), node)
    places = {text: place for place, text in enumerate(nodes)}
    select = tree.copy()
    select.set("group", exp.Group(expressions=[node.copy() for node in nodes.values()]))
    for call in [c for c in select.find_all(exp.Anonymous) if function_name(c) in ("grouping", "grouping_id")]:
        call.replace(_grouping(call, places, source))
    found = dict.fromkeys(frozenset(places[node.sql().lower()] for node in each) for each in sets)
    return select, tuple(found)


def _expanded(node: exp.Expr) -> list[list[exp.Expr]]:
    """The sets that one element of GROUP BY stands for."""
    if isinstance(node, exp.GroupingSets):
        return [found for each in node.expressions for found in _expanded(each)]
    if isinstance(node, exp.Rollup | exp.Cube):
        units = [_members(each) for each in node.expressions]
        sizes = range(len(units), -1, -1)
        chosen = ([units[:n]] if isinstance(node, exp.Rollup) else combinations(units, n) for n in sizes)
        return [list(chain(*some)) for some in chain(*chosen)]
    return [_members(node)]


def _members(node: exp.Expr) -> list[exp.Expr]:
    """`(a, b)` as a and b, `()` as nothing."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.unnest()]


def _grouping(call: exp.Anonymous, places: dict[str, int], source: Source) -> exp.Expr:
    """What GROUPING(a, b) says: a bit for each, set where the row does not group by it."""
    bits: list[exp.Expr] = []
    for each in call.expressions:
        place = places.get(each.sql().lower())
        if place is None:
            raise source.error("GROUPING is about what GROUP BY names", each)
        shifted = exp.IntDiv(this=exp.column(SET), expression=exp.Literal.number(2**place))
        bit = exp.Paren(this=exp.Mod(this=exp.Paren(this=shifted), expression=exp.Literal.number(2)))
        weight = exp.Literal.number(2 ** (len(call.expressions) - 1 - len(bits)))
        bits.append(exp.Mul(this=bit, expression=weight))
    if not bits:
        raise source.error("GROUPING needs an argument", call, "GROUPING(a)")
    total: exp.Expr = bits[0]
    for further in bits[1:]:
        total = exp.Add(this=total, expression=further)
    return exp.Paren(this=total)


__all__ = ["MOST", "with_sets"]
