"""What is owed to queries, and what has been recomputed of it and waits for an epoch to adopt it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from millpond.catalog.catalogs import Catalogs
from millpond.manifests.adoptions import Adoption
from millpond.manifests.epochs import Epochs
from millpond.manifests.owed import Owed, settled
from millpond.manifests.places import query_owner, results_folder
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.registry import operators_of
from millpond.tables import read_json, remove_file, write_json
from millpond.types import from_json, to_json


@dataclass(frozen=True)
class Mendings:
    """Recomputed answers of an open pond, by query; those that are finished are files in its folder."""

    catalogs: Catalogs
    epochs: Epochs

    @property
    def folder(self) -> str:
        """Where they are written down."""
        return os.path.join(self.epochs.path, "mendings")

    def record_path(self, owner: str) -> str:
        """Where what was recomputed for a query is written down."""
        return os.path.join(self.folder, f"{owner}.json")

    def record(self, adoption: Adoption) -> None:
        """Write down what was recomputed for a query."""
        with self.epochs.lock:
            os.makedirs(self.folder, exist_ok=True)
            write_json(self.record_path(adoption.owner), to_json(adoption))
            self.epochs.notify()

    def adopted_by(self, names: Iterable[str]) -> list[Adoption]:
        """What a manifest names, which is kept until its epoch is published."""
        return [from_json(Adoption, read_json(self.record_path(name))) for name in names]

    def recorded(self) -> list[Adoption]:
        """All that is written down, be it wanted or not."""
        names = sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []
        return self.adopted_by(n[:-5] for n in names if n.endswith(".json"))

    def finished(self) -> list[Adoption]:
        """What no epoch has adopted; what nobody wants any more is forgotten."""
        found: list[Adoption] = []
        with self.epochs.lock:
            for adoption in self.recorded():
                if self._is_wanted(adoption):
                    found.append(adoption)
                elif self.epochs.in_flight is None:
                    self._forget(adoption)
        return found

    def ready(self) -> list[Adoption]:
        """What the next epoch can adopt: a query that is paused waits until it runs again."""
        queries = self.catalogs.catalog.queries
        return [a for a in self.finished() if all(queries[q].status == "live" for q in a.queries)]

    def owed(self) -> dict[str, dict[int, tuple[Owed, ...]]]:
        """What is still to be recomputed, of the queries that run, by the operators that answer them."""
        with self.epochs.lock:
            published, catalog = self.epochs.published, self.catalogs.catalog
            answering, done = operators_of(catalog).answering, {a.owner for a in self.finished()}
            found: dict[str, dict[int, tuple[Owed, ...]]] = {}
            for standing in catalog.running():
                known = published.queries.get(str(standing.id), QueryProgress())
                if known.owed and standing.status == "live" and query_owner(standing.id) not in done:
                    found.setdefault(answering[standing.id].owner, {})[standing.id] = known.owed
        return found

    def is_settled(self, epoch: int) -> bool:
        """Whether no query that runs is owed anything for rows of the epochs up to one."""
        with self.epochs.lock:
            published = self.epochs.published.queries
            running = [q for q in self.catalogs.catalog.running() if q.status == "live"]
            owed = [o for q in running for o in published.get(str(q.id), QueryProgress()).owed]
        return all(each.first > epoch for each in owed)

    def _is_wanted(self, adoption: Adoption) -> bool:
        """Whether its query is there and owed what it has."""
        [query] = adoption.queries
        standing = self.catalogs.catalog.queries.get(query)
        known = self.epochs.published.queries.get(str(query), QueryProgress())
        assert adoption.mends is not None
        return (
            standing is not None
            and standing.status != "quarantined"
            and any(each.first <= adoption.mends for each in known.owed)
        )

    def _forget(self, adoption: Adoption) -> None:
        """Answers that no commit has named are swept when the pond is opened."""
        for segment in adoption.passed:
            remove_file(os.path.join(results_folder(self.epochs.path), segment.path))
        remove_file(self.record_path(adoption.owner))


def mended(progress: QueryProgress, adoption: Adoption) -> QueryProgress:
    """The progress of a query with what was recomputed for it."""
    [found] = adoption.progress.values()
    assert adoption.mends is not None
    return replace(
        progress,
        owed=settled(progress.owed, adoption.mends),
        windows=progress.windows + found.windows,
        revisions=progress.revisions + found.revisions,
        missed=tuple(sorted({*progress.missed, *found.missed})),
    )
