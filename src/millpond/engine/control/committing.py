"""Committing and publishing an epoch: files that its tasks wrote become visible, table by table and then at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache, partial

from millpond.archive.storage import Storage
from millpond.engine.intake.live_storage import LiveStorage
from millpond.manifests.adoptions import Adoption
from millpond.manifests.epochs import Epochs
from millpond.manifests.places import query_owner
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest, Published, StreamCounts
from millpond.manifests.task_reports import EpochReport
from millpond.operators.contract import Answering, Operator
from millpond.sources.derived_stream import DerivedSource
from millpond.sources.system import SystemSource
from millpond.tables import Segment, SegmentTable


@dataclass(frozen=True)
class Commit:
    """What one table gets and what goes from it."""

    table: SegmentTable
    add: Sequence[Segment]
    remove: Sequence[str] = ()


def commit(
    storage: Storage,
    operators: Iterable[Operator],
    manifest: Manifest,
    report: EpochReport,
    adoptions: Sequence[Adoption],
    failures: Failures,
) -> None:
    """Commit what the tasks wrote; every commit carries the epoch, so that a repetition finds it done.

    Args:
        operators: of the catalog. failures: of the epoch.
    """
    for operator in operators if adoptions else ():
        for adoption in adoptions:
            failures.attempt(operator.owner, partial(operator.adopt, storage.path, manifest.epoch, adoption))
    commits = [*of_streams(storage, manifest, report, adoptions), *of_queries(storage, manifest, report, adoptions)]
    if len(commits) == 1:
        commits[0].table.commit(commits[0].add, commits[0].remove, "epoch", manifest.epoch)
        return
    # Commits wait for the disk side by side.
    begun = [_waiting().submit(c.table.commit, c.add, c.remove, "epoch", manifest.epoch) for c in commits]
    wait(begun)
    for done in begun:
        done.result()


@cache
def _waiting() -> ThreadPoolExecutor:
    """Threads that commit."""
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="millpond-commit")


def of_streams(
    storage: Storage, manifest: Manifest, report: EpochReport, adoptions: Sequence[Adoption]
) -> list[Commit]:
    """What the tables of streams get: archives, dead letters, reduced copies and entries of summaries."""
    archive: dict[int, list[Segment]] = defaultdict(list)
    dead: dict[int, list[Segment]] = defaultdict(list)
    copies: dict[tuple[int, str], list[Segment]] = defaultdict(list)
    for task in report.maps:
        for copy, written in task.files.copies.items():
            copies[task.stream, copy].append(written)
        archive[task.stream] += [] if task.files.archive is None else [task.files.archive]
        dead[task.stream] += [] if task.files.dead is None else [task.files.dead]
    for adoption in adoptions:
        for stream, files in adoption.dead.items():
            if int(stream) in storage.streams:
                dead[int(stream)] += [adoption.at(s, manifest.epoch) for s in files]
    entries = [s for task in report.maps for s in task.entries.values()]
    return [
        *(Commit(storage.streams[s].archive, files) for s, files in sorted(archive.items()) if files),
        *(Commit(storage.streams[s].dead, files) for s, files in sorted(dead.items()) if files),
        *(Commit(storage.copy_table(s, copy), files) for (s, copy), files in sorted(copies.items())),
        *([Commit(storage.summaries, entries)] if entries else []),
    ]


def of_queries(
    storage: Storage, manifest: Manifest, report: EpochReport, adoptions: Sequence[Adoption]
) -> list[Commit]:
    """What the tables of state and results get, and which files of state go: merged ones, and those nobody needs."""
    state = [s for task in report.merges for s in task.state]
    results = [s for task in report.merges for s in task.results]
    for adoption in adoptions:
        state += adoption.state
        results += [adoption.at(s, manifest.epoch) for s in adoption.results]
    gone = [*(path for paths in manifest.compact.values() for path in paths), *manifest.expire]
    found = [Commit(storage.state, state, gone)] if state or gone else []
    return [*found, *([Commit(storage.results, results)] if results else [])]


def counts_after(
    before: dict[str, StreamCounts], report: EpochReport, adoptions: Sequence[Adoption]
) -> dict[str, StreamCounts]:
    """The counters of streams after an epoch."""
    found = dict(before)
    for task in report.maps:
        old = found.get(str(task.stream), StreamCounts())
        found[str(task.stream)] = StreamCounts(
            old.rows + task.rows,
            old.late + task.late,
            old.dead + task.dead,
            old.unknown + task.unknown,
            old.bytes + task.bytes,
        )
    for adoption in adoptions:
        for stream, files in adoption.dead.items():
            old = found.get(stream, StreamCounts())
            found[stream] = replace(old, dead=old.dead + sum(s.rows for s in files))
    return found


def queries_after(
    answering: Mapping[int, Answering], manifest: Manifest, report: EpochReport, failures: Failures
) -> dict[str, QueryProgress]:
    """Every query's progress after an epoch: the manifest's, and what each shard made of it.

    Args:
        answering: the operators that answer them. failures: of the epoch; gets the queries of which it cannot be told.
    """

    def after(query: str, before: QueryProgress, shards: list[QueryProgress]) -> QueryProgress:
        operator = answering.get(int(query))
        if operator is None or not shards:  # it was dropped meanwhile, or has nothing anywhere
            return before
        combining = partial(operator.combined, before, shards)
        return failures.attempt(query_owner(int(query)), combining) or before

    return {query: after(query, before, report.shards_of(query)) for query, before in manifest.queries.items()}


def published_after(
    before: Published,
    manifest: Manifest,
    report: EpochReport,
    adoptions: Sequence[Adoption],
    queries: dict[str, QueryProgress],
    failures: Failures,
) -> Published:
    """The publish record of an epoch, but for the versions of its tables.

    Args:
        before: the last one. queries: progress after the epoch. failures: of the epoch.
    """
    return Published(
        manifest.epoch,
        manifest.clock,
        manifest.version,
        manifest.intake,
        report.progress,
        counts_after(before.counts, report, adoptions),
        queries,
        hot=manifest.hot,
        versions=manifest.tables,
        lookups=manifest.lookups,
        failures=failures.reasons,
    )


def publish(epochs: Epochs, storage: LiveStorage, record: Published) -> None:
    """Publish an epoch whose tables are committed, and let go what sources kept for it."""
    streams = list(storage.streams.items())
    tables = {"state": storage.state.version, "results": storage.results.version}
    tables |= {f"streams/{r.definition.name}": r.archive.version for _, r in streams}
    epochs.publish(replace(record, tables=tables))
    for stream, runtime in streams:
        taken = record.intake.get(str(stream), 0)
        runtime.landing.release(taken)
        if isinstance(runtime.source, DerivedSource | SystemSource):
            runtime.source.release(taken)


__all__ = ["Commit", "commit", "publish", "published_after", "queries_after"]
