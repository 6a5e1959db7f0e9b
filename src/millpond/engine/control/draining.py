"""A drain: what the sources hold at one moment, and whether all of it is committed."""

from __future__ import annotations

from millpond.engine.core import Core
from millpond.engine.jobs.backfill import ready_backfills
from millpond.operators.derived.history import caught_up


class Drain:
    """Looks at the sources, and takes what they hold.

    Arguments:
        core: of the pond. final: announce the end of every source; it survives a restart.
    """

    def __init__(self, core: Core, final: bool) -> None:
        self._core = core
        with core.lock:
            streams = {s: r for s, r in core.streams.items() if s in core.catalog.streams}
            for runtime in streams.values():
                if runtime.definition.derived is not None:
                    continue  # it ends when what it reads has ended
                if runtime.source is not None:
                    runtime.source.poll(core.now(), settle=False)
                if final and runtime.definition.options.source != "system":
                    runtime.log.end()
            self._lengths = {s: r.log.length for s, r in streams.items()}
            self._ended = [s for s, r in streams.items() if r.log.ended]

    def done(self) -> bool:
        """Whether all of it is committed, and nothing is under way."""
        core, published = self._core, self._core.published
        return (
            all(published.intake.get(str(s), 0) >= n for s, n in self._lengths.items() if s in core.catalog.streams)
            and all(
                str(s) in published.progress and published.progress[str(s)].ended
                for s in self._ended
                if s in core.catalog.streams
            )
            and not any(q.status == "backfilling" for q in core.catalog.queries.values())
            and not ready_backfills(core)
            and core.epochs.in_flight is None
            and caught_up(core)
        )
