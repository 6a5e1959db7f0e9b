"""Which conditions of SELECTs over streams as tables are asked where the rows are read.

SELECT … FROM s JOIN t ON t.k = s.k WHERE s.v > 3 AND t.name = 'x'      s is read where v > 3

The conditions stay in the SELECT as well: what is read less is never what they would let pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from millpond.language.conditions.conjuncts import conjuncts, factor
from millpond.language.render.bound_expressions import expression_of
from millpond.language.resolve.expressions import unqualified
from millpond.language.resolve.stream_items import InputStream
from millpond.language.rewrite.pushed_conditions import item_of
from millpond.language.syntax.nodes import RegisteredCall
from millpond.types import Expression


def scanned_conditions(tree: exp.Expr, inputs: Mapping[str, InputStream]) -> dict[str, list[Expression]]:
    """What every row of a stream has to meet that a SELECT looks at, by generated name.

    Arguments:
        tree: a bound SELECT. inputs: its streams, each of which stands in one place of it.
    """
    found: dict[str, list[Expression]] = {}
    for select in tree.find_all(exp.Select):
        clause = select.args.get("where")
        if clause is None:
            continue
        items = _items(select)
        kept = {item.name for item in _kept_items(select) if isinstance(item, exp.Table)}
        for node, negated in conjuncts(clause.this):
            if node.find(RegisteredCall, exp.Lambda, exp.PropertyEQ) is not None:
                continue
            alias = item_of(node, items, inputs)
            if alias is not None and alias in kept:
                own = unqualified(node, inputs[alias].stream)
                found.setdefault(alias, []).append(expression_of(factor(own, negated)))
    return found


def _items(select: exp.Select) -> list[exp.Expr]:
    clause = select.args.get("from_")
    return [] if clause is None else [clause.this, *(join.this for join in select.args.get("joins") or ())]


def _kept_items(select: exp.Select) -> Iterator[exp.Expr]:
    """The FROM items for which no join puts NULLs in the place of a row: what WHERE refuses of them is never seen."""
    items = _items(select)
    joins = select.args.get("joins") or ()
    for at, item in enumerate(items):
        behind = [j.side for j in joins[at:]]
        own = joins[at - 1] if at else None
        if any(side in ("RIGHT", "FULL") for side in behind):
            continue
        if own is not None and (own.side in ("LEFT", "FULL") or own.method in ("ASOF", "POSITIONAL")):
            continue
        if any(j.method == "POSITIONAL" for j in joins):
            continue
        yield item
