"""Summary copies whose partials a synopsis makes: an entry beside each file that an epoch writes."""

from __future__ import annotations

from collections.abc import Iterable

from millpond.archive.summed.entry_files import live_name, write_entry
from millpond.catalog import Catalog, Standing, Summary
from millpond.operators.contract import Mapped, Mapper, MapTask, Operator, Taken
from millpond.operators.plan_facts import PlanFacts
from millpond.synopses.partials.late_exclusions import CUT
from millpond.synopses.tolerance import tolerant_partial
from millpond.types import StreamDefinition
from millpond.types.plan_nodes import Fact, PlanNode, said


class EntryWriter(Mapper):
    """Writes the entry of a map task's archive file."""

    def __init__(self, task: MapTask, summary: Summary) -> None:
        self.task, self.summary = task, summary
        # On a stream that drops late rows, entries tell these apart by what they were behind.
        self.whole = task.stream.options.late == "drop"

    def finish(self, taken: Taken) -> Mapped:
        """See `Mapper`."""
        mapped, summary, task = Mapped(), self.summary, self.task
        table = task.made.get(summary.owner)
        if table is None or taken.file is None:
            return mapped
        if task.stream.options.late == "drop":
            spec = task.catalog.synopses[summary.owner].spec
            table = tolerant_partial(spec, taken.whole.counting, f"_bound AS {CUT}")[0]
        written = write_entry(task.pond, summary.id, taken.file, live_name(summary.id, taken.file.path), table)
        mapped.entries[written.path] = written
        return mapped


class SummaryOperator(Operator):
    """A summary copy that is made as rows arrive. It reads what its synopsis makes of them."""

    def __init__(self, catalog: Catalog, summary: Summary) -> None:
        self.catalog, self.summary, self.owner = catalog, summary, f"summary {summary.id}"
        self.inputs = (summary.owner,)
        self.first_epoch = summary.first_epoch

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[SummaryOperator]:
        """See `Operator`."""
        return [cls(catalog, s) for s in catalog.summaries.values() if s.owner]

    def mapper(self, task: MapTask) -> Mapper | None:
        """See `Operator`."""
        summary = self.summary
        fed = summary.owner in self.catalog.synopses and task.stream.id == summary.stream
        return EntryWriter(task, summary) if fed and summary.first_epoch <= task.manifest.epoch else None

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`."""
        summary = self.summary
        there = [s for s in facts.entries if s.shard == summary.id]
        kept = f"{len(there)} entries with {sum(s.rows for s in there)} partials"
        made = f"synopsis {summary.owner} makes their partials, an entry beside each file of the archive"
        return PlanNode("summary", f"summary({summary.query})", (Fact("kept", kept), said("made", made)))

    def explain_stream(self, facts: PlanFacts, stream: StreamDefinition) -> PlanNode | None:
        """See `Operator`."""
        return self.explain(facts) if stream.id == self.summary.stream else None
