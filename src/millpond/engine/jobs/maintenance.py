"""Upkeep beside running epochs: retention, compaction, copies, sweeping. Each part is short and may be killed."""

from __future__ import annotations

import threading
from functools import partial

from millpond.archive.open_archives import Archives
from millpond.archive.storage import StreamTables
from millpond.archive.summed.summary_upkeep import maintain_summaries
from millpond.archive.upkeep.compaction import compact_archive, compact_results
from millpond.archive.upkeep.copy_maintenance import maintain_copies, sweep_copies, unmark
from millpond.archive.upkeep.expiry import expire
from millpond.catalog.catalogs import Catalogs
from millpond.engine.control.notices import failed
from millpond.engine.intake.live_storage import LiveStorage
from millpond.engine.jobs.backfill_queue import Backfills
from millpond.engine.jobs.sweeping import sweep, sweep_dropped
from millpond.engine.jobs.table_readings import sweep_tables
from millpond.engine.pond_view import PondView
from millpond.manifests.epochs import Epochs
from millpond.manifests.records import read_manifest
from millpond.operators.row_query.block_upkeep import sweep_hot
from millpond.support.event_log import event_log

LOG = event_log(__name__)


def maintain(pond: PondView, storage: LiveStorage, backfills: Backfills, upkeep: threading.Lock) -> None:
    """One round of upkeep, one at a time; every part is short and can be killed at any moment.

    A part that fails leaves the others alone.

    Args:
        storage: that of `pond`, with what streams take in. upkeep: held during the round.

    Raises: what the first one raised that failed.
    """
    errors: list[Exception] = []
    epochs, archives, catalogs = pond.epochs, pond.archives, pond.archives.catalogs
    with upkeep:
        runtimes = list(storage.streams.values())
        for part in (
            *(partial(_expire, archives, runtime) for runtime in runtimes),
            partial(maintain_summaries, archives),
            *(partial(_compact, archives, runtime) for runtime in runtimes),
            partial(compact_results, archives),
            partial(sweep, storage, epochs),
            partial(sweep_dropped, storage, catalogs, epochs),
            partial(sweep_tables, pond, backfills),
            partial(sweep_copies, archives),
            partial(sweep_hot, epochs, catalogs.catalog, pond.settings.hot_bytes),
            partial(_prune, catalogs, epochs),
        ):
            try:
                part()
            except Exception as error:
                failed(LOG, "upkeep failed", error, pond.path, part=part.func.__name__.strip("_"))
                errors.append(error)
    if errors:
        raise errors[0]


def _expire(archives: Archives, runtime: StreamTables) -> None:
    unmark(runtime)
    expire(archives, runtime)


def _compact(archives: Archives, runtime: StreamTables) -> None:
    compact_archive(archives, runtime)
    maintain_copies(archives, runtime)


def _prune(catalogs: Catalogs, epochs: Epochs) -> None:
    """Remove records that nothing can ask for; what a back-fill reads is asked for."""
    # The last epoch that looked at the register, or is going to.
    needed = read_manifest(epochs.path, epochs.last_manifest).register if epochs.last_manifest else 0
    catalogs.register.maintain(needed)
    with epochs.lock:
        filling = (q for q in catalogs.catalog.queries.values() if "backfilling" in (q.status, q.reason))
        epochs.prune(min((q.first_epoch - 1 for q in filling), default=epochs.published.epoch))
        catalogs.log.prune(epochs.published.version)
