"""What EXPLAIN says of streams of pairs: their keys, and who lets whose rows go."""

from __future__ import annotations

from millpond.catalog import Standing
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.relational.relational_plans import relational_plan
from millpond.types import PairsQuery
from millpond.types.plan_nodes import Fact, PlanNode, said


def pairs_plan(facts: PlanFacts, query: PairsQuery, standing: Standing | None) -> PlanNode:
    """How a stream of pairs is answered."""
    gives = "PAIRS: a stream of joined rows, each as soon as it is certain"
    return relational_plan("pairs", facts, query, standing, gives, _plan(query))


def _plan(query: PairsQuery) -> list[Fact]:
    join, (first, second) = query.join, [i.stream for i in query.inputs]
    keys = " and ".join(f"{e.left_side} = {e.right_side}" for e in join.equalities) or "none: every pair within reach"
    going = f"rows of {first} are dropped by the watermark of {second}, and those of {second} by {first}"
    found = [
        Fact("plan", f"paired; {join.kind} join, each pair once, when the second of its rows is there"),
        Fact("keys", keys),
        said("dropped", going),
    ]
    if join.kind.latest:
        latest = f"a row of {first} is joined with its latest partner when {second} has passed it"
        return [*found, said("latest", latest)]
    told = "has no partner" + ", and is left out," * join.kind.partnered if join.kind.first_only else "is alone"
    names = (first, second)
    alone = [f"a row of {names[n]} {told} when {names[1 - n]} has passed its reach" for n in join.kind.alone]
    return [*found, *(said("alone", each) for each in alone)]
