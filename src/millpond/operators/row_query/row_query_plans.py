"""What EXPLAIN says of row queries: their windows, their conditions, and what the predicate index takes of these."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.types import GroupScan, RowQuery, Side
from millpond.types.plan_nodes import Fact, PlanNode, said


def row_query_plan(query: RowQuery) -> PlanNode:
    """How a row query is answered."""
    several = len(query.sides) > 1
    over = "the union of streams" if query.query.feeds else "streams" if several else "stream"
    sides = [PlanNode("stream", f"of {side.stream}", tuple(_side(side))) for side in query.sides]
    found = [] if several else list(sides[0].facts)
    for factor in query.factors:
        of = [f" of {query.sides[n].stream}" if query.further else "" for n in (factor.first, factor.second)]
        found.append(Fact("join", f"{factor.left}{of[0]} {factor.operator} {factor.right}{of[1]}"))
        if factor.where is not None:
            found.append(Fact("on rows joined so far", str(factor.where)))
    if query.query.where:
        found.append(Fact("on joined rows", str(query.query.where)))
    if isinstance(query.query, GroupScan):
        keys = ", ".join(str(k.expression) for k in query.query.keys)
        found.append(said("aggregates", f"aggregates at invocation, any window{f'; keys: {keys}' if keys else ''}"))
    names = ", ".join(side.stream for side in query.sides)
    return PlanNode("row query", f"row query over {over} {names}", tuple(found), tuple(sides) if several else ())


def _side(side: Side) -> Iterator[Fact]:
    """The window of a stream, and its condition as the predicate index has it."""
    yield Fact("window", f"BEGIN {side.span.begin} END {side.span.end}")
    if side.where:
        yield Fact("condition", str(side.where))
    attributes = sorted({i.attribute for box in side.boxes for i in box})
    indexed = [a for a in attributes if a.startswith('"')]
    listed = [a for a in attributes if not a.startswith('"')]
    if indexed:
        count = len(side.boxes)
        alternatives = f"{count} alternative{'' if count == 1 else 's'}"
        yield said("predicate index", f"predicate index on {', '.join(indexed)}; {alternatives}")
    if listed:
        yield Fact("predicate list", ", ".join(listed))
