"""Back-fill: what came before an operator, from the archive. Covers exactly the epochs before its first live one.

Its files become visible with the epoch that adopts them; a crash before only repeats the job.
"""

from __future__ import annotations

import time
from functools import partial

from millpond.catalog import Catalog
from millpond.engine.jobs.backfill_queue import Backfills
from millpond.engine.jobs.table_readings import versions_now
from millpond.engine.pond_view import PondView
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


def attempt_backfill(pond: PondView, backfills: Backfills, owner: str) -> None:
    """As `run_backfill`; a back-fill that fails twice gives up its queries, and keeps nobody else waiting.

    Raises: what is in `INFRASTRUCTURE`; it may go well another time.
    """
    failures, begun = Failures(pond.catalog, "back-fill"), time.perf_counter()
    queries = sorted(pond.catalog.queries[q].definition.name for q in backfills.queries_of(owner))
    LOG.info("back-fill started", queries=queries, owner=owner)
    failures.attempt(owner, partial(run_backfill, pond, backfills, owner))
    if owner in failures:
        give_up(backfills, owner, failures.reasons[owner])
    else:
        LOG.info("back-fill finished", queries=queries, owner=owner, seconds=time.perf_counter() - begun)


def give_up(backfills: Backfills, owner: str, reason: str) -> None:
    """Quarantine the queries that wait for a back-fill. Raises: EngineError when none does."""
    with backfills.epochs.lock:
        waiting = backfills.queries_of(owner)
        quarantine(backfills.catalogs.log, {query_owner(q): reason for q in waiting}, _GIVEN_UP)
        backfills.epochs.notify()
    if not waiting:
        raise EngineError(f"the past of {owner} was not made: {reason}")


def run_backfill(pond: PondView, backfills: Backfills, owner: str) -> None:
    """Run the back-fill of one operator and record it as finished."""
    with pond.pinned():
        with pond.lock:
            catalog = pond.catalog
        operator = operators_of(catalog).named.get(owner)
        if operator is None:
            return
        failures = Failures(catalog, f"back-fill of {owner}")
        backfills.forget(owner)  # an earlier run did not cover every user
        adoption = operator.history(_past(pond, backfills, catalog, operator, failures))
        with pond.lock:
            quarantine(pond.archives.catalogs.log, failures.reasons, _GIVEN_UP)
            if adoption is not None and owner in pond.operators.named:
                backfills.record(adoption)
            pond.epochs.notify()


def _past(pond: PondView, backfills: Backfills, catalog: Catalog, operator: Operator, failures: Failures) -> Past:
    """What came before an operator."""
    before = operator.first_epoch - 1
    known = read_published(pond.path, before) if before > 0 else Published()
    versions, unread = versions_now(pond.tables, catalog, pond.now())
    plan = f"{backfills.record_path(operator.owner)}.plan"
    return Past(
        pond.archives, catalog, known, pond.tables, versions, unread, pond.now(), pond.settings.shards, plan, failures
    )
