"""Derived streams: rows that pass a condition, and answers of a query, become the input of the next epoch."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterable, Sequence

import pyarrow as pa

from millpond.archive.dead_letters import failed_letters
from millpond.catalog import Catalog, Standing
from millpond.manifests.adoptions import Adoption
from millpond.manifests.places import derived_owner, query_owner, results_folder
from millpond.manifests.task_reports import Operated
from millpond.operators.contract import Mapped, Mapper, MapTask, MergeTask, Operator, Past, Step, Taken
from millpond.operators.derived.passed_rows import pass_rows, write_answers, write_passed
from millpond.operators.derived.past_rows import make_past
from millpond.operators.filters.order_facts import order_facts
from millpond.operators.filters.subjects import stream_subject
from millpond.operators.plan_facts import PlanFacts, work_facts
from millpond.tables import read_chunks
from millpond.types import StreamDefinition
from millpond.types.plan_nodes import Fact, PlanNode
from millpond.types.stream_definitions import RowDerivation


class RowsPasser(Mapper):
    """Writes the rows of a map task that a derived stream is made of."""

    whole = True

    def __init__(self, task: MapTask, follower: StreamDefinition) -> None:
        self.task, self.follower = task, follower

    def finish(self, taken: Taken) -> Mapped:
        """See `Mapper`."""
        mapped, task, follower, begun = Mapped(), self.task, self.follower, clock.perf_counter()
        segment, epoch = taken.whole.rows, task.manifest.epoch
        passed = pass_rows(task.stream, follower, segment, epoch, task.screens)
        if passed is not None:
            write_passed(task.pond, follower, epoch, task.number, passed.rows)
            mapped.passed[str(follower.id)] = passed.rows.num_rows
            seconds = clock.perf_counter() - begun
            mapped.operators[derived_owner(follower.id)] = Operated(segment.num_rows, passed.rows.num_rows, seconds)
            if passed.failed is not None:
                mapped.dead.append(failed_letters(passed.failed, follower.name, epoch, "stream"))
        return mapped

    def failed(self, taken: Taken, reason: str) -> Mapped:
        """See `Mapper`: there is no query to be quarantined, so its rows are put aside."""
        mapped, segment = Mapped(), taken.whole.rows
        if segment.num_rows:
            rows = segment.append_column("_reason", pa.repeat(pa.scalar(reason), segment.num_rows))
            mapped.dead.append(failed_letters(rows, self.follower.name, self.task.manifest.epoch, "stream"))
        return mapped


#: Numbers of the files that adopted back-fills give, behind those of any task.
ADOPTED = 90_000


class DerivedRows(Operator):
    """A stream that is made of the rows of another one."""

    def __init__(self, catalog: Catalog, stream: StreamDefinition) -> None:
        assert isinstance(stream.derived, RowDerivation)
        self.catalog, self.stream, self.owner = catalog, stream, derived_owner(stream.id)
        self.derived, self.first_epoch = stream.derived, stream.derived.first_epoch

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[DerivedRows]:
        """See `Operator`."""
        return [cls(catalog, s) for s in catalog.streams.values() if isinstance(s.derived, RowDerivation)]

    def mapper(self, task: MapTask) -> Mapper | None:
        """See `Operator`."""
        return RowsPasser(task, self.stream) if task.stream.id in self.derived.sources else None

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`."""
        derived = self.derived
        found = [Fact("filter", str(derived.where))] if derived.where else []
        found.append(Fact("columns", ", ".join(str(o.expression) for o in derived.select)))
        found += [*order_facts(facts, stream_subject(self.stream)), *work_facts(facts, self.owner)]
        source = self.catalog.streams[derived.sources[0]].name
        return PlanNode("derived", f"rows of stream {source}, an epoch after it", tuple(found))

    def explain_stream(self, facts: PlanFacts, stream: StreamDefinition) -> PlanNode | None:
        """See `Operator`: of the stream that it makes."""
        return self.explain(facts) if stream.id == self.stream.id else None

    def history(self, past: Past) -> None:
        """See `Operator`: its rows are files that the stream takes in by itself."""
        make_past(self.stream, past)


class DerivedAnswers(Operator):
    """A stream that is made of the answers of a query: what these are in an epoch is its input in the next one."""

    def __init__(self, catalog: Catalog, stream: StreamDefinition, standing: Standing) -> None:
        self.catalog, self.stream, self.standing = catalog, stream, standing
        self.owner, self.answers = derived_owner(stream.id), query_owner(standing.id)
        self.first_epoch = standing.first_epoch

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[DerivedAnswers]:
        """See `Operator`."""
        running = {q.id: q for q in catalog.running()}
        made = [(s, running.get(q)) for s in catalog.streams.values() for q in s.queries]
        return [cls(catalog, stream, standing) for stream, standing in made if standing is not None]

    def users(self) -> Sequence[Standing]:
        """See `Operator`."""
        return (self.standing,)

    def in_shard(self, shard: int, shards: int) -> bool:
        """See `Operator`: wherever there are answers."""
        return True

    def merge(self, task: MergeTask, parts: Sequence[pa.Table]) -> Step:
        """See `Operator`."""
        mine = [c.table for c in task.answers if c.owner == self.answers]
        rows = write_answers(task.pond, self.stream, task.manifest.epoch, task.shard, mine)
        return Step(passed={str(self.stream.id): rows} if rows else {})

    def adopt(self, pond: str, epoch: int, adoption: Adoption) -> int:
        """See `Operator`: the answers of a back-fill are the stream's, too."""
        made = 0
        files = adoption.passed or adoption.results
        for number, segment in enumerate(files if self.standing.id in adoption.queries else ()):
            path = os.path.join(results_folder(pond), segment.path)
            mine = [c.table for c in read_chunks([path], {self.answers})]
            made += write_answers(pond, self.stream, epoch, ADOPTED + number, mine)
        return made

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`."""
        title = f"answers of query {self.standing.definition.name}, an epoch after it"
        return PlanNode("derived", title, tuple(work_facts(facts, self.owner)))
