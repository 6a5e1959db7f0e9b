"""Finished back-fills: what becomes visible with the epoch that adopts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from millpond.catalog import Catalog
from millpond.manifests.query_progress import QueryProgress
from millpond.tables import Segment


@dataclass(frozen=True)
class Adoption:
    """A finished back-fill that waits for an epoch, or what was recomputed for a query (`engine.jobs.mending`).

    dead: by stream, files of dead letters that it has made. mends: the epoch up to which all rows are in what was
    recomputed; None: it is a back-fill. passed: the answers as derived streams get them, where that is more than what
    is stored.
    """

    owner: str
    queries: tuple[int, ...]
    progress: dict[str, QueryProgress] = field(default_factory=dict)
    state: tuple[Segment, ...] = ()
    results: tuple[Segment, ...] = ()
    dead: dict[str, tuple[Segment, ...]] = field(default_factory=dict)
    mends: int | None = None
    passed: tuple[Segment, ...] = ()

    def waiting(self, catalog: Catalog) -> list[int]:
        """Its queries that wait for it."""
        return [q for q in self.queries if q in catalog.queries and catalog.queries[q].status == "backfilling"]

    @staticmethod
    def at(segment: Segment, epoch: int) -> Segment:
        """A segment of results or dead letters as it is committed: visible with the epoch that adopts it."""
        return replace(segment, first_epoch=epoch, last_epoch=epoch)

    def files(self) -> Iterator[str]:
        """Names of the files that no commit names before it is adopted."""
        yield from (s.path for s in (*self.state, *self.results, *self.passed))
        yield from (s.path for files in self.dead.values() for s in files)
