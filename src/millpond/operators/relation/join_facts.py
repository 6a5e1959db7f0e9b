"""What EXPLAIN says of joins: how their inputs are linked, in which order each one's rows go, where rows are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millpond.types import JoinPlan, RelationQuery
from millpond.types.join_graphs import JoinGraph, graph_of
from millpond.types.plan_nodes import Fact, said
from millpond.types.relation_queries import EVERYWHERE, SaltedBy, are_together


def graph_facts(relation: RelationQuery, plan: JoinPlan, pipelines: bool) -> Iterator[Fact]:
    """The join graph and the usual pipeline of each input that changes; of two inputs only whether it is a product.

    Args:
        pipelines: whether they are told; of a standing query it is known what they are now (`order_facts`).
    """
    if not plan.kind.inner:
        return
    graph, names = graph_of(plan), names_of(relation, plan)
    if graph.count > 2 or len(graph.parts) > 1:
        yield Fact("join graph", _shape(graph, names))
    if graph.count < 3 or not pipelines:
        return
    streams = {i.alias for i in relation.inputs}
    for number, alias in enumerate(plan.items):
        if alias not in streams:
            continue
        order = graph.order(number)
        growing = graph.growing(number, order)
        told = ", ".join(f"{names[n]} (joined at once)" if n in growing else names[n] for n in order)
        yield said("pipeline", f"pipeline of {names[number]}: {told}")


def _shape(graph: JoinGraph, names: Sequence[str]) -> str:
    if graph.shape == "star":
        around = names[graph.centres[0]]
        same = next((key for key in graph.keys if len(key) == graph.count), None)
        return (
            f"star, {' = '.join(f'{names[n]}.{sql}' for n, sql in same.items())}" if same else f"star around {around}"
        )
    if graph.shape == "disconnected":
        parts = " x ".join(", ".join(names[n] for n in part) for part in graph.parts)
        return f"disconnected: {parts}, a Cartesian product"
    return graph.shape


def names_of(relation: RelationQuery, plan: JoinPlan) -> list[str]:
    """The FROM items of a join as the query calls them."""
    known = {i.alias: i.stream for i in relation.inputs} | {t.alias: t.name for t in relation.tables}
    usual = [known.get(alias, alias) for alias in plan.items]
    return list(plan.names) or usual


def place_facts(relation: RelationQuery, plan: JoinPlan) -> list[Fact]:
    """Where the rows of a join are."""
    if not plan.spread:
        return [Fact("rows", _together(relation, plan))]
    names = {i.alias: i.stream for i in relation.inputs}
    if any(map(are_together, plan.spread)):
        number, salting = next((n, salting) for n, salting in enumerate(plan.salting) if isinstance(salting, SaltedBy))
        called = names_of(relation, plan)
        others = ", ".join(n for n in called if n != called[number])
        salted = (
            f"where it pays, rows of {called[number]} are salted over the shards by {salting.column}, and"
            f" every shard gets those of {others}"
        )
        return [Fact("rows", _together(relation, plan)), said("exchange", salted)]
    placed = [(names[alias], sql) for alias, sql in zip(plan.items, plan.spread, strict=True) if sql is not None]
    spread = ", ".join(f"{name} by {sql}" for name, sql in placed if sql != EVERYWHERE)
    copies = ", ".join(name for name, sql in placed if sql == EVERYWHERE)
    if copies:
        return [
            Fact("exchange", f"rows are spread over the shards, {spread}"),
            Fact("exchange", f"of {copies}, every shard has all rows"),
        ]
    return [Fact("rows", f"spread over the shards, {spread}")]


def _together(relation: RelationQuery, plan: JoinPlan) -> str:
    """Why the rows of a join are in one shard."""
    if plan.kind.inner:
        graph, names = graph_of(plan), names_of(relation, plan)
        streams = {n for n, alias in enumerate(plan.items) if alias in {i.alias for i in relation.inputs}}
        if len(streams) > 1 and not any(streams <= key.keys() for key in graph.keys):
            keys = "; ".join(" = ".join(f"{names[n]}.{sql}" for n, sql in key.items()) for key in graph.keys)
            return f"in one shard; no column is equal for all streams ({keys or 'there are no equalities'})"
    return "in one shard; they can be spread by equal columns that are part of the answer"
