"""An epoch: begin it (a manifest), run its tasks, commit its tables, publish it. Each step can be repeated safely."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from millpond.engine.control.committing import commit, publish, published_after, queries_after
from millpond.engine.control.gathering import gather
from millpond.engine.control.proposal import Proposal, propose
from millpond.engine.control.reporting import Reached, Work, report_epoch, takes_others
from millpond.engine.control.resharing import Resharing, decide, reshare
from millpond.engine.control.store_merging import mergings
from millpond.engine.control.telemetry import Stopwatch
from millpond.engine.core import Core
from millpond.engine.jobs.table_readings import refresh_files
from millpond.engine.tasks.entry import map_epoch, merge_epoch
from millpond.manifests.quarantine import Failures, quarantine
from millpond.manifests.records import Manifest, read_manifest, write_manifest
from millpond.manifests.task_reports import EpochReport, MergeReport
from millpond.operators.registry import operators_of
from millpond.support.errors import EngineError
from millpond.types import from_json


def begin_epoch(core: Core, force: bool = False, settle: bool = True) -> int | None:
    """Write the manifest of the next epoch if there is something to do; returns its number, or None.

    A query of which it cannot be told what there is to do is quarantined, and the epoch goes on without it.

    Args:
        force: make an epoch even without work.
        settle: False takes files that may still be growing (DRAIN).
    """
    refresh_files(core.tables, core.catalog, core.now())
    with core.lock:
        if core.epochs.in_flight is not None:
            return core.epochs.in_flight
        quarantine(core.catalogs.log, core.epochs.published.failures)  # a crash may have come before it
        _reshare(core)
        while True:
            facts = gather(core, force, settle)
            failures = Failures(facts.catalog, f"what epoch {facts.published.epoch + 1} is to do")
            proposal = propose(facts, failures)
            if not quarantine(core.catalogs.log, failures.reasons):
                break
        return None if proposal is None else _begun(core, proposal)


def _reshare(core: Core) -> None:
    """Bring the queries in line with the setting `share`, as soon as that can be, and put stores together that fit."""
    published, log = core.epochs.published, core.catalogs.log
    if core.resharing and (decided := decide(log.catalog, published, core.settings.share)) is not None:
        core.resharing = False
    elif core.settings.share and log.catalog.version != core.shared_at:
        decided = Resharing(mergings=mergings(log.catalog, published))
    else:
        return
    reshare(core.archives, log, published, decided)
    core.shared_at = log.catalog.version


def _begun(core: Core, proposal: Proposal) -> int:
    """Do what is proposed: record the events, ask who has a say, write the manifest."""
    catalog = core.catalogs.log.record(*proposal.events) if proposal.events else core.catalogs.catalog
    core.catalogs.log.snapshot(catalog)
    register, filters = core.catalogs.register, core.controllers.filters
    manifest = replace(
        proposal.manifest,
        register=register.ship(proposal.taken) if len(register) else 0,
        filters=Failures(catalog, "orders of filters").attempt("filters", partial(filters.plans, catalog)) or {},
        opening=core.ownership.opening,
    )
    assert manifest.version == catalog.version
    core.ownership.check_fence()
    write_manifest(core.path, manifest)
    core.epochs.last_manifest = manifest.epoch
    return manifest.epoch


def run_epoch(core: Core, epoch: int) -> None:
    """Run, commit and publish an epoch whose manifest is written; does nothing if it is published already.

    Raises: EngineError when its tasks fail.
    """
    if core.epochs.published.epoch >= epoch:
        return
    watch = Stopwatch()
    manifest = read_manifest(core.path, epoch)
    report = _run(core, manifest)
    watch.lap("job")
    adoptions = [a for a in core.backfills.finished() if any(str(q) in manifest.adopt for q in a.queries)]
    adoptions += core.mendings.adopted_by(manifest.mended)
    failures = Failures(core.catalogs.catalog, f"epoch {epoch}", dict(report.failures))
    operators = operators_of(core.catalogs.catalog)
    commit(core.storage, operators, manifest, report, adoptions, failures)
    watch.lap("commit")
    queries = queries_after(operators.answering, manifest, report, failures)
    work = Work(epoch, manifest.clock, watch.laps | {"epoch": watch.total}, report, manifest.filters)
    if core.settings.statistics:
        reached = Reached(manifest, core.catalogs.catalog, queries, report.progress, core.controllers.pace.limit)
        report_epoch(core.telemetry.reporter, core.storage, work, core.epochs.published, reached)
    core.ownership.check_fence()
    record = published_after(core.epochs.published, manifest, report, adoptions, queries, failures)
    publish(core.epochs, core.storage, record)
    watch.lap("publish")
    waiting = core.storage.waiting_bytes(record.intake)
    learning = partial(core.controllers.learn, core.catalogs.catalog, manifest, report, watch.total, waiting)
    failures.attempt("what is learnt", learning, attempts=1)  # the epoch is done, whatever it teaches
    with core.lock:
        core.telemetry.add(work, watch, takes_others(manifest, core.catalogs.catalog))
        quarantine(core.catalogs.log, record.failures)
        core.epochs.notify()
    names = {number: stream.name for number, stream in core.catalogs.catalog.streams.items()}
    core.telemetry.notices.epoch(epoch, report, watch.total, core.settings.target, names)


def _run(core: Core, manifest: Manifest) -> EpochReport:
    """Run the tasks of an epoch. Raises: EngineError when they fail."""
    path, epoch = core.path, manifest.epoch
    map_task, merge_task = partial(map_epoch, path, epoch), partial(merge_epoch, path, epoch)
    try:
        outcomes = core.executor.run(map_task, len(manifest.splits), merge_task, manifest.shards)
    except Exception as error:
        raise EngineError(f"epoch {epoch} failed: {error}") from error
    merges = tuple(from_json(MergeReport, told) for told, _ in outcomes)
    return EpochReport(merges[0].maps, merges)
