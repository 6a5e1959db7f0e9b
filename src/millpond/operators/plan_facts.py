"""What an operator may look at to explain itself, and what most of them say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from millpond.archive.planning.ranges import Range
from millpond.archive.summed.serving import Served, Sums
from millpond.catalog import Catalog, Standing
from millpond.manifests.records import Published
from millpond.operators.filters.filter_orders import FilterOrders
from millpond.tables import Segment
from millpond.tables.segments import Snapshot
from millpond.types import StreamDefinition
from millpond.types.plan_nodes import Fact


@dataclass(frozen=True)
class Done:
    """What an operator did for its queries in the last epochs, and the state that there is of it.

    seconds: of all tasks together. kept_rows, kept_bytes: in the state files.
    """

    rows_in: int = 0
    rows_out: int = 0
    selectivity: float = 0.0
    seconds: float = 0.0
    kept_rows: int = 0
    kept_bytes: int = 0


@dataclass(frozen=True)
class PlanFacts:
    """What is known to those that explain themselves, as of one moment; files that are named stay meanwhile.

    Attributes:
        pond: its folder. published: the last publish record.
        catalog: what the pond is made to do; of a query that nobody has registered, with the streams that it needs.
        filters: the orders of conditions and of joins.
        state: the committed state files. entries: those of summaries.
        archives: by stream, the files of its archive, and the event time before which rows were removed.
        summary: which summary serves a scan of a range of a stream, and what is read then.
        table: what there is to say of a table, by its name. row_queries: how many there are on a stream.
        done: by owner of state what was done in the last epochs; None: it is not asked for (EXPLAIN without ANALYZE).
    """

    pond: str
    catalog: Catalog
    published: Published
    filters: FilterOrders
    state: Sequence[Segment]
    entries: Sequence[Segment]
    archives: Mapping[int, Snapshot]
    summary: Callable[[StreamDefinition, Sums, Range], Served | None]
    table: Callable[[str], Fact]
    row_queries: Callable[[int], int]
    done: Mapping[str, Done] | None = None

    @property
    def analyzed(self) -> bool:
        """Whether it is asked what was done."""
        return self.done is not None


def used_by(catalog: Catalog, owner: str, asker: Standing | None, others: Sequence[str] = ()) -> str:
    """Who uses state of an owner, behind its name: with whom the asker shares it, or all of them.

    Args:
        others: that use it beside queries.
    """
    own = catalog.known_as(asker) if asker is not None else []
    names = {name for query in catalog.users(owner) for name in catalog.known_as(query)} - set(own)
    listed = ", ".join([*sorted(names), *others])
    if asker is None:
        return f" of {listed}"
    return f", shared with {listed}" if listed else ", its own"


def work_facts(facts: PlanFacts, owner: str) -> list[Fact]:
    """What an operator did in the last epochs, and the state that is kept of it; nothing where that is not asked."""
    if facts.done is None:
        return []
    did, users = facts.done.get(owner, Done()), len(facts.catalog.users(owner))
    done = f"{did.rows_in} rows in, {did.rows_out} out (selectivity {did.selectivity:.4g}), {did.seconds:.3f} s"
    whom = f" for {users} {'query' if users == 1 else 'queries'}" if users else ""
    return [Fact("work", f"{done}; {did.kept_rows} rows and {did.kept_bytes} bytes kept{whom}")]
