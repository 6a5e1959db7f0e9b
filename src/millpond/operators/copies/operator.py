"""Reduced copies of an archive: written beside the file that an epoch writes."""

from __future__ import annotations

from collections.abc import Iterable

from millpond.archive.copy_files import eager_copies, write_copies
from millpond.catalog import Catalog, Standing
from millpond.operators.contract import Mapped, Mapper, MapTask, Operator, Taken
from millpond.operators.plan_facts import PlanFacts
from millpond.types import StreamDefinition
from millpond.types.plan_nodes import Fact, PlanNode


class CopyWriter(Mapper):
    """Writes the copies of a map task's archive file."""

    whole = True

    def __init__(self, task: MapTask, fractions: dict[str, float]) -> None:
        self.task, self.fractions = task, fractions

    def finish(self, taken: Taken) -> Mapped:
        """See `Mapper`."""
        mapped, task = Mapped(), self.task
        if taken.file is not None:
            rows = taken.whole.rows
            written = write_copies(task.pond, task.stream, taken.file, rows, self.fractions, task.writes)
            mapped.copies = dict(written)
        return mapped


class Copies(Operator):
    """The reduced copies of all archives; the manifest says which get new rows."""

    owner = "copies"

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[Copies]:
        """See `Operator`."""
        return (cls(),)

    def mapper(self, task: MapTask) -> Mapper | None:
        """See `Operator`."""
        fractions = task.manifest.copies.get(str(task.stream.id))
        return CopyWriter(task, fractions) if fractions else None

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`."""
        streams = list(facts.catalog.streams.values())
        copied = [node for stream in streams if (node := self.explain_stream(facts, stream)) is not None]
        return PlanNode("copies", "reduced copies of archives", children=tuple(copied))

    def explain_stream(self, facts: PlanFacts, stream: StreamDefinition) -> PlanNode | None:
        """See `Operator`: the copies that new rows go to."""
        copies = eager_copies(stream)
        if not copies:
            return None
        kept = tuple(Fact(name, f"{kept:.4g} of the rows") for name, kept in copies.items())
        return PlanNode("copies", f"reduced copies of {stream.name}", kept)
