"""Cartesian products that nobody asked for: an input of a join that no condition links with the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.resolve.item_owners import Owners
from millpond.language.syntax.source_text import Source
from millpond.language.syntax.walks import tables_of
from millpond.types import Column
from millpond.types.join_graphs import JoinGraph

#: Inputs that a join of streams and tables may have.
MOST = 8


def check_products(
    spelt: exp.Select | None, select: exp.Expr, columns: Mapping[str, Sequence[Column]], source: Source
) -> None:
    """Refuse an inner join of too many FROM items, or one in which some are linked by conditions and others are not.

    A product is asked for by CROSS JOIN, by a condition without columns (`ON true`), and where there is no condition
    between any two items at all.

    Arguments:
        spelt: the bound SELECT, whose joins all stand in FROM with ON; None where it cannot be put so.
        select: as it was written.
        columns: of each generated name.
    Raises: StatementError that shows the item.
    """
    if spelt is None or spelt.args.get("from_") is None:
        return
    joins = spelt.args.get("joins") or []
    items = [spelt.args["from_"].this, *(j.this for j in joins)]
    known = all(isinstance(i, exp.Table) and i.name in columns for i in items)
    if len(items) < 3 or not known or any(j.side or j.method or j.kind not in ("", "INNER", "CROSS") for j in joins):
        return
    if len(items) > MOST:
        name = items[MOST].alias_or_name
        raise source.error(
            f"this join has {len(items)} inputs, and a join of streams may have {MOST}",
            next((t for t in tables_of(select) if t.alias_or_name.lower() == name.lower()), None),
            "a derived stream of some of them: CREATE STREAM x AS SELECT ISTREAM(…) FROM …, and a join with x",
        )
    owners, everything = Owners(items, columns), tuple(range(len(items)))
    links: list[tuple[int, ...]] = []
    where = spelt.args["where"].this if spelt.args.get("where") is not None else None
    for test in [*(j.args["on"] for j in joins if j.args.get("on")), *([where] if where is not None else [])]:
        for node, _ in conjuncts(test):
            about = None if node.find(exp.Query) is not None else owners.all_of(node)
            links.append(everything if about is None else tuple(sorted(about)))
    if all(len(each) < 2 for each in links):
        return
    for number, join in enumerate(joins, 1):
        on = join.args.get("on")
        if join.kind == "CROSS" or (on is not None and on.find(exp.Column) is None):
            links.append((number - 1, number))
    parts = JoinGraph(len(items), (), tuple(each for each in links if each)).parts
    if len(parts) < 2:
        return
    alone = min(reversed(parts), key=len)[0]  # of equals the last one: the first is what the others belong to
    name = items[alone].alias_or_name
    place = next((t for t in tables_of(select) if t.alias_or_name.lower() == name.lower()), None)
    others = ", ".join(items[n].alias_or_name for n in range(len(items)) if n not in _part(parts, alone))
    raise source.error(
        f"no condition links {name} with {others}: each row would be joined with every row",
        place,
        f"a condition about {name} and one of them, or CROSS JOIN where that is what is wanted",
    )


def _part(parts: Sequence[tuple[int, ...]], item: int) -> tuple[int, ...]:
    return next(part for part in parts if item in part)
