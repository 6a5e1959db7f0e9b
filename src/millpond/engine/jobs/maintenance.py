"""Upkeep beside running epochs: retention, compaction, copies, sweeping. Each part is short and may be killed."""

from __future__ import annotations

from functools import partial

from millpond.archive.storage import StreamRuntime
from millpond.archive.summed.summary_upkeep import maintain_summaries
from millpond.archive.upkeep.compaction import compact_archive, compact_results
from millpond.archive.upkeep.copy_maintenance import sweep_copies, unmark, vacuum
from millpond.archive.upkeep.expiry import expire
from millpond.engine.control.notices import failed
from millpond.engine.core import Core
from millpond.engine.jobs.sweeping import sweep, sweep_dropped
from millpond.engine.jobs.table_readings import sweep_tables
from millpond.manifests.records import read_manifest
from millpond.operators.row_query.block_upkeep import sweep_hot
from millpond.support.event_log import event_log

LOG = event_log(__name__)


def maintain(core: Core) -> None:
    """One round of upkeep, one at a time; every part is short and can be killed at any moment.

    A part that fails leaves the others alone. Raises: what the first one raised that failed.
    """
    errors: list[Exception] = []
    storage, epochs, archives = core.storage, core.epochs, core.archives
    with core.upkeep:
        runtimes = list(storage.streams.values())
        for part in (
            *(partial(_expire, core, runtime) for runtime in runtimes),
            partial(maintain_summaries, archives),
            *(partial(_compact, core, runtime) for runtime in runtimes),
            partial(compact_results, archives),
            partial(sweep, storage, epochs),
            partial(sweep_dropped, storage, core.catalogs, epochs),
            partial(sweep_tables, core),
            partial(sweep_copies, archives),
            partial(sweep_hot, epochs, core.catalogs.catalog, core.settings.hot_bytes),
            partial(_prune, core),
        ):
            try:
                part()
            except Exception as error:
                failed(LOG, "upkeep failed", error, core.path, part=part.func.__name__.strip("_"))
                errors.append(error)
    if errors:
        raise errors[0]


def _expire(core: Core, runtime: StreamRuntime) -> None:
    unmark(runtime)
    expire(core.archives, runtime)


def _compact(core: Core, runtime: StreamRuntime) -> None:
    compact_archive(core.archives, runtime)
    vacuum(core.archives, runtime)


def _prune(core: Core) -> None:
    """Remove records that nothing can ask for; what a back-fill reads is asked for."""
    catalogs, epochs = core.catalogs, core.epochs
    # The last epoch that looked at the register, or is going to.
    needed = read_manifest(core.path, epochs.last_manifest).register if epochs.last_manifest else 0
    catalogs.register.maintain(needed)
    with epochs.lock:
        filling = (q for q in catalogs.catalog.queries.values() if "backfilling" in (q.status, q.reason))
        epochs.prune(min((q.first_epoch - 1 for q in filling), default=epochs.published.epoch))
        catalogs.log.prune(epochs.published.version)
