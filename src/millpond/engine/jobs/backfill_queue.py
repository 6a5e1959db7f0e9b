"""Back-fills that wait to be run, and those that are finished and wait for an epoch to adopt them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from millpond.catalog.catalogs import Catalogs
from millpond.manifests.adoptions import Adoption
from millpond.manifests.epochs import Epochs
from millpond.operators.registry import Operators, operators_of
from millpond.tables import read_record, remove_file, write_json
from millpond.types import to_json


@dataclass(frozen=True)
class Backfills:
    """The back-fills of an open pond, by their operators; those that are finished are files in its folder."""

    catalogs: Catalogs
    epochs: Epochs

    @property
    def operators(self) -> Operators:
        """As of the catalog's last event."""
        return operators_of(self.catalogs.catalog)

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
            known, queries = self.operators.named, self.epochs.published.queries
            for name in sorted(n for n in os.listdir(folder) if n.endswith(".json")):
                adoption = read_record(Adoption, os.path.join(folder, name))
                if any(str(q) in queries for q in adoption.queries) or adoption.owner not in known:
                    remove_file(os.path.join(folder, name))
                else:
                    found.append(adoption)
        return found

    def ready(self) -> list[Adoption]:
        """Those that the next epoch can adopt.

        A query that joined the synopsis while its back-fill ran is not covered by it: the back-fill is repeated first.
        """
        with self.epochs.lock:
            return [a for a in self.finished() if set(self.queries_of(a.owner)) <= set(a.queries)]

    def waiting(self) -> list[str]:
        """Those that have still to run and can: the epoch before their first one is published."""
        done = {a.owner for a in self.ready()}
        published, answering = self.epochs.published, self.operators.answering
        owners = {
            answering[q.id].owner: q.first_epoch
            for q in self.catalogs.catalog.running()
            if q.status in ("backfilling", "paused") and str(q.id) not in published.queries
        }
        return sorted(
            owner
            for owner, first in owners.items()
            if published.epoch >= first - 1 and self.queries_of(owner) and owner not in done
        )

    def queries_of(self, owner: str) -> list[int]:
        """The queries that wait for a back-fill."""
        operator = self.operators.named.get(owner)
        users = () if operator is None else operator.users()
        return [q.id for q in users if "backfilling" in (q.status, q.reason)]
