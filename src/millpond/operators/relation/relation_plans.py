"""What EXPLAIN says of relations: how the answer follows from the inputs, and what is looked up in the past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from millpond.catalog import Standing
from millpond.operators.announcing import release_facts
from millpond.operators.filters.order_facts import order_facts
from millpond.operators.filters.subjects import pipelines_of
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.relation.groups_ahead import released_by
from millpond.operators.relation.join_facts import graph_facts, place_facts
from millpond.operators.relation.recompute_cost import recompute_cost
from millpond.operators.relational.relational_plans import relational_plan
from millpond.progress import NEVER, StreamProgress
from millpond.relations import stretches
from millpond.synopses import connection
from millpond.tables import Segment
from millpond.types import Driven, Elements, Grouped, Joined, Probe, Recomputed, RelationInput, RelationQuery
from millpond.types.durations import duration
from millpond.types.instants import moment
from millpond.types.plan_nodes import Fact, PlanNode, said

#: What the answers of a query are, by the operator that makes a stream of the relation.
_GIVES = {
    None: "a relation, defined at every instant",
    "istream": "ISTREAM: rows that enter it",
    "dstream": "DSTREAM: rows that leave it",
    "rstream": "RSTREAM: all of it, again and again",
}


def relation_plan(facts: PlanFacts, query: RelationQuery, standing: Standing | None) -> PlanNode:
    """How a relation is answered."""
    own = list(_plan(facts, query, standing is None))
    if standing is not None:
        own += place_facts(query, query.joined) if query.joined is not None else []
        names = [name for names in query.names_by_input for name in names]
        streams = [stream for stream in map(facts.catalog.stream, names) if stream is not None]
        own += release_facts(streams, released_by(query, standing.definition.options, streams) is not None)
        own += [fact for each in pipelines_of(standing) for fact in order_facts(facts, each.name, standing)]
    return relational_plan("relation", facts, query, standing, _GIVES[query.operator], own)


def _plan(facts: PlanFacts, query: RelationQuery, adhoc: bool) -> Iterator[Fact]:
    """How the answer follows from the inputs."""
    match query.plan:
        case Elements():
            yield Fact("plan", "elements; a row's image enters and leaves with the row")
        case Joined(join):
            yield Fact("plan", "joined; a joined row enters with its last part and leaves with its first")
            yield from graph_facts(query, join, adhoc)
        case Grouped(join):
            yield Fact("plan", "grouped; counts and sums follow from the joined rows that enter and leave")
            yield from graph_facts(query, join, adhoc)
        case Driven():
            yield from _probes(facts, query)
        case Recomputed(reason):
            every = "recomputed, at every instant at which a window changes, all instants of an epoch at once"
            single = "recomputed, instant by instant (DuckDB cannot evaluate it for many instants at once)"
            yield Fact("plan", single if query.lifted is None else every + (f" ({reason})" if reason else ""))
            if adhoc:
                yield recompute_cost(facts, query)
        case _:
            assert_never(query.plan)


def _probes(facts: PlanFacts, query: RelationQuery) -> Iterator[Fact]:
    """How often the past is looked up, where, and what that reads now."""
    driver = next(i for i in query.inputs if i.alias == query.driver)
    yield Fact("plan", f"probed; at each instant at which {driver.stream} has rows, the past is looked up")
    leading = facts.catalog.stream(driver.stream)
    now = NEVER if leading is None else facts.published.progress.get(str(leading.id), StreamProgress()).high
    for item in query.inputs:
        probe, stream = query.probe(item.alias), facts.catalog.stream(item.stream)
        if probe is None or stream is None:
            continue
        yield said("past", f"past of {item.stream}: rows that meet {probe.condition}")
        files, _ = facts.archives.get(stream.id, ((), None))
        if now > NEVER and files:
            yield from _read(item, probe, now, files)


def _read(item: RelationInput, probe: Probe, now: int, files: Sequence[Segment]) -> Iterator[Fact]:
    """What is looked up for rows of now."""
    since = item.window.since(now)
    low = min(s.low for s in files) if since is None else since
    where = stretches(connection(), probe.may, low, now + 1, now, now)
    length = sum(high - start for start, high in where)
    first, last = (moment(where[0][0]), moment(where[-1][1])) if where else ("nowhere", "nowhere")
    yield said(
        "past now",
        f"for rows of now, {moment(now)}: {len(where)} stretches of the past, {duration(length)} of"
        f" {duration(now + 1 - low)}; from {first} to {last}",
    )
    some = [s for s in files if any(s.high >= a and s.low < b for a, b in where)]
    window = [s for s in files if s.high >= low]
    yield said(
        "past files",
        f"files that hold them: {len(some)} of {len(window)} in the window, {sum(s.size for s in some)} of"
        f" {sum(s.size for s in window)} bytes; of these, the row groups that do",
    )
