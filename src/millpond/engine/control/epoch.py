"""An epoch: begin it (a manifest), run its tasks, commit its tables, publish it. Each step can be repeated safely."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from millpond.engine.control.gathering import gather
from millpond.engine.control.proposal import Proposal, propose
from millpond.engine.control.reporting import Reached, report_epoch, takes_others, work_of
from millpond.engine.control.resharing import reshare
from millpond.engine.core import Core
from millpond.engine.intake.stages import learn
from millpond.engine.jobs.backfill import ready_backfills
from millpond.engine.jobs.tables import refresh_files
from millpond.engine.tasks.entry import map_epoch, merge_epoch
from millpond.manifests.adoptions import Adoption
from millpond.manifests.places import query_owner, results_folder
from millpond.manifests.records import Manifest, Published, QueryProgress, StreamCounts, read_manifest, write_manifest
from millpond.operators.derived.rows import pass_adopted
from millpond.progress import StreamProgress
from millpond.sources.derived import DerivedSource
from millpond.sources.system import SystemSource
from millpond.support.errors import EngineError
from millpond.tables import Segment, SegmentTable
from millpond.types import from_json


def begin_epoch(core: Core, force: bool = False, settle: bool = True) -> int | None:
    """Write the manifest of the next epoch if there is something to do; returns its number, or None.

    Args:
        force: make an epoch even without work.
        settle: False takes files that may still be growing (DRAIN).
    """
    refresh_files(core)
    with core.lock:
        if core.epochs.in_flight is not None:
            return core.epochs.in_flight
        reshare(core)
        proposal = propose(gather(core, force, settle))
        if proposal is None:
            return None
        return _begun(core, proposal)


def _begun(core: Core, proposal: Proposal) -> int:
    """Do what is proposed: record the events, ask who has a say, write the manifest."""
    catalog = core.catalogs.log.record(*proposal.events) if proposal.events else core.catalogs.catalog
    core.catalogs.log.snapshot(catalog)
    register = core.catalogs.register
    manifest = replace(
        proposal.manifest,
        register=register.ship(proposal.taken) if len(register) else 0,
        filters=core.controllers.filters.plans(catalog),
        opening=core.ownership.opening,
    )
    assert manifest.version == catalog.version
    core.ownership.check_fence()
    write_manifest(core.path, manifest)
    core.epochs.last_manifest = manifest.epoch
    return manifest.epoch


def _waiting(core: Core) -> int:
    """Bytes that have come from outside and no epoch has taken."""
    outside = [(s, r) for s, r in core.streams.items() if r.definition.options.source not in ("derived", "system")]
    taken = core.published.intake
    starts = {s: taken.get(str(s), 0) for s, _ in outside}
    return sum(i.size for s, r in outside for i in r.log.items(starts[s], starts[s] + 100_000))


def run_epoch(core: Core, epoch: int) -> None:
    """Run, commit and publish an epoch whose manifest is written; does nothing if it is published already.

    Raises: EngineError when its tasks fail.
    """
    if core.published.epoch >= epoch:
        return
    started = time.perf_counter()
    manifest = read_manifest(core.path, epoch)
    try:
        outcomes = core.executor.run(
            partial(map_epoch, core.path, epoch),
            len(manifest.splits),
            partial(merge_epoch, core.path, epoch),
            manifest.shards,
        )
    except Exception as error:
        raise EngineError(f"epoch {epoch} failed: {error}") from error
    ran = time.perf_counter()
    reports = [report for report, _ in outcomes]
    adoptions = [a for a in ready_backfills(core, published=False) if any(str(q) in manifest.adopt for q in a.queries)]
    _commit(core, manifest, reports, adoptions)
    committed = time.perf_counter()
    queries = _query_progress(manifest, reports)
    progress = {k: from_json(StreamProgress, v) for k, v in reports[0]["progress"].items()}
    durations = {"job": ran - started, "commit": committed - ran, "epoch": committed - started}
    work = work_of(manifest, reports, durations)
    if core.settings.statistics:
        reached = Reached(manifest, core.catalog, queries, progress, core.pace.limit)
        report_epoch(core.reporter, core.storage, work, core.published, reached)
    published = _publish(core, manifest, reports, adoptions, queries, progress)
    rows = sum(r["rows"] for r in reports[0]["reports"])
    stages: dict[str, float] = defaultdict(float)
    for report in reports:
        for name, seconds in report["seconds"].items():
            stages[name] += seconds
    for report in reports[0]["reports"]:
        for name, seconds in report["seconds"].items():
            stages[name] += seconds
    scans: dict[str, int] = defaultdict(int)
    for report in reports:
        for counts in report["scans"].values():
            for name, count in counts.items():
                scans[name] += count
    core.filters.learn(core.catalog, manifest.filters, epoch, manifest.clock, [*reports[0]["reports"], *reports])
    elapsed = time.perf_counter() - started
    stages |= {"job": ran - started, "commit": committed - ran, "publish": time.perf_counter() - committed}
    with core.lock:
        core.pace.learn(sum(r["bytes"] for r in reports[0]["reports"]), elapsed, _waiting(core))
        _learn_matching(core, reports[0]["reports"], elapsed)
        for report in reports[0]["reports"]:
            for owner, (count, keys) in report.get("frequent", {}).items():
                core.skew.learn(owner, count, keys)
        core.recent.append(
            {
                "epoch": epoch,
                "rows": rows,
                "seconds": elapsed,
                "stages": dict(stages),
                "longest": {"map": _longest(reports[0]["reports"]), "merge": _longest(reports)},
                "clock": published.clock,
            }
            | ({"scans": scans} if scans else {})
        )
        if takes_others(manifest, core.catalog):
            core.work.append(work)
        learn(core.catalog, core.stages, reports)
        core.load.observe()
        failures = {k: v for r in reports for k, v in r["failures"].items()}
        for query, reason in failures.items():
            if int(query) in core.catalog.queries and core.catalog.queries[int(query)].status != "quarantined":
                core.catalog_log.record(*core.catalog.quarantined(int(query), reason))
        core.notify()


def _learn_matching(core: Core, reports: list[dict[str, Any]], elapsed: float) -> None:
    """Tell the pace of matching what the task took that was longest at it: the others ran beside it."""
    longest = max((r for r in reports if "matched" in r), key=lambda r: r["seconds"]["matching"], default=None)
    if longest is not None:
        took = longest["seconds"]["matching"]
        core.matching_pace.learn(longest["rows"], took, elapsed - took, longest["matched"]["work"])


def _longest(reports: Sequence[dict[str, Any]]) -> float:
    """Seconds of the task that took longest."""
    return max((float(r["lasted"]) for r in reports), default=0.0)


def _commit(core: Core, manifest: Manifest, reports: list[dict[str, Any]], adoptions: list[Adoption]) -> None:
    """Commit what the tasks wrote; every commit carries the epoch, so that a repetition finds it done."""
    archive: dict[int, list[Segment]] = defaultdict(list)
    dead: dict[int, list[Segment]] = defaultdict(list)
    copies: dict[tuple[int, str], list[Segment]] = defaultdict(list)
    for report in reports[0]["reports"]:
        for copy, written in report["files"].get("copies", {}).items():
            copies[report["stream"], copy].append(from_json(Segment, written))
        for kind, into in (("archive", archive), ("dead", dead)):
            if kind in report["files"]:
                into[report["stream"]].append(from_json(Segment, report["files"][kind]))
    state = [from_json(Segment, s) for r in reports for s in r["written"]["state"]]
    results = [from_json(Segment, s) for r in reports for s in r["written"]["results"]]
    for adoption in adoptions:
        state += adoption.state
        results += [adoption.at(s, manifest.epoch) for s in adoption.results]
    for adoption in adoptions:
        paths = [os.path.join(results_folder(core.path), s.path) for s in adoption.results]
        for stream, files in adoption.dead.items():
            if int(stream) in core.streams:
                dead[int(stream)] += [adoption.at(s, manifest.epoch) for s in files]
        pass_adopted(core.path, core.catalog, manifest.epoch, {query_owner(q) for q in adoption.queries}, paths)
    merged = [path for paths in manifest.compact.values() for path in paths]
    jobs: list[tuple[SegmentTable, Sequence[Segment], Sequence[str]]] = [
        *((core.streams[s].archive, files, ()) for s, files in sorted(archive.items())),
        *((core.streams[s].dead, files, ()) for s, files in sorted(dead.items())),
        *((core.copy_table(s, copy), files, ()) for (s, copy), files in sorted(copies.items())),
    ]
    entries = [from_json(Segment, s) for report in reports[0]["reports"] for s in report["entries"].values()]
    if entries:
        jobs.append((core.summaries, entries, ()))
    if state or merged or manifest.expire:
        jobs.append((core.state, state, (*merged, *manifest.expire)))
    if results:
        jobs.append((core.results, results, ()))
    if len(jobs) == 1:
        jobs[0][0].commit(jobs[0][1], jobs[0][2], "epoch", manifest.epoch)
        return
    with ThreadPoolExecutor(max_workers=4) as pool:
        for done in [pool.submit(t.commit, add, gone, "epoch", manifest.epoch) for t, add, gone in jobs]:
            done.result()


def _publish(
    core: Core,
    manifest: Manifest,
    reports: list[dict[str, Any]],
    adoptions: list[Adoption],
    queries: dict[str, QueryProgress],
    progress: dict[str, StreamProgress],
) -> Published:
    counts = dict(core.published.counts)
    for report in reports[0]["reports"]:
        old = counts.get(str(report["stream"]), StreamCounts())
        counts[str(report["stream"])] = StreamCounts(
            old.rows + report["rows"],
            old.late + report["late"],
            old.dead + report["dead"],
            old.unknown + report["unknown"],
            old.bytes + report["bytes"],
        )
    for adoption in adoptions:
        for number, files in adoption.dead.items():
            old = counts.get(number, StreamCounts())
            counts[number] = replace(old, dead=old.dead + sum(s.rows for s in files))
    published = Published(
        manifest.epoch,
        manifest.clock,
        manifest.version,
        manifest.intake,
        progress,
        counts,
        queries,
        {},
        {"state": core.state.version, "results": core.results.version}
        | {f"streams/{r.definition.name}": r.archive.version for r in list(core.streams.values())},
        manifest.hot,
        manifest.tables,
        manifest.lookups,
    )
    core.ownership.check_fence()
    core.epochs.publish(published)
    for stream, runtime in list(core.streams.items()):
        runtime.landing.release(published.intake.get(str(stream), 0))
        if isinstance(runtime.source, DerivedSource | SystemSource):
            runtime.source.release(published.intake.get(str(stream), 0))
    return published


def _query_progress(manifest: Manifest, reports: list[dict[str, Any]]) -> dict[str, QueryProgress]:
    """Every query's progress: the manifest's, and what each shard made of it."""
    return {
        query: before.after([from_json(QueryProgress, r["queries"][query]) for r in reports if query in r["queries"]])
        for query, before in manifest.queries.items()
    }


#: Manifests and publish records that are kept behind the last epoch: the latter answer `AS OF EPOCH`.
KEPT = {"manifests": 50, "published": 500}


def prune_records(core: Core) -> None:
    """Remove manifests and publish records that nothing can ask for: beyond `KEPT`, and older than any back-fill."""
    first = min(
        (q.first_epoch - 1 for q in core.catalog.queries.values() if "backfilling" in (q.status, q.reason)),
        default=core.published.epoch,
    )
    for kind, keep in KEPT.items():
        folder = os.path.join(core.path, kind)
        for name in os.listdir(folder):
            if name.endswith(".json") and int(name[:-5]) < min(first, core.published.epoch - keep):
                os.unlink(os.path.join(folder, name))
