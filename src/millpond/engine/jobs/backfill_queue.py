"""Back-fills that wait to be run, and those that are finished and wait for an epoch to adopt them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from millpond.catalog import Catalog, Standing
from millpond.catalog.catalogs import Catalogs
from millpond.manifests.adoptions import Adoption
from millpond.manifests.epochs import Epochs
from millpond.tables import read_json, remove_file, write_json
from millpond.types import from_json, to_json

#: Back-fills of relational queries are called by this and the query's id.
RELATION = "relation"


def backfill_owner(standing: Standing) -> str:
    """What the back-fill of a query is called: its synopsis, which it may share; a relational one has its own."""
    return f"{RELATION}{standing.id}" if standing.inputs else standing.synopsis


@dataclass(frozen=True)
class Backfills:
    """The back-fills of an open pond; those that are finished are files in its folder."""

    catalogs: Catalogs
    epochs: Epochs

    def record_path(self, owner: str) -> str:
        """Where a finished back-fill is written down."""
        return os.path.join(self.epochs.path, "backfills", f"{owner}.json")

    def record(self, adoption: Adoption) -> None:
        """Write down that a back-fill is finished."""
        with self.epochs.lock:
            write_json(self.record_path(adoption.owner), to_json(adoption))
            self.epochs.notify()

    def forget(self, owner: str) -> None:
        """Remove what an earlier run has recorded."""
        remove_file(self.record_path(owner))

    def finished(self) -> list[Adoption]:
        """Finished back-fills that no published epoch has adopted."""
        found = []
        folder = os.path.join(self.epochs.path, "backfills")
        with self.epochs.lock:
            catalog, queries = self.catalogs.catalog, self.epochs.published.queries
            for name in sorted(n for n in os.listdir(folder) if n.endswith(".json")):
                adoption = from_json(Adoption, read_json(os.path.join(folder, name)))
                if any(str(q) in queries for q in adoption.queries) or not _is_known(catalog, adoption):
                    remove_file(os.path.join(folder, name))
                else:
                    found.append(adoption)
        return found

    def ready(self) -> list[Adoption]:
        """Those that the next epoch can adopt.

        A query that joined the synopsis while its back-fill ran is not covered by it: the back-fill is repeated first.
        """
        with self.epochs.lock:
            return [a for a in self.finished() if _covers(self.catalogs.catalog, a)]

    def waiting(self) -> list[str]:
        """Those that have still to run and can: the epoch before their first one is published."""
        done = {a.owner for a in self.ready()}
        published, queries = self.epochs.published, self.catalogs.catalog.queries.values()
        owners = {
            backfill_owner(q): q.first_epoch
            for q in queries
            if q.status in ("backfilling", "paused") and str(q.id) not in published.queries
        }
        return sorted(
            owner
            for owner, first in owners.items()
            if published.epoch >= first - 1 and self.queries_of(owner) and owner not in done
        )

    def queries_of(self, owner: str) -> list[int]:
        """The queries that wait for a back-fill."""
        users = [q for q in self.catalogs.catalog.queries.values() if backfill_owner(q) == owner]
        return [q.id for q in users if "backfilling" in (q.status, q.reason)]


def _is_known(catalog: Catalog, adoption: Adoption) -> bool:
    """Whether what a back-fill was for is still there."""
    if adoption.owner.startswith(RELATION):
        return any(q in catalog.queries for q in adoption.queries)
    return adoption.owner in catalog.synopses


def _covers(catalog: Catalog, adoption: Adoption) -> bool:
    waiting = {q.id for q in catalog.users(adoption.owner) if "backfilling" in (q.status, q.reason)}
    return waiting <= set(adoption.queries)


__all__ = ["RELATION", "Backfills", "backfill_owner"]
