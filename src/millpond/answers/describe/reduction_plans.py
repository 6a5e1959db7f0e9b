"""What EXPLAIN says of a reduced query: how much is left out and why, what is read, and what a full scan would read."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from millpond.archive.design.reductions import END, START, Step
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_plans import plan_scan
from millpond.archive.planning.scan_tasks import ScanPlan
from millpond.archive.planning.scans import Scan, description
from millpond.archive.retention import floors_of, retained_from
from millpond.catalog import Standing
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Published
from millpond.operators.registry import answering_kind
from millpond.progress import StreamProgress
from millpond.types import StreamQuery, from_json
from millpond.types.instants import moment
from millpond.types.plan_nodes import Fact, PlanNode, said
from millpond.types.reduction_forms import interval_text, reduction_text

#: Steps that are listed one by one.
_STEPS = 8


def standing_reduction(published: Published, standing: Standing) -> list[PlanNode]:
    """What a standing query has left out of the past; nothing for one that reads everything, or summaries."""
    if not standing.definition.query.estimated or (reduction := standing.windowed.reduce) is None:
        return []
    known = published.queries.get(str(standing.id), QueryProgress())
    left = answering_kind(standing.definition.query).left_out(known)
    whole = f"rows from epoch {standing.first_epoch} on are live and whole; those before are read reduced"
    found = [said("whole", whole)]
    found += [Fact("back-fill", left.read)] if left.read else []
    if left.stretches:
        stretches = ", ".join(f"{moment(low)} to {moment(high)}" for low, high in left.stretches[:_STEPS])
        found.append(said("estimates", f"windows that meet {stretches} are estimates (exact is false)"))
    for low, high, interval in left.coarse[:_STEPS]:
        shown = interval_text(interval)
        found.append(said("coarse", f"rows from {moment(low)} to {moment(high)} are seen by intervals of {shown}"))
    return [PlanNode("reduce", f"reduce: {reduction_text(reduction)}", tuple(found))]


def planned_reduction(archives: Archives, query: StreamQuery) -> list[PlanNode]:
    """What an ad hoc query would leave out, and what it would read."""
    stream = archives.catalog.stream(query.stream)
    if query.reduce is None or not query.reduce.samples or stream is None:
        return []
    title = f"reduce: {reduction_text(query.reduce)}"
    if query.reduce.function == "error":
        more = "a first scan reads about 1,000 rows; more are read until every interval is narrow enough"
        return [PlanNode("reduce", title, (said("scans", more),))]
    if query.reduce.function in archives.catalog.reductions:
        called = f"{query.reduce.function}() is called for each run of the archive when it is read"
        return [PlanNode("reduce", title, (said("scans", called),))]
    progress = archives.published.progress.get(str(stream.id), StreamProgress())
    scan = Scan(query.reduce, progress.high, told=False)
    if query.as_retained:
        scan.floors = {stream.id: floors_of(stream, retained_from(stream, archives.published))}
    with archives.pinned():
        plan = plan_scan(archives, [stream], Range(epoch=archives.published.epoch), scan)
    load = [Fact("load", scan.reason)] if scan.reason else []
    return [PlanNode("reduce", title, (*_steps(scan.steps), *load, _reads(plan, scan)))]


def _steps(steps: tuple[Step, ...]) -> list[Fact]:
    """What is dropped where."""
    found = []
    for step in steps[:_STEPS]:
        low = "" if step.low == START else f" from {moment(step.low)}"
        high = "" if step.high == END else f" before {moment(step.high)}"
        where = f"rows{low}{high}" if low or high else "all rows"
        seen = f"seen by intervals of {interval_text(step.interval)}" if step.interval else ""
        found.append(said("step", f"{where}: {seen or f'{100 * step.drop:.4g} % dropped'}"))
    more = len(steps) - _STEPS
    return found + ([said("step", f"and {more} steps more")] if more > 0 else [])


def _reads(plan: ScanPlan, scan: Scan) -> Fact:
    """Which copies are chosen, and how much of them."""
    copies: Counter[str] = Counter()
    groups = size = 0
    for piece in (p for task in plan.tasks for split in task.splits for p in split.pieces):
        copies[piece.copy or "the archive"] += 1
        groups += piece.groups or 0
        size += piece.size
    named = ", ".join(f"{count} runs of {name}" for name, count in sorted(copies.items()))
    part = f", {groups} blocks of randomized runs" if groups else ""
    read = f"reads {named or 'nothing'}{part}: about {size:,} of {scan.size:,} bytes in {scan.sections} runs"
    return said("reads", read)


def analyzed_reduction(answer: pa.Table) -> list[PlanNode]:
    """What a reduced answer was made of, from its metadata: copies, runs, row groups, bytes, against a full scan."""
    told = description(answer)
    if told is None:
        return []
    read: dict[str, Any] = told["read"]
    runs = [
        said("runs", f"runs read of {copy or 'the archive'}: {count}")
        for copy, count in sorted(read["sections"].items())
    ]
    pilots = f", {told['pilots']} scans to decide included" if told["pilots"] else ""
    exact = "exact: nothing was left out"
    found = (
        *_steps(tuple(from_json(Step, s) for s in told["steps"])),
        *runs,
        Fact("row groups read", f"{read['groups']} of {read['full_groups']} of a full scan{pilots}"),
        Fact("bytes read", f"{read['bytes']:,} of {read['full_bytes']:,} of a full scan{pilots}"),
        Fact("rows read", f"{read['read']:,}, kept: {read['rows']:,} of {told['rows']:,}"),
        said("exact", exact if told["exact"] else "not exact: counts, sums and averages are estimates"),
    )
    why = f" ({told['reason']})" if told["reason"] else ""
    return [PlanNode("reduce", f"reduce: {told['reduction']}{why}", found)]


__all__ = ["analyzed_reduction", "planned_reduction", "standing_reduction"]
