"""By which columns the rows of a join can be spread over shards, so that each shard joins its own.

Rows that meet must be in one shard: they are spread by values that the join's equalities make equal. And the answers
of the shards must add up: a row that leaves and an equal one that enters at the same instant are no change, wherever
they come from, so equal rows of the answer must be in one shard as well: the values are part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from millpond.language.resolve.item_owners import Owners
from millpond.support.sql import quote
from millpond.types import Column, Expression, JoinPlan, LatestRowsWindow, RelationWindow
from millpond.types.relation_queries import Copied, NotSalted, SaltedBy, Salting, together

#: Types of columns whose values are equal when DuckDB's hashes of them, cast to the type on the right, are.
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "BIGINT"),
    **{kind: kind for kind in ("VARCHAR", "DATE", "BOOLEAN", "UUID")},
}

#: A FROM item and a column of it, in small letters.
_Place = tuple[int, str]


def spread_of(
    tree: exp.Expr, plan: JoinPlan, columns: Mapping[str, Sequence[Column]], windows: Mapping[str, RelationWindow]
) -> tuple[Expression | None, ...]:
    """What is equal for rows of FROM items that meet, over the rows of each; None for tables: shards have them all.

    Arguments:
        tree: the bound SELECT. columns: of each FROM item's input. windows: of the inputs that are streams.

    Returns: nothing where the rows must stay together.
    """
    streams = {n for n, name in enumerate(plan.items) if name in windows}
    kept = set(plan.kind.alone)
    if not kept <= streams:  # every shard would report the rows of a table that meet nothing
        return ()
    for by_item, shown in _keys(tree, plan, columns, windows):
        if streams <= by_item.keys() and kept <= shown:
            return tuple(by_item[n] if n in streams else None for n in range(len(plan.items)))
    return ()


def hashes_of(
    tree: exp.Expr, plan: JoinPlan, columns: Mapping[str, Sequence[Column]], windows: Mapping[str, RelationWindow]
) -> tuple[tuple[Expression | None, ...], ...]:
    """By what some of the items can be spread if every shard has the others: see `JoinPlan.hashes`.

    A joined row is made in the shard that has its rows of these items. Rows without a partner, of an outer join, would
    be reported wherever they are, so it is for inner joins.

    Arguments: as of `spread_of`.
    """
    if not plan.kind.inner:
        return ()
    streams = [n for n, name in enumerate(plan.items) if name in windows]
    found = (
        tuple(by_item.get(n) if n in streams else None for n in range(len(plan.items)))
        for by_item, _ in _keys(tree, plan, columns, windows)
    )
    return tuple(each for each in found if len(each) - each.count(None) > 1)


def _keys(
    tree: exp.Expr, plan: JoinPlan, columns: Mapping[str, Sequence[Column]], windows: Mapping[str, RelationWindow]
) -> Iterator[tuple[dict[int, Expression], set[int]]]:
    """Keys of which the answer shows a column, so that equal rows of it have equal ones.

    Returns: the key of each item that has it and can be spread by it, and those of them that show it.
    """
    items = [tree.args["from_"].this, *(j.this for j in tree.args.get("joins") or [])]
    kinds = [{c.name.lower(): _KINDS.get(c.type) for c in columns[name]} for name in plan.items]
    names = [{c.name.lower(): c.name for c in columns[name]} for name in plan.items]
    shown = _shown(tree, Owners(items, columns), names, plan.kind.first_only)
    for places in _equal(plan, names):
        by_item = {n: c for n, c in sorted(places, reverse=True) if _stays(windows.get(plan.items[n]), c)}
        kind, *others = {kinds[n][c] for n, c in places}
        if not others and kind is not None and shown & places:
            key = {n: _cast(names[n][c], kind) for n, c in by_item.items()}
            yield key, {n for n, c in shown & places if by_item.get(n) == c}


def _cast(column: str, kind: str) -> Expression:
    return Expression.column_of(column).within("CAST(", f" AS {kind})", kind)


def together_of(
    plan: JoinPlan, windows: Mapping[str, RelationWindow], names: Mapping[str, str], sizes: Sequence[float] = ()
) -> JoinPlan:
    """The plan of a join that has no column by which all rows can be spread: they are in one shard until that does not
    pay any more (`engine.skew`), as if they all had one key, which is split then.

    Arguments:
        windows: of the inputs that are streams. names: of their streams.
        sizes: about how many rows each FROM item has in its window: those of the largest one are salted.
    """
    key = together(names.values())
    spread = tuple(key if name in windows else None for name in plan.items)
    salting = salting_of(plan, spread, windows, sizes)
    return replace(plan, spread=spread, salting=salting) if salting else replace(plan, spread=(), salting=())


def salting_of(
    plan: JoinPlan,
    spread: Sequence[Expression | None],
    windows: Mapping[str, RelationWindow],
    sizes: Sequence[float] = (),
) -> tuple[Salting, ...]:
    """How the rows of frequent keys can be placed otherwise: see `JoinPlan.salting`.

    The rows of one item are salted, each joined row is made where that one is. Equal rows of the answer must still be
    in one shard, so they are salted by a column that the answer shows.

    Arguments:
        sizes: of the items, of which the largest one is taken that can be; none: the first.
    """
    keys = {n: key for n, key in enumerate(spread) if key is not None}
    streams = list(keys)
    salted = sorted((n for n in streams if {*plan.kind.alone} <= {n}), key=lambda n: -sizes[n] if sizes else 0)
    for number in salted if len(streams) > 1 else []:
        shown = [quote(c) for n, c in plan.plain if n == number and c not in keys[number].columns]
        if shown and not isinstance(windows[plan.items[number]], LatestRowsWindow):
            others = [Copied() if n in keys else NotSalted() for n in range(len(spread))]
            return (*others[:number], SaltedBy(shown[0]), *others[number + 1 :])
    return ()


def _stays(window: RelationWindow | None, column: str) -> bool:
    """Whether rows with different values of a column have nothing to do with each other in a window."""
    return not isinstance(window, LatestRowsWindow) or column in {name.lower() for name in window.partition}


def _equal(plan: JoinPlan, names: Sequence[Mapping[str, str]]) -> list[set[_Place]]:
    """Columns that are equal in every joined row."""
    classes: list[set[_Place]] = []
    for each in plan.equalities:
        left, right = each.left_side.column, each.right_side.column
        if left is None or right is None:
            continue
        pair = {(each.left, left.lower()), (each.right, right.lower())}
        if any(c not in names[n] for n, c in pair):
            continue
        met = [c for c in classes if c & pair]
        classes = [c for c in classes if not c & pair] + [set().union(pair, *met)]
    return classes


def _shown(tree: exp.Expr, owners: Owners, names: Sequence[Mapping[str, str]], first_only: bool) -> set[_Place]:
    """The columns that stand in the select list as they are."""
    found: set[_Place] = set()
    for each in tree.expressions:
        node = each.this if isinstance(each, exp.Alias) else each
        star = isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
        if star:
            table = node.table.lower() if isinstance(node, exp.Column) else ""
            for n, name in enumerate(owners.names):
                if table in ("", name) and not (first_only and n):
                    found |= {(n, c) for c in names[n]}
        elif isinstance(node, exp.Column) and (owner := owners.of(node)) is not None:
            found.add((owner, node.name.lower()))
    return found
