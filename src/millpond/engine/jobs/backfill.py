"""Back-fill: what came before an operator, from the archive. Covers exactly the epochs before its first live one.

Its files become visible with the epoch that adopts them; a crash before only repeats the job.
"""

from __future__ import annotations

import time
from functools import partial

from millpond.catalog import Catalog
from millpond.engine.core import Core
from millpond.engine.jobs.table_readings import versions_now
from millpond.manifests.places import query_owner
from millpond.manifests.quarantine import Failures, quarantine
from millpond.manifests.records import Published, read_published
from millpond.operators.contract import Operator, Past
from millpond.operators.registry import operators_of
from millpond.support.errors import EngineError
from millpond.support.event_log import event_log

LOG = event_log(__name__)

#: What goes before the reason.
_GIVEN_UP = "it cannot be back-filled: "


def attempt_backfill(core: Core, owner: str) -> None:
    """As `run_backfill`; a back-fill that fails twice gives up its queries, and keeps nobody else waiting.

    Raises: what is in `INFRASTRUCTURE`; it may go well another time.
    """
    failures, begun = Failures(core.catalog, "back-fill"), time.perf_counter()
    queries = sorted(core.catalog.queries[q].definition.name for q in core.backfills.queries_of(owner))
    LOG.info("back-fill started", queries=queries, owner=owner)
    failures.attempt(owner, partial(run_backfill, core, owner))
    if owner in failures:
        give_up(core, owner, failures.reasons[owner])
    else:
        LOG.info("back-fill finished", queries=queries, owner=owner, seconds=time.perf_counter() - begun)


def give_up(core: Core, owner: str, reason: str) -> None:
    """Quarantine the queries that wait for a back-fill. Raises: EngineError when none does."""
    with core.lock:
        waiting = core.backfills.queries_of(owner)
        quarantine(core.catalogs.log, {query_owner(q): reason for q in waiting}, _GIVEN_UP)
        core.epochs.notify()
    if not waiting:
        raise EngineError(f"the past of {owner} was not made: {reason}")


def run_backfill(core: Core, owner: str) -> None:
    """Run the back-fill of one operator and record it as finished."""
    with core.storage.pinned():
        with core.lock:
            catalog = core.catalog
        operator = operators_of(catalog).named.get(owner)
        if operator is None:
            return
        failures = Failures(catalog, f"back-fill of {owner}")
        core.backfills.forget(owner)  # an earlier run did not cover every user
        adoption = operator.history(_past(core, catalog, operator, failures))
        with core.lock:
            quarantine(core.catalogs.log, failures.reasons, _GIVEN_UP)
            if adoption is not None and owner in core.operators.named:
                core.backfills.record(adoption)
            core.epochs.notify()


def _past(core: Core, catalog: Catalog, operator: Operator, failures: Failures) -> Past:
    """What came before an operator."""
    before = operator.first_epoch - 1
    known = read_published(core.path, before) if before > 0 else Published()
    versions, unread = versions_now(core.tables, catalog, core.now())
    plan = f"{core.backfills.record_path(operator.owner)}.plan"
    return Past(
        core.archives, catalog, known, core.tables, versions, unread, core.now(), core.settings.shards, plan, failures
    )
