"""Finding the facts for the next epoch: sources are polled, the clock is read, finished back-fills are looked up."""

from __future__ import annotations

from dataclasses import replace

from millpond.catalog import Catalog
from millpond.engine.control.facts import Facts, StreamFacts
from millpond.engine.core import Core
from millpond.engine.jobs.table_readings import versions_now


def gather(core: Core, force: bool = False, settle: bool = True) -> Facts:
    """What is so now; hold the core's lock from here until what is decided is done.

    Args:
        force: an epoch is wanted even without work.
        settle: False takes files that may still be growing (DRAIN).
    """
    clock, catalog, learnt = core.clock.now(), core.catalogs.catalog, core.controllers
    tables, unread = versions_now(core.tables, catalog, clock)
    return Facts(
        clock,
        catalog,
        core.epochs.published,
        replace(core.settings),
        _streams(core, catalog, clock, settle),
        tuple(core.backfills.ready()),
        core.storage.state.segments,
        tables,
        unread,
        core.executor.cores,
        learnt.pace,
        learnt.stages,
        learnt.skew,
        learnt.matching_pace.told,
        force,
        mended=tuple(core.mendings.ready()),
    )


def _streams(core: Core, catalog: Catalog, clock: int, settle: bool) -> dict[int, StreamFacts]:
    """What the streams have, after a look at their sources."""
    storage, taken = core.storage, core.epochs.published.intake
    found: dict[int, StreamFacts] = {}
    for stream, runtime in sorted(storage.streams.items()):
        if stream not in catalog.streams:
            continue
        if runtime.source is not None:
            runtime.source.poll(clock, settle)
        log, items = runtime.log, runtime.log.items(taken.get(str(stream), 0), None)
        copies = storage.copies_entered(stream) if items else {}
        found[stream] = StreamFacts(items, log.ended_at, tuple(runtime.arriving), copies, runtime.archive.segments)
    return found
