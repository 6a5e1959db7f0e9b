"""Quarantine: what a query's own part of the work raises is that query's failure, and nobody else's.

An epoch, a back-fill or a look at timers does something for each query, synopsis and store. Every such part is made
through `Failures.attempt`. What fails twice takes no part in the rest of the work, its users are quarantined with the
reason when the work is done (`quarantine`), and from then on nothing is done for them.

    failures = Failures(catalog, "epoch 12, shard 3")
    answers = failures.attempt(owner, lambda: answers_of(query))
    if owner in failures:
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb

from millpond.catalog.catalog_state import Catalog, Standing
from millpond.catalog.log import CatalogLog
from millpond.manifests.places import derived_owner, query_owner
from millpond.support.errors import EngineError, PondError
from millpond.support.event_log import event_log
from millpond.synopses.kernel import BROKEN, reset
from millpond.synopses.tolerance import one_line

LOG = event_log(__name__)

#: What no query is to blame for: a disk, an object store, a pond that was taken over or closed, an interrupt. It fails
#: the epoch or the job, which is tried again.
INFRASTRUCTURE = (OSError, duckdb.IOException, duckdb.InterruptException, PondError, EngineError)

#: How often a part is tried.
ATTEMPTS = 2

T = TypeVar("T")


@dataclass
class Failures:
    """What fails in a piece of work, and why.

    Args:
        catalog: says which queries a synopsis or a store serves.
        where: the piece of work, for the log: `epoch 12, shard 3`.
        reasons: by owner (a synopsis, a store, a query as `query_owner` has it, a stream), why it failed.
    """

    catalog: Catalog
    where: str
    reasons: dict[str, str] = field(default_factory=dict)

    def __contains__(self, owner: str) -> bool:
        return owner in self.reasons

    def attempt(self, owner: str, part: Callable[[], T], attempts: int = ATTEMPTS) -> T | None:
        """Do a part of the work, and once more if it fails.

        Args:
            part: changes nothing that counts before it has succeeded; asks for its DuckDB connection anew.
            attempts: 1 for a part that cannot be repeated.

        Returns: what the part returns; None when it failed, and `owner in failures` from now on.
        Raises: what is in `INFRASTRUCTURE`.
        """
        for attempt in range(1, attempts + 1):
            try:
                return part()
            except INFRASTRUCTURE:
                raise
            except Exception as error:
                if isinstance(error, BROKEN):
                    reset()
                if attempt == attempts:
                    LOG.warning(
                        "a part of the work failed", error, where=self.where, owner=owner, error=one_line(error)
                    )
                    self.add(owner, one_line(error) or type(error).__name__)
        return None

    def each(self, standings: Iterable[Standing], part: Callable[[Standing], T], otherwise: T) -> list[T]:
        """Do a part for each of some queries; for those that fail it gives `otherwise`."""
        found: list[T] = []
        for standing in standings:
            owner = query_owner(standing.id)
            made = self.attempt(owner, lambda each=standing: part(each)) if owner not in self else None  # type: ignore[misc]
            found.append(otherwise if owner in self or made is None else made)
        return found

    def add(self, owner: str, reason: str) -> None:
        """Take note that something failed; the first reason counts."""
        self.reasons.setdefault(owner, reason)

    def reason(self, standing: Standing) -> str | None:
        """Why a query fails, by itself, for the state that serves it, or for a stream of its answers; None: it does
        not."""
        if not self.reasons:
            return None
        fed = (derived_owner(s.id) for s in self.catalog.made_of(standing.id))
        owners = (query_owner(standing.id), standing.synopsis, *standing.inputs, *fed)
        return next((self.reasons[o] for o in owners if o in self.reasons), None)

    def queries(self) -> dict[str, str]:
        """The queries that fail, by id, each with its reason; those that are quarantined do nothing that could fail."""
        if not self.reasons:
            return {}
        found = {str(q.id): self.reason(q) for q in self.catalog.running()}
        return {number: reason for number, reason in found.items() if reason is not None}

    def consequences(self) -> list[dict[str, Any]]:
        """The events of the catalog that follow.

        Queries that fail are quarantined, operators that a stream asks for are stopped. A summary gets no more partials
        of a synopsis that has lost rows: upkeep makes its entries.
        """
        catalog, failing = self.catalog, self.queries()
        events = [each for number, reason in failing.items() for each in catalog.quarantined(int(number), reason)]
        events += [{"do": "stop_operator", "owner": owner, "reason": reason} for owner, reason in self.reasons.items()
                   if owner in catalog.asked and owner not in catalog.stopped]  # fmt: skip
        return events + [{"do": "forsake", "synopsis": owner} for owner in self.reasons if catalog.kept_by(owner)]


def quarantine(log: CatalogLog, reasons: Mapping[str, str], where: str = "") -> bool:
    """Record the consequences of what has failed; the pond's lock must be held.

    Args:
        reasons: as of `Failures`. What is recorded already, or gone by now, is passed over.
        where: goes before the reason that users see.

    Returns: whether there were any.
    """
    events = Failures(log.catalog, "", {owner: f"{where}{reason}" for owner, reason in reasons.items()}).consequences()
    for event in (e for e in events if e["do"] == "set_status"):
        name = log.catalog.queries[event["id"]].definition.name
        LOG.error("query quarantined", query=name, reason=event["reason"])
    if events:
        log.record(*events)
    return bool(events)


__all__ = ["ATTEMPTS", "INFRASTRUCTURE", "Failures", "quarantine"]
