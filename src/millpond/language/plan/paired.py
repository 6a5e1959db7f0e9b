"""`SELECT PAIRS(…)`: the join of two streams as a stream of its rows, each as soon as it is certain (OA-Join).

Li 2008, 5.4: each input's own window says how long its rows may be joined, or both are cut into the same intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.render.bound_expressions import expression_of
from millpond.language.resolve.expressions import unqualified
from millpond.language.resolve.item_owners import Owners
from millpond.language.resolve.relation_refs import RelationRef, StreamInput
from millpond.language.syntax.source_text import Source
from millpond.types import Column, Expression, JoinPlan, RangeWindow, RelationWindow, TumblingWindow


def pair_checks(tree: exp.Select, columns: Mapping[str, Sequence[Column]]) -> dict[str, tuple[Expression, ...]]:
    """By generated name of a FROM item, the expressions over its rows alone that a pair needs.

    They are evaluated when a row arrives, so that one on which they fail is a dead letter and has no part in any pair.

    Arguments:
        tree: the bound SELECT, with ON in the place of USING. columns: of each item.
    """
    joins = tree.args.get("joins") or []
    items = [tree.args["from_"].this, *(j.this for j in joins)]
    if any(not isinstance(i, exp.Table) or i.name not in columns for i in items):
        return {}
    owners = Owners(items, columns)
    waiting = [i.this if isinstance(i, exp.Alias) else i for i in tree.expressions]
    waiting += [factor for j in joins if j.args.get("on") for factor, _ in conjuncts(j.args["on"])]
    found: dict[str, list[Expression]] = {i.name: [] for i in items}
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, exp.Star | exp.Column | exp.Literal) or node.find(exp.Star) is not None:
            continue
        owner = owners.of(node)
        if owner is None:
            # What stands in a branch may be evaluated where the branch is taken only.
            if not isinstance(node, exp.Case | exp.If | exp.Coalesce | exp.And | exp.Or | exp.Lambda):
                waiting += [n for n in node.iter_expressions()]
        elif (asked := expression_of(unqualified(node))) not in found[items[owner].name]:
            found[items[owner].name].append(asked)
    return {name: tuple(asked) for name, asked in found.items()}


def check_pairs(
    tree: exp.Expr,
    refs: Sequence[RelationRef],
    windows: Mapping[str, RelationWindow],
    reduced: Mapping[str, tuple[int, int]],
    source: Source,
    joined: JoinPlan | None,
    times: Sequence[str],
) -> JoinPlan:
    """The join; what is no join of two streams is refused.

    Arguments:
        tree, refs: the bound SELECT. windows: by generated name. reduced: places of REDUCE.
        joined: the join that follows from the tree, if any does. times: the event-time columns of the streams.
    Raises: StatementError with the place.
    """
    for place in reduced.values():
        raise source.error("PAIRS needs every row, and REDUCE leaves some out", place)
    constant = next((r for r in refs if not isinstance(r, StreamInput)), None)
    if constant is not None or len(refs) != 2:
        odd = constant or (refs[2] if len(refs) > 2 else None)
        at = None if odd is None else next((t for t in tree.find_all(exp.Table) if t.name == odd.alias), None)
        join = "FROM (a [RANGE 5 MINUTES] JOIN b [NOW] ON …)"
        works = f"{join} [RANGE 10 MINUTES] JOIN c [NOW] ON …, which are pairs of pairs"
        if constant is not None:
            works = f"SELECT ISTREAM(…) {join} [NOW] JOIN {constant.name} ON …"
        what = f"{constant.name} is a table" if constant is not None else f"here are {len(refs)}"
        raise source.error(f"PAIRS joins two streams: {what}", at, works)
    kinds = [windows[r.alias] for r in refs]
    tumbling = [w for w in kinds if isinstance(w, TumblingWindow)]
    if tumbling and (len(tumbling) == 1 or kinds[0] != kinds[1]):
        raise source.error(
            "rows are joined within the intervals of both streams, and these are cut differently",
            next((t for t in tree.find_all(exp.Table) if t.name == refs[1].alias), None),
            "the same [RANGE TUMBLING 5 MINUTES] behind both",
        )  # fmt: skip
    if joined is not None:
        if joined.kind.latest:
            _check_asof(tree, kinds[0], times, source)
        return joined
    for key, what in (("group", "GROUP BY"), ("distinct", "DISTINCT"), ("order", "ORDER BY"), ("limit", "LIMIT")):
        if tree.args.get(key):
            raise source.error(
                f"PAIRS gives each pair by itself: {what} needs many", tree.args[key],
                "FROM (a [RANGE 5 MINUTES] JOIN b [NOW] ON …) [RANGE TUMBLING 1 HOUR], a window over the pairs",
            )  # fmt: skip
    raise source.error(
        "PAIRS joins two streams by their names: inner, LEFT, RIGHT, FULL, SEMI or ANTI, ON any condition, without"
        " aggregates and subqueries", _odd(tree),
        "SELECT PAIRS(a.x, b.y) FROM a [RANGE 5 MINUTES] JOIN b [RANGE 2 MINUTES] ON a.k = b.k",
    )  # fmt: skip


def _odd(tree: exp.Expr) -> exp.Expr | None:
    """The part of a SELECT that is none of a join of two streams, as far as it can be told."""
    inner = next((q for q in tree.find_all(exp.Query) if q is not tree), None)
    if inner is not None or not isinstance(tree, exp.Select):
        return inner
    return next((e for e in tree.expressions if e.find(exp.AggFunc, exp.Anonymous) is not None), None)


def _check_asof(tree: exp.Expr, window: RelationWindow, times: Sequence[str], source: Source) -> None:
    """Refuse an ASOF join that is not about the latest row at or before the time of the other stream's row."""
    join = tree.args["joins"][0]
    items = [tree.args["from_"].this, join.this]
    works = "FROM a [NOW] ASOF JOIN b [RANGE 10 SECONDS] ON a.k = b.k AND a.ts >= b.ts"
    if window != RangeWindow(0):
        raise source.error(
            "ASOF looks back from each row of the first stream: its window is [NOW]; how far back, the other's says",
            items[0], works,
        )  # fmt: skip
    names = [(i.alias_or_name.lower(), time.lower()) for i, time in zip(items, times, strict=True)]
    order = [n for n in join.find_all(exp.GTE, exp.GT, exp.LT, exp.LTE) if n.parent_select is tree]
    for node in order:
        sides = [(c.table.lower(), c.name.lower()) for c in (node.this, node.expression) if isinstance(c, exp.Column)]
        later = names if isinstance(node, exp.GTE | exp.GT) else names[::-1]
        if sides == later:
            return
    raise source.error(
        f"ASOF needs to be told that it is about event time: {names[0][0]}.{times[0]} >= {names[1][0]}.{times[1]}",
        order[0] if order else join.this, works,
    )  # fmt: skip
