"""The merge step of a shard: every operator takes in what map tasks sent, answers, and says what is to be stored."""

from __future__ import annotations

import json
import os
import time as clock
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from millpond.catalog import Catalog
from millpond.catalog.unions import with_unions
from millpond.manifests.places import results_folder, state_folder
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest
from millpond.manifests.task_reports import MapReport, MergeReport
from millpond.operators.contract import CompactTask, MergeTask, Operator, Step, least_need
from millpond.operators.registry import Operators
from millpond.progress import FOREVER, NEVER, ItemSummary, StreamProgress, absorb, absorb_announced
from millpond.tables import Chunk, DurableWrites, Segment, read_chunks, write_chunks
from millpond.tables.chunks import unpack
from millpond.tables.executors import Parcel
from millpond.tables.shard_cache import forget
from millpond.types import StreamDefinition, from_json


def progress_after(manifest: Manifest, catalog: Catalog, reports: Iterable[MapReport]) -> dict[str, StreamProgress]:
    """Progress of every stream, and of every union that is read, after the epoch: the same in every shard."""
    summaries: dict[int, list[ItemSummary]] = defaultdict(list)
    for report in sorted(reports, key=lambda r: r.task):
        summaries[report.stream] += report.summaries
    after = {str(s.id): _stream_after(manifest, s, summaries[s.id]) for s in catalog.streams.values()}
    return with_unions(catalog, after, manifest.progress)


def _stream_after(manifest: Manifest, stream: StreamDefinition, items: Sequence[ItemSummary]) -> StreamProgress:
    """A stream's progress after the epoch: as its source announces, or as its own rows say."""
    key = str(stream.id)
    before, announced = manifest.progress.get(key, StreamProgress()), manifest.bounds.get(key, NEVER)
    if stream.derived is None:
        arrival, ends = manifest.arrivals.get(key), stream.id in manifest.ends
        return absorb(before, stream.options, items, manifest.clock, ends, arrival)
    if stream.derived.own_progress:
        return absorb(before, stream.options, items, manifest.clock, announced >= FOREVER)
    return absorb_announced(before, items, announced, manifest.group_bounds.get(key, {}))


def merge_shard(
    pond: str,
    manifest: Manifest,
    catalog: Catalog,
    operators: Operators,
    shard: int,
    parcels: Sequence[Parcel],
) -> MergeReport:
    """Run the merge task of one shard; its report names the segments to commit."""
    started = clock.perf_counter()
    reports = [from_json(MapReport, json.loads(bytes(p.payload))) for p in parcels if not p.owner]
    failures = Failures(catalog, f"epoch {manifest.epoch}, shard {shard}")
    for owner, reason in (each for report in reports for each in report.failures.items()):
        failures.add(owner, reason)
    progress = progress_after(manifest, catalog, reports)
    segments = [s for s in manifest.state if s.shard == shard]
    task = MergeTask(pond, manifest, catalog, shard, progress, segments, failures)
    done = _merged(task, operators, parcels)
    given: dict[str, int] = defaultdict(int)
    for chunk in done.answers:
        given[chunk.owner] += chunk.table.num_rows
    stored = (failures.attempt(c.owner, partial(operators.storing[c.owner].logged, c)) for c in done.answers)
    answers = [chunk for chunk in stored if chunk is not None]
    answered = clock.perf_counter()
    state, results = _write(task, operators, done.state, answers)
    written = clock.perf_counter()
    seconds = {"merge": done.merged, "answer": answered - started - done.merged, "write": written - answered}
    return MergeReport(
        shard,
        tuple(replace(r, summaries=()) for r in reports) if shard == 0 else (),
        progress if shard == 0 else {},
        done.progress,
        failures.reasons,
        state,
        results,
        done.scans,
        done.filters,
        done.spent,
        given,
        done.passed,
        seconds,
        clock.perf_counter() - started,
    )


def _merged(task: MergeTask, operators: Operators, parcels: Sequence[Parcel]) -> Step:
    """What all operators give together. One that fails gives nothing."""
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    for parcel in sorted((p for p in parcels if p.owner), key=lambda p: p.task):
        parts[parcel.owner].append(unpack(parcel.payload))
    done = Step()
    for operator in operators:
        if operator.first_epoch > task.manifest.epoch or operator.owner in task.failures:
            continue
        step = task.failures.attempt(operator.owner, partial(_step, operator, task, parts.get(operator.owner, ())))
        if step is not None:
            done.add(step)
            task.answers.extend(step.answers)
    forget(task.pond, operators.storing)
    return done


def _step(operator: Operator, task: MergeTask, parts: Sequence[pa.Table]) -> Step:
    """What an operator gives in a shard."""
    return operator.merge(task, parts) if operator.in_shard(task.shard, task.manifest.shards) else Step()


def _write(
    task: MergeTask, operators: Operators, state: Sequence[Chunk], answers: Sequence[Chunk]
) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Write state and answers, and put state files together. Returns the segments of state and results to commit."""
    written: list[Segment] = []
    results: list[Segment] = []
    name, writes = f"e{task.manifest.epoch:012d}-{task.shard:04d}.parquet", DurableWrites()
    # What never expires stands in a file of its own.
    for file, chunks in ((name, [c for c in state if not _is_timeless(c)]),
                         (f"{name[:-8]}g.parquet", [c for c in state if _is_timeless(c)])):  # fmt: skip
        if chunks:
            written.append(write_chunks(state_folder(task.pond), file, chunks, task.shard, writes=writes))
    if answers:
        results.append(write_chunks(results_folder(task.pond), name, answers, task.shard, writes=writes))
    compacted = _compact(task, operators, writes)
    if compacted is not None:
        written.append(compacted)
    writes.finish()
    return tuple(written), tuple(results)


def _is_timeless(chunk: Chunk) -> bool:
    return chunk.low >= FOREVER


def _compact(task: MergeTask, operators: Operators, writes: DurableWrites) -> Segment | None:
    """Merge the state files that the manifest names into one, without what nobody can need any more."""
    manifest, shard = task.manifest, task.shard
    names = manifest.compact.get(str(shard), ())
    if not names:
        return None
    chosen = [s for s in manifest.state if s.path in names]
    by_owner: dict[tuple[str, str], list[Chunk]] = defaultdict(list)
    for chunk in read_chunks([os.path.join(state_folder(task.pond), s.path) for s in chosen]):
        if (operator := operators.storing.get(chunk.owner)) is not None:
            kind = task.failures.attempt(operator.owner, partial(operator.compacted_as, chunk.kind))
            by_owner[chunk.owner, kind or chunk.kind].append(chunk)
    whole = len(chosen) == sum(s.shard == shard for s in manifest.state)
    job = CompactTask(task.pond, manifest, task.catalog, shard, whole, task.failures)
    chunks: list[Chunk] = []
    for (owner, kind), group in sorted(by_owner.items()):
        operator = operators.storing[owner]
        compacting = partial(_compacted, operator, job, owner, kind, group)
        fewer = task.failures.attempt(operator.owner, compacting)
        chunks += group if fewer is None else fewer
    level, last = 1 + max(s.level for s in chosen), max(s.last_epoch for s in chosen)
    name = f"c{manifest.epoch:012d}-{shard:04d}.parquet"
    return write_chunks(state_folder(task.pond), name, chunks, shard, level, last, writes)


def _compacted(operator: Operator, task: CompactTask, owner: str, kind: str, chunks: Sequence[Chunk]) -> list[Chunk]:
    return list(operator.compact(task, owner, kind, chunks))


def end_of_need(
    operators: Operators,
    progress: Mapping[str, StreamProgress],
    queries: Mapping[str, QueryProgress],
    failures: Failures,
) -> int:
    """The event time before which no operator needs any state; NEVER while that is not known, or one fails."""
    found = [failures.attempt(o.owner, partial(o.needs, progress, queries, failures)) for o in operators]
    return NEVER if any(o.owner in failures for o in operators) else least_need(found)
