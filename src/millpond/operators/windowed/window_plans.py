"""What EXPLAIN says of queries over windows that have ends, of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millpond.archive.planning.ranges import Range
from millpond.archive.retention import gone_before, retained_from
from millpond.archive.summed.serving import Sums
from millpond.catalog import Standing
from millpond.catalog.unions import late_of
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.announcing import release_facts
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.windowed.advance import ranges_known
from millpond.operators.windowed.coverage import coverage_of
from millpond.operators.windowed.group_bounds import released_by_groups
from millpond.progress import NEVER
from millpond.synopses import spec_of
from millpond.synopses.partials.dispatch import Spec
from millpond.types import Aggregation, QueryOptions, StreamDefinition, StreamQuery, WindowedQuery
from millpond.types.durations import duration
from millpond.types.instants import moment
from millpond.types.plan_nodes import Fact, PlanNode, said


def window_plan(
    operator: str,
    facts: PlanFacts,
    query: WindowedQuery,
    standing: Standing | None,
    own: Callable[[Any], Sequence[Fact]],
    covered: Callable[[QueryProgress], int],
) -> PlanNode:
    """How a query over windows is answered.

    Args:
        standing: the query as it is registered; None: nobody has. own: what its kind has to say, by its synopsis.
        covered: as of its kind.
    """
    catalog, stream = facts.catalog, facts.catalog.stream(query.stream)
    assert stream is not None
    spec = catalog.synopses[standing.synopsis].spec if standing is not None else spec_of(query, stream)
    found = [] if query.lookup is None else _joined(facts, query)
    found += own(spec)
    if standing is None:
        found.append(_would_share(facts, query, spec))
    found += _history(facts, stream, query, spec)
    if standing is not None:
        found += _until_when(facts, query, standing, spec, covered)
    return PlanNode(operator, over(query, stream), tuple(found))


def over(query: StreamQuery, stream: StreamDefinition) -> str:
    """What a query is over, in words."""
    names = [f.name for f in query.feeds]
    if names:
        return f"query over the union of streams {', '.join(names)}"
    return f"query over {'' if stream.is_inner else 'stream '}{stream.label}"


def filter_and_keys(query: StreamQuery) -> list[Fact]:
    """Its condition, and what it groups by."""
    found = [Fact("filter", str(query.where))] if query.where else []
    if isinstance(query, Aggregation) and query.keys:
        found.append(Fact("keys", ", ".join(str(k.expression) for k in query.keys)))
    return found


def _joined(facts: PlanFacts, query: WindowedQuery) -> list[Fact]:
    assert query.lookup is not None
    joined = Fact("joined", f"{query.lookup.said}; each row as it comes, before the windows")
    return [joined, *(facts.table(table.name) for table in query.lookup.tables)]


def _would_share(facts: PlanFacts, query: WindowedQuery, needed: Spec) -> Fact:
    fits = next((s for s in facts.catalog.synopses.values() if s.spec.serves(needed, query)), None)
    share = f"would share synopsis {fits.owner}" if fits else "would need a synopsis of its own"
    return said("sharing", share)


def _history(facts: PlanFacts, stream: StreamDefinition, query: WindowedQuery, spec: Spec) -> list[Fact]:
    """What there is of the past where rows are past their retention, or a summary stands for them."""
    if stream.id not in facts.archives:
        return []  # a stream that is still to be made
    gone = gone_before(facts.archives[stream.id], retained_from(stream, facts.published))
    found = summary_facts(facts, stream, query, spec, Range())
    if found or gone <= NEVER:
        return found
    line = f"rows before {moment(gone)} are gone: windows that start earlier tell by covered_from"
    return [said("retention", line)]


def summary_facts(
    facts: PlanFacts, stream: StreamDefinition, query: WindowedQuery, spec: Spec, wanted: Range
) -> list[Fact]:
    """What a summary of the stream stands for when a query reads history; nothing when none serves."""
    if query.feeds or spec.weighted:
        return []
    found = facts.summary(stream, Sums(spec, (query,)), wanted)
    if found is None:
        return []
    rows = sum(s.rows for s in found.entries)
    line = f"history from summary({found.summary.query}): {len(found.entries)} entries with {rows} partials"
    line += f", {found.settled} of them in place of rows that are gone" if found.settled else ""
    line += f"; {len(found.left)} files with {sum(s.rows for s in found.left)} rows are read" if found.left else ""
    if found.removed is not None:
        line += f"; nothing is left before {moment(found.removed)}: windows that start earlier tell by covered_from"
    return [said("history", line)]


def _until_when(
    facts: PlanFacts, query: WindowedQuery, standing: Standing, spec: Spec, covered: Callable[[QueryProgress], int]
) -> list[Fact]:
    """How long windows are revised, and whether they are whole."""
    late = late_of(facts.catalog, spec)
    spare = duration(query.revised_for(standing.definition.options))
    streams = facts.catalog.streams_of(standing)
    archives = [facts.archives[s.id] for s in streams]
    known = facts.published.queries.get(str(standing.id), QueryProgress())
    coverage = coverage_of(standing, covered(known), known.closed, archives)
    there = "no row is there" if coverage.start <= NEVER else f"rows are there from {moment(coverage.start)} on"
    return [
        *_gaps(query, standing.definition.options),
        *release_facts(streams, released_by_groups(query, standing.definition.options, streams[0], spec)),
        Fact("late rows", late + (f", for {spare} behind the watermark" if late == "revise" else "")),
        Fact("windows", f"{coverage}; {there}"),
    ]


def _gaps(query: WindowedQuery, options: QueryOptions) -> list[Fact]:
    """What becomes of windows without a row, where they are reported."""
    if options.empty == "skip":
        return []
    known = ranges_known(query, options)
    told = [f"groups and values are known for {known} RANGEs behind their last row" if known else "all are reported"]
    told += [f"filled: {options.fill}"] if options.fill is not None else []
    told += ["answered when the next window with a row is"] if options.ahead else []
    return [Fact("windows without a row", "; ".join(told))]
