"""A drain: what the sources hold at one moment, and whether all of it is committed and answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millpond.catalog import Catalog
from millpond.engine.control.timers import begins, resumed
from millpond.engine.intake.live_storage import LiveStorage
from millpond.engine.jobs.backfill_queue import Backfills
from millpond.engine.jobs.derived_history import caught_up
from millpond.engine.jobs.mending_queue import Mendings
from millpond.engine.pond_view import PondView
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import Published
from millpond.progress import StreamProgress
from millpond.support.event_log import event_log

LOG = event_log(__name__)


@dataclass(frozen=True)
class Goal:
    """What sources held at one moment: per stream how many items, and which streams had ended."""

    lengths: Mapping[int, int]
    ended: tuple[int, ...] = ()

    def reached(self, catalog: Catalog, published: Published) -> bool:
        """Whether all of it is published and no query waits for its past; streams dropped since do not count."""
        taken, progress = published.intake, published.progress
        return (
            all(taken.get(str(s), 0) >= n for s, n in self.lengths.items() if s in catalog.streams)
            and all(progress.get(str(s), StreamProgress()).ended for s in self.ended if s in catalog.streams)
            and not any(q.status == "backfilling" for q in catalog.queries.values())
        )


class Drain:
    """Looks at the sources, and takes what they hold.

    Args:
        pond: what is published. storage: with what streams take in. backfills, mendings: those that wait.
        final: announce the end of every source; it survives a restart.
    """

    def __init__(
        self, pond: PondView, storage: LiveStorage, backfills: Backfills, mendings: Mendings, final: bool
    ) -> None:
        self._pond, self._storage, self._backfills, self._mendings = pond, storage, backfills, mendings
        #: Answers that are recomputed are rows of other streams, whose queries are owed something in their turn.
        self._rounds = 1 + sum(s.derived is not None for s in pond.catalog.streams.values())
        self._taken: int | None = None
        with pond.lock:
            catalog, clock = pond.catalog, pond.now()
            streams = {s: r for s, r in storage.streams.items() if s in catalog.streams}
            for runtime in streams.values():
                if runtime.definition.derived is not None:
                    continue  # it ends when what it reads has ended
                if runtime.source is not None:
                    runtime.source.poll(clock, settle=False)
                if final and runtime.definition.options.source != "system":
                    if runtime.definition.options.late == "drop" and not runtime.log.ended:
                        LOG.warning(
                            "DRAIN FINAL shuts all windows: what comes later is dropped", stream=runtime.definition.name
                        )
                    runtime.log.end()
            ended = tuple(s for s, r in streams.items() if r.log.ended)
            self._goal = Goal({s: r.log.length for s, r in streams.items()}, ended)

    def done(self) -> bool:
        """Whether all of it is committed and answered, and nothing is under way."""
        pond = self._pond
        # Asked first: an epoch that began before a RESUME takes the query for paused, which shows when it is published.
        if pond.epochs.in_flight is not None:
            return False
        catalog, published = pond.catalog, pond.epochs.published
        if not (
            self._goal.reached(catalog, published)
            and not self._backfills.ready()
            and caught_up(self._storage, pond.archives.catalogs, pond.epochs, pond.now())
            and not self._left(catalog, published)
        ):
            return False
        # Rows that come from now on may owe more, which nobody has to wait for.
        while self._taken is None or (self._rounds and self._mendings.is_settled(self._taken)):
            self._rounds -= 1
            self._taken = pond.epochs.published.epoch
        return self._mendings.is_settled(self._taken)

    def _left(self, catalog: Catalog, published: Published) -> bool:
        """Whether the next epoch has queries to begin or to catch up, or to quarantine since that cannot be told."""
        failures = Failures(catalog, "a drain")
        waits = resumed(published, failures) or begins(published, self._pond.now(), failures)
        return waits or bool(failures.reasons)
