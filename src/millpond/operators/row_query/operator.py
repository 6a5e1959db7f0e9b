"""Row queries on a stream: its new rows are matched with all of them, ahead of any question."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Sequence

from millpond.archive.dead_letters import failed_letters
from millpond.catalog import Catalog, Standing
from millpond.manifests.task_reports import Matched
from millpond.operators.contract import Mapped, Mapper, MapTask, Operator, Taken
from millpond.operators.row_query.matching import meet_queries


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

    def users(self) -> Sequence[Standing]:
        """See `Operator`: what it makes is derived, and made again by who finds it missing."""
        return ()

    def mapper(self, task: MapTask) -> Mapper | None:
        """See `Operator`."""
        return RowMatcher(task) if task.manifest.register else None
