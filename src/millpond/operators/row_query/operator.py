"""Row queries on a stream: its new rows are matched with all of them, ahead of any question."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable

from millpond.archive.dead_letters import failed_letters
from millpond.catalog import Catalog, Standing
from millpond.manifests.task_reports import Matched
from millpond.operators.contract import Mapped, Mapper, MapTask, Operator, Taken
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.row_query.matching import meet_queries
from millpond.operators.row_query.row_query_plans import row_query_plan
from millpond.types import Query, RowQuery, StreamDefinition
from millpond.types.plan_nodes import PlanNode


class RowMatcher(Mapper):
    """Matches the rows of a map task with the row queries on its stream."""

    whole = True

    def __init__(self, task: MapTask) -> None:
        self.task = task

    def finish(self, taken: Taken) -> Mapped:
        """See `Mapper`."""
        mapped, task, begun = Mapped(), self.task, clock.perf_counter()
        met = meet_queries(task.pond, task.manifest, task.stream, task.number, taken.whole.rows)
        mapped.dead += [failed_letters(failed, name, task.manifest.epoch) for failed, name in met.letters]
        if met.queries is not None:
            mapped.matched = Matched(met.queries, met.work)
        mapped.seconds["matching"] = clock.perf_counter() - begun
        return mapped


class RowQueries(Operator):
    """All row queries of the pond; the manifest names the version of their index."""

    owner = "row queries"

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[RowQueries]:
        """See `Operator`."""
        return (cls(),)

    def mapper(self, task: MapTask) -> Mapper | None:
        """See `Operator`."""
        return RowMatcher(task) if task.manifest.register else None

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`."""
        streams = facts.catalog.streams.values()
        found = [node for stream in streams if (node := self.explain_stream(facts, stream)) is not None]
        return PlanNode("row queries", "row queries, matched with new rows as they come", children=tuple(found))

    def explain_stream(self, facts: PlanFacts, stream: StreamDefinition) -> PlanNode | None:
        """See `Operator`."""
        count = facts.row_queries(stream.id)
        title = f"{count} row queries on {stream.name}, matched with new rows as they come"
        return PlanNode("row queries", title) if count else None

    @classmethod
    def explain_query(cls, facts: PlanFacts, query: Query, standing: Standing | None) -> PlanNode | None:
        """See `Operator`."""
        return row_query_plan(query) if isinstance(query, RowQuery) else None
